//! The server and the command line tool around the library `tidegate`.
//!
//! [`config`] holds what the server is told, [`edge`] speaks protocols, [`telemetry`] says what
//! happens, and [`cli`] puts them together. Never decides: the library's `Limiter` does.

pub mod cli;
pub mod config;
pub mod edge;
pub mod telemetry;
