//! The command `tidegate` on clusters of its own: `chaos`, and several processes on one limit.

mod command;
mod processes;
mod scenarios;
