//! What the server tells about itself: logs ([`logs`]) and instruments ([`instruments`]).
//!
//! Never a secret in a line: no token, no password, and of a subject (often an API key) no more
//! than a [`SubjectTag`], which only this process can make, and only at level `debug`. Never a
//! subject, a region or a charge id in a label.

pub mod instruments;
pub mod logs;
mod stage;
mod subject_tag;
mod throttle;

pub use instruments::Instruments;
pub use subject_tag::{SubjectTag, SubjectTagger};
pub use throttle::Throttle;
