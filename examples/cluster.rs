//! One of a fleet's nodes, on Redis or Valkey:
//! `cargo run --example cluster --features cluster -- redis://127.0.0.1:7001`.

use std::sync::Arc;
use std::time::Duration;

use tidegate::admission::LocalStage;
use tidegate::limiter::FleetOptions;
use tidegate::model::Policies;
use tidegate::store::cluster::{ClusterOptions, ClusterStore};
use tidegate::{Check, Limiter};

const POLICIES: &str = "
version: 1
policies:
  video_top:
    algorithm: sliding_log
    global: 1000/min
    region: 300/min
    on_outage: local
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let url = url.ok_or("name a server: cluster redis://127.0.0.1:7001")?;
    let store = ClusterStore::connect(ClusterOptions::from_url(&url)?)?;
    store.wait_ready(Duration::from_secs(10)).await?;
    let limiter = Limiter::builder()
        .policies(Policies::from_yaml(POLICIES)?)
        .store(store)
        .local_stage(LocalStage::default())
        // The fewest nodes that share the store; the fleet counts those that live.
        .nodes(2)
        .deadline(Duration::from_millis(50))
        .build()?;
    let limiter = Arc::new(limiter);
    let _member = limiter.join_fleet(FleetOptions::default());
    let check = Check::new("video_top", "key-1").region("us");
    let (mut admitted, mut denied) = (0, 0);
    for _ in 0..500 {
        match limiter.check(&check).await?.is_admitted() {
            true => admitted += 1,
            false => denied += 1,
        }
    }
    println!("{admitted} admitted, {denied} denied");
    Ok(())
}
