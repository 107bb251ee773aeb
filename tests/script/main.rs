//! The scripts on a real server, without an adapter: what they answer, what they leave behind,
//! what they refuse.

mod basics;
mod rig;
mod server;
