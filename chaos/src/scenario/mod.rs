//! Scenarios: a fault, the traffic under it, and what must hold all the same.
//!
//! [`SCENARIOS`] lists them; a [`Runner`] runs them. Each run has a cluster, instances and
//! subjects of its own, so none sees what another left. Never hurts a cluster that it did not
//! start: there only those acts are done that a client could do by accident.

mod catalog;
mod context;
mod environment;
mod promise;
mod run;
mod script;
mod traffic;

pub use catalog::{Act, SCENARIOS, Scenario, scenario};
pub use context::{FaultTimes, RunContext};
pub use environment::{Against, Environment, EnvironmentError, ExternalCluster};
pub use promise::{Assessment, Lost, Promise, Recovery};
pub use run::{LATENESS_MAX, Phase, RunId, Runner, ScenarioError};
pub use traffic::{INSTANCES, Traffic};
