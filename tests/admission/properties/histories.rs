//! Many callers, nodes and faults: never over, in time, and nothing left behind.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::admission::LocalStage;
use tidegate::model::{Algorithm, Cost, OnOutage, Policy, Source};
use tidegate::{Check, Decision};
use tokio::time::Instant;

use super::{Dice, paused, policy};
use crate::world::{DEADLINE, MS, World, leased, on_outage};

/// What callers saw, and the way it is checked against the store.
#[derive(Default)]
struct Seen {
    decisions: Mutex<Vec<(Instant, String, Decision)>>,
}

/// A caller that asks a few times, and goes away in the midst of it now and then.
async fn caller(
    world: Arc<World>,
    seen: Arc<Seen>,
    mut dice: Dice,
    has_faults: bool,
    cost_max: u64,
) {
    for _ in 0..3 + dice.roll(6) {
        tokio::time::sleep(MS * dice.roll(120) as u32).await;
        let region = *dice.pick(&["us", "eu"]);
        let mut check = Check::new("p", "a")
            .region(region)
            .cost(1 + dice.roll(cost_max));
        if dice.one_in(4) {
            // The same id always asks for the same.
            let id = dice.roll(40);
            check = Check::new("p", "a")
                .region("us")
                .cost(1 + id % cost_max)
                .id(format!("mine-{id}"));
        }
        let patience = if dice.one_in(3) {
            MS * dice.roll(8) as u32
        } else {
            DEADLINE * 2
        };
        let node = &world.nodes[dice.roll(world.nodes.len() as u64) as usize];
        let begun = Instant::now();
        let Ok(decision) = tokio::time::timeout(patience, node.check(&check)).await else {
            assert!(patience < DEADLINE, "no answer by the deadline");
            continue;
        };
        assert!(begun.elapsed() <= DEADLINE, "{:?} late", begun.elapsed());
        if decision.facts().degraded {
            assert!(has_faults, "{decision:?}");
        }
        let region = check.region.clone().unwrap_or_default();
        let mut decisions = seen.decisions.lock().unwrap();
        decisions.push((Instant::now(), region, decision));
    }
}

/// Weather that changes now and then, and clears up in the end.
async fn storms(world: Arc<World>, mut dice: Dice) {
    for _ in 0..6 {
        tokio::time::sleep(MS * dice.roll(120) as u32).await;
        let node = &world.nodes[dice.roll(world.nodes.len() as u64) as usize];
        let fault = dice.roll(4);
        node.weather(|w| {
            w.is_cut = fault == 0;
            w.loses_answers = fault == 1;
            w.refuses = fault == 2;
        });
    }
    for node in &world.nodes {
        node.weather(|w| (w.is_cut, w.loses_answers, w.refuses) = (false, false, false));
    }
}

struct Plan {
    policy: Policy,
    stage: LocalStage,
    limit: u64,
    region_limit: u64,
    window: Duration,
    faults: bool,
}

fn plan(dice: &mut Dice, secs: u64, faults: bool) -> Plan {
    let limit = 20 + dice.roll(200);
    let region_limit = limit / 2 + dice.roll(limit / 2);
    let log = Algorithm::SlidingLog;
    let mut policy = policy(Some((log, limit)), Some((log, region_limit)), secs);
    if dice.one_in(2) {
        policy = leased(policy, 20 + dice.roll(200), 1 + dice.roll(500) as u16);
    }
    policy = on_outage(policy, *dice.pick(&[OnOutage::Deny, OnOutage::Local]));
    let mut stage = LocalStage::default();
    stage.denial_cache = !dice.one_in(4);
    stage.node_ceiling = !dice.one_in(4);
    stage.lanes = !dice.one_in(4);
    stage.lane_waiting_max = if faults { 4 } else { 4_096 };
    stage.batch_len_max = 1 + dice.roll(20) as usize;
    Plan {
        policy,
        stage,
        limit,
        region_limit,
        window: Duration::from_secs(secs),
        faults,
    }
}

async fn live(plan: &Plan, dice: &mut Dice) -> (Arc<World>, Arc<Seen>) {
    let nodes = 1 + dice.roll(4) as usize;
    let world = Arc::new(World::new(
        std::slice::from_ref(&plan.policy),
        nodes,
        &plan.stage,
    ));
    for node in &world.nodes {
        let delay = MS * dice.roll(6) as u32;
        node.weather(|w| w.delay = delay);
    }
    let seen = Arc::new(Seen::default());
    let mut started = Vec::new();
    for _ in 0..30 + dice.roll(40) {
        let (world, seen, dice) = (Arc::clone(&world), Arc::clone(&seen), Dice(dice.next()));
        started.push(tokio::spawn(caller(world, seen, dice, plan.faults, 4)));
    }
    if plan.faults {
        started.push(tokio::spawn(storms(Arc::clone(&world), Dice(dice.next()))));
    }
    for one in started {
        one.await.unwrap();
    }
    (world, seen)
}

/// What was admitted without being degraded: when it counted, where, and how much.
fn admitted(world: &World, seen: &Seen) -> Vec<(Instant, String, Cost)> {
    let executed: HashMap<_, _> = world
        .executed()
        .into_iter()
        .filter(|e| e.is_admitted && !e.is_repeated)
        .map(|e| (e.id.clone(), e))
        .collect();
    let mut counted = HashMap::new();
    for (at, region, decision) in seen.decisions.lock().unwrap().iter() {
        let facts = decision.facts();
        if !decision.is_admitted() || facts.degraded {
            continue;
        }
        let at = match facts.source {
            Source::Lease => *at,
            _ => executed.get(&facts.id).expect("it was charged").at,
        };
        // An id that came again charged once.
        counted.insert(facts.id.clone(), (at, region.clone(), facts.cost));
    }
    counted.into_values().collect()
}

fn most_in_a_window<'a>(
    admitted: impl Iterator<Item = &'a (Instant, String, Cost)>,
    window: Duration,
) -> u64 {
    let mut admitted: Vec<_> = admitted.map(|a| (a.0, a.2)).collect();
    admitted.sort();
    let (mut from, mut sum, mut most) = (0, 0, 0);
    for (at, cost) in &admitted {
        sum += cost;
        while at.duration_since(admitted[from].0) >= window {
            sum -= admitted[from].1;
            from += 1;
        }
        most = most.max(sum);
    }
    most
}

fn never_over(seed: u64) {
    let mut dice = Dice(seed);
    let plan = plan(&mut dice, 1, true);
    paused(async {
        let (world, seen) = live(&plan, &mut dice).await;
        let admitted = admitted(&world, &seen);
        let most = most_in_a_window(admitted.iter(), plan.window);
        assert!(most <= plan.limit, "world {seed}: {most} of {}", plan.limit);
        for region in ["us", "eu"] {
            let here = admitted.iter().filter(|a| a.1 == region);
            let most = most_in_a_window(here, plan.window);
            let limit = plan.region_limit;
            assert!(most <= limit, "world {seed}: {most} of {limit} in {region}");
        }
    });
}

#[test]
fn never_over_and_in_time_whatever_happens() {
    (0..1_500).for_each(never_over);
}

fn nothing_leaks(seed: u64) {
    let mut dice = Dice(seed);
    let plan = plan(&mut dice, 3_600, false);
    paused(async {
        let (world, seen) = live(&plan, &mut dice).await;
        // Leases end, and what is to be given back is.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let admitted = admitted(&world, &seen);
        let ids: std::collections::HashSet<_> = {
            let decisions = seen.decisions.lock().unwrap();
            let mine = decisions.iter().map(|d| d.2.facts().id.clone());
            mine.collect()
        };
        // A caller that went away leaves what it had named itself: it may come again.
        let abandoned = world.executed().into_iter().filter(|e| {
            let is_mine = e.id.as_str().starts_with("mine-");
            is_mine && e.is_admitted && !e.is_repeated && !ids.contains(&e.id)
        });
        let abandoned: u64 = abandoned.map(|e| e.cost).sum();
        let all: u64 = admitted.iter().map(|a| a.2).sum();
        let check = Check::new("p", "a").region("us");
        let used = world.used(&check).await;
        assert_eq!(used[0], all + abandoned, "world {seed}");
        for node in &world.nodes {
            assert_eq!(node.stats().waiting, 0, "world {seed}");
        }
    });
}

#[test]
fn what_is_charged_in_the_end_is_what_was_admitted() {
    (0..1_500).for_each(nothing_leaks);
}
