//! The HTTP edge: JSON over HTTP/1.1, as INTERFACE.md's table has it.
//!
//! [`serve`] owns the listener and the connections, [`App`] what the endpoints share. A request
//! is read within bounds (`reading`), asked of the limiter, and answered by
//! [`super::protocol`]'s table (`answer`). Never answers from a part of a request: what can't
//! be read whole is a 400 that changed nothing.

mod admin;
mod answer;
mod app;
mod auth;
mod batch;
mod check;
mod guard;
mod patience;
mod reading;
mod routes;
mod server;
mod status;

pub use app::App;
pub use routes::router;
pub use server::{Ended, Peer, serve};
