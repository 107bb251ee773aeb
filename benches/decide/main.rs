//! Server time of a check, by `INFO commandstats`, against the textbook's script on the same keys
//! in the same run. `TIDEGATE_REDIS_SERVER` names another server's binary.
//!
//! Machines and their other load differ, so only ratios count: both scripts run by turns, in
//! short rounds, and each one's quickest round stands for it. `-- quick` makes two rounds, to see
//! that it runs; its figures mean nothing.

mod calls;
mod server;

use calls::{Calls, Occasion};
use server::Server;

const ROUNDS: usize = 40;

fn main() {
    let is_quick = std::env::args().any(|arg| arg == "quick");
    let rounds = if is_quick { 2 } else { ROUNDS };
    let mut server = Server::start();
    println!("server time of a check in microseconds, two sliding logs, a fresh unit\n");
    println!("|     limit | occasion       | textbook | tidegate | ratio | floor |");
    println!("|----------:|----------------|---------:|---------:|------:|------:|");
    for (limit, subjects) in [(100, 2_000), (10_000, 40), (1_000_000, 1)] {
        for occasion in Occasion::ALL {
            let calls = Calls::new(limit, subjects, occasion);
            let [textbook, ours] = measure(&mut server, &calls, rounds);
            println!(
                "| {limit:>9} | {:<14} | {textbook:>8.2} | {ours:>8.2} | {:>5.2} | {:>5.2} |",
                occasion.name(),
                ours / textbook,
                occasion.floor(),
            );
        }
    }
    println!("\nother checks, limit 10,000, admitted unless said otherwise\n");
    println!("| check                                     | a check | of the textbook |");
    println!("|-------------------------------------------|--------:|----------------:|");
    let textbook = Calls::new(10_000, 40, Occasion::Admitted);
    for (name, commands, checks) in calls::others() {
        textbook.prepare(&mut server);
        let mut best = [f64::MAX; 2];
        for round in 0..rounds / 2 {
            let base = textbook.textbook(&mut server, round);
            best[0] = best[0].min(server.server_time_of(&base));
            let commands = commands(&mut server, round);
            best[1] = best[1].min(server.server_time_of(&commands) / checks);
        }
        println!(
            "| {name:<41} | {:>7.2} | {:>15.2} |",
            best[1],
            best[1] / best[0]
        );
    }
}

fn measure(server: &mut Server, calls: &Calls, rounds: usize) -> [f64; 2] {
    calls.prepare(server);
    let mut best = [f64::MAX; 2];
    for round in 0..rounds {
        let commands = calls.textbook(server, round);
        best[0] = best[0].min(server.server_time_of(&commands));
        let commands = calls.ours(server, round);
        best[1] = best[1].min(server.server_time_of(&commands));
    }
    best
}
