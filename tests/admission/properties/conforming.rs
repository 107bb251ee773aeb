//! A client that keeps to its ceilings in every window meets no denial but the store's.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Check;
use tidegate::admission::LocalStage;
use tidegate::model::{Algorithm, Cost, Source};
use tokio::time::Instant;

use super::{Dice, paused, policy};
use crate::world::{MS, World, source};

/// A client that keeps to its ceilings in every window, by the arrival of its checks.
struct Conforming {
    limit: u64,
    region_limit: Option<u64>,
    window: Duration,
    sent: Vec<(Instant, u64, Cost)>,
}

impl Conforming {
    fn room(&self, region: u64) -> u64 {
        let now = Instant::now();
        let counted = || {
            let recent = move |s: &&(Instant, u64, Cost)| now.duration_since(s.0) < self.window;
            self.sent.iter().filter(recent)
        };
        let all: u64 = counted().map(|s| s.2).sum();
        let here: u64 = counted().filter(|s| s.1 == region).map(|s| s.2).sum();
        let global = self.limit - all;
        self.region_limit
            .map_or(global, |limit| global.min(limit - here))
    }
}

/// One schedule of one conforming client: bursts, pauses, any node, any region, any cost.
async fn conform(world: &World, subject: u64, mut client: Conforming, mut dice: Dice) {
    for _ in 0..4 + dice.roll(6) {
        let pause = match dice.roll(4) {
            0 => Duration::ZERO,
            1 => MS * dice.roll(30) as u32,
            2 => client.window,
            _ => MS * dice.roll(client.window.as_millis() as u64) as u32,
        };
        tokio::time::sleep(pause).await;
        let region = dice.roll(2);
        let room = client.room(region);
        if room == 0 {
            continue;
        }
        let cost = if dice.one_in(3) {
            room
        } else {
            1 + dice.roll(room)
        };
        client.sent.push((Instant::now(), region, cost));
        let check = Check::new("p", format!("k{subject}"))
            .region(["us", "eu"][region as usize])
            .cost(cost);
        let node = dice.roll(world.nodes.len() as u64) as usize;
        let decision = world.nodes[node].check(&check).await;
        assert_ne!(
            source(&decision),
            Source::NodeCeiling,
            "{check:?} after {:?}",
            client.sent
        );
        if source(&decision) == Source::DenialCache {
            let truth = world.peek(&check).await;
            assert!(!truth.is_admitted(), "{check:?}: {decision:?}");
        }
    }
}

/// `clients` schedules in one world.
fn conforming_clients(seed: u64, clients: u64) {
    let mut dice = Dice(seed);
    let algorithms = [Algorithm::SlidingLog, *dice.pick(&Algorithm::ALL)];
    let (limit, secs) = (1 + dice.roll(12), 1 + dice.roll(3));
    let region_limit = dice.one_in(2).then(|| 1 + dice.roll(limit));
    let policy = policy(
        Some((*dice.pick(&algorithms), limit)),
        region_limit.map(|limit| (*dice.pick(&algorithms), limit)),
        secs,
    );
    paused(async {
        let nodes = 1 + dice.roll(3) as usize;
        // With the denial cache on, a lone client's refused check asks the store, which would hide
        // a node ceiling that is too strict: in half of the schedules that ceiling has the last word.
        let mut stage = LocalStage::default();
        stage.denial_cache = !dice.one_in(2);
        let world = World::new(&[policy], nodes, &stage);
        for node in &world.nodes {
            let delay = MS * dice.roll(3) as u32;
            node.weather(|w| w.delay = delay);
        }
        let world = Arc::new(world);
        let mut started = Vec::new();
        for subject in 0..clients {
            let client = Conforming {
                limit,
                region_limit,
                window: Duration::from_secs(secs),
                sent: Vec::new(),
            };
            let (world, dice) = (Arc::clone(&world), Dice(dice.next()));
            started.push(tokio::spawn(async move {
                conform(&world, subject, client, dice).await;
            }));
        }
        for one in started {
            if let Err(failure) = one.await {
                panic!("world {seed}: {failure}");
            }
        }
    });
}

#[test]
fn a_hundred_thousand_conforming_clients_are_never_denied_by_the_local_stage_alone() {
    std::thread::scope(|scope| {
        for half in 0..2 {
            scope.spawn(move || {
                for seed in 0..250 {
                    conforming_clients(half * 250 + seed, 200);
                }
            });
        }
    });
}
