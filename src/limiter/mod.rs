//! [`Limiter`]: one snapshot of the policies, one reading of the clock, one call of admission.
//! Never counts anything itself.

mod builder;
mod error;
#[cfg(feature = "local-stage")]
mod membership;
mod operations;

pub use builder::{DEADLINE_DEFAULT, LimiterBuilder};
pub use error::{BuildError, CheckError};
#[cfg(feature = "local-stage")]
pub use membership::{FleetMember, FleetOptions};
pub use operations::Limiter;
