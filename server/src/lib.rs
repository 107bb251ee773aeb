//! The server and the command line tool around the library `tidegate`.
//!
//! [`edge`] speaks protocols, [`telemetry`] says what happens, [`cli`] puts both together. Never
//! decides: the library's `Limiter` does.

pub mod cli;
pub mod edge;
pub mod telemetry;
