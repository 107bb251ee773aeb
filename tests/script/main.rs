//! The scripts on a real server, without an adapter: what they answer, what they leave behind,
//! what they refuse.

#[path = "../common/mod.rs"]
mod common;

#[path = "../properties/case.rs"]
mod case;
#[path = "../properties/judge.rs"]
mod judge;

mod bare;
mod basics;
mod histories;
mod left_behind;
mod lint;
mod long_logs;
mod rig;
mod server;
mod server_clock;
mod ways;
