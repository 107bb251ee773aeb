//! The limiter in one process, counting in memory: `cargo run --example embedded`.

use tidegate::model::Policies;
use tidegate::{Check, Limiter, MemoryStore};

const POLICIES: &str = "
version: 1
policies:
  video_top:
    algorithm: sliding_log
    global: 5/min
    region: 3/min
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder()
        .policies(Policies::from_yaml(POLICIES)?)
        .store(MemoryStore::default())
        .build()?;
    for region in ["us", "us", "us", "us", "eu", "eu", "eu"] {
        let decision = limiter
            .check(&Check::new("video_top", "key-1").region(region))
            .await?;
        match (decision.is_admitted(), decision.retry_after()) {
            (true, _) => println!("{region}: admitted"),
            (false, Some(wait)) => println!("{region}: denied, retry after {wait} s"),
            (false, None) => println!("{region}: denied"),
        }
    }
    Ok(())
}
