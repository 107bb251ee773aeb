//! What the local stage saves and what a check takes, on a cluster of six nodes on this machine
//! with four limiters: a hot key while it has room and over its whole window, an attacker, Zipf's
//! law, a far store, a paused shard.
//!
//! `cargo bench --bench local_stage [-- hot window attacker zipf far paused]`. Machines differ, and so do
//! minutes: only what stands in one table is to be compared.

mod attacker;
mod far;
mod fleet;
mod hot;
mod paused;
mod zipf;

#[tokio::main]
async fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if is_wanted("hot") {
        hot::run().await;
    }
    if is_wanted("window") {
        hot::run_window().await;
    }
    if is_wanted("attacker") {
        attacker::run().await;
    }
    if is_wanted("zipf") {
        zipf::run().await;
    }
    if is_wanted("far") {
        far::run().await;
    }
    if is_wanted("paused") {
        paused::run().await;
    }
}
