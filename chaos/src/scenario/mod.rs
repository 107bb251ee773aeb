//! Scenarios: a fault, the traffic under it, and what must hold all the same.
//!
//! [`SCENARIOS`] lists them; a [`Runner`] runs them. Each run has a cluster, instances and
//! subjects of its own, so none sees what another left. Never hurts a cluster that it did not
//! start: there only those faults are injected that a client could do by accident.

mod catalog;
mod environment;
mod promise;
mod run;
mod script;
mod traffic;

pub use catalog::{SCENARIOS, Scenario, scenario};
pub use environment::{Against, EnvironmentError};
pub use promise::{Lost, Promise, Recovery};
pub use run::{LATENESS_MAX, Phase, RunId, Runner, ScenarioError};
