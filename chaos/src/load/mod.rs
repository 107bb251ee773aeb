//! Known traffic against a store under faults: several limiter instances, each a process of its
//! own, each with its own connections, clock and local stage, as in production.
//!
//! The parent (`Instances`) hands each child a [`LoadPlan`], lets all begin at one instant and
//! collects their histories. Children never outlive their parent: its end is their standard
//! input's end.

mod clock;
mod drive;
mod instance;
mod instances;
mod plan;
mod stall;

pub use drive::{DriveError, Records, drive, records, wall_us};
pub use instance::{InstanceError, run_instance};
pub(crate) use instances::Instances;
pub use instances::{InstanceProgram, InstancesError};
pub use plan::{ClockStep, LoadPlan, PlanError, PolicyPlan, Stream, policies};
