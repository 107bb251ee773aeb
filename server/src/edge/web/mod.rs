//! The HTTP edge: JSON over HTTP/1.1, as `docs/http.md` has it.
//!
//! [`Server`] owns the listeners, `door` the connections of each, [`App`] what the endpoints share. A request
//! is read within bounds (`request`), asked of the limiter, and answered by
//! `super::protocol`'s table (`answer`). Never answers from a part of a request: what can't
//! be read whole is a 400 that changed nothing.

mod admin;
mod answer;
mod app;
mod auth;
mod batch;
mod check;
mod door;
mod request;
mod routes;
mod server;
mod status;

pub use app::App;
pub use routes::{Paths, router};
pub use server::{Ended, Server};
