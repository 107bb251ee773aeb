//! Known traffic against a store under faults: several limiter instances, each a process of its
//! own, each with its own connections, clock and local context, as in production.
//!
//! The parent ([`Instances`]) hands each child a [`LoadPlan`], lets all begin at one instant and
//! collects their histories. Children never outlive their parent: its end is their standard
//! input's end.

mod clock;
mod drive;
mod instance;
mod instances;
mod plan;
mod stall;

pub use clock::SteppingClock;
pub use drive::{DriveError, Records, STUCK_AFTER, drive, records, wall_us};
pub use instance::{InstanceError, InstanceReport, ParentSignals, read_plan, serve};
pub use instances::{Collected, InstanceProgram, Instances, InstancesError};
pub use plan::{ClockStep, Due, LoadPlan, PlanError, PolicyPlan, RATE_MAX, Stream, policies};
pub use stall::{Stall, StallWatch};
