//! The edges over real TCP: HTTP, a real nginx before a page, the PHP and Python snippets.

mod admin;
mod batch;
mod bounds;
mod checks;
mod client;
mod forwarded;
mod malformed;
mod nginx;
mod outage;
mod server;
mod snippets;
mod status;
mod stopping;
