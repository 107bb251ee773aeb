//! What the server tells about itself: logs ([`logs`]) and instruments ([`Instruments`]).
//!
//! Never a secret in a line: no token, no password, and of a subject (often an API key) no more
//! than a subject tag, which only this process can make, and only at level `debug`. Never a
//! subject, a region or a charge id in a label.

pub(crate) mod instruments;
pub mod logs;
mod stage;
mod subject_tag;
mod throttle;

pub use instruments::Instruments;
pub(crate) use subject_tag::SubjectTagger;
pub(crate) use throttle::Throttle;
