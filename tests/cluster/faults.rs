//! What befalls each node of a cluster, under load: no charge twice, no stuck call, no wrong
//! answer, and no other shard slowed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::model::Algorithm;
use tidegate::store::cluster::ClusterStore;
use tidegate::store::{ShardEvent, ShardId, StoreErrorKind};
use tidegate_chaos::cluster::ClusterUnderTest;

use crate::support::{dual, eventually, global, primary_of, six_nodes, store};
use crate::traffic::{
    HEAVY, STEADY, Traffic, assert_charged_once, assert_no_answer_is_anothers, errors, longest_gap,
    p99,
};

/// Time for a fault to act on traffic.
const WHILE: Duration = Duration::from_millis(300);
/// A deadline that no noise of the machine reaches, and every recovery but an election does.
const PATIENT_MS: u64 = 2_000;

async fn cluster_and_store() -> (ClusterUnderTest, Arc<ClusterStore>) {
    let cluster = six_nodes().await;
    let store = Arc::new(store(&cluster).await);
    (cluster, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_loses_its_scripts_and_no_call_notices() {
    let (cluster, store) = cluster_and_store().await;
    let traffic = Traffic::start(
        &store,
        &global(Algorithm::FixedWindow, 1_000_000),
        PATIENT_MS,
        STEADY,
    );
    for node in 0..cluster.node_count() {
        tokio::time::sleep(WHILE).await;
        cluster
            .run(node, &["SCRIPT", "FLUSH", "SYNC"])
            .await
            .unwrap();
    }
    tokio::time::sleep(WHILE).await;
    let all = traffic.end().await;
    assert!(errors(&all).is_empty(), "{:?}", errors(&all));
    assert_no_answer_is_anothers(&all);
    assert_charged_once(&store, &all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_killed_and_no_charge_runs_twice() {
    let (cluster, store) = cluster_and_store().await;
    let window = Traffic::start(
        &store,
        &global(Algorithm::FixedWindow, 1_000_000),
        PATIENT_MS,
        HEAVY,
    );
    let log = Traffic::start(
        &store,
        &dual(Algorithm::SlidingLog, 1_000_000, 900_000),
        PATIENT_MS,
        HEAVY,
    );
    for _ in 0..5 {
        for node in 0..cluster.node_count() {
            tokio::time::sleep(Duration::from_millis(40)).await;
            let kill = ["CLIENT", "KILL", "TYPE", "normal"];
            cluster.run(node, &kill).await.unwrap();
        }
    }
    tokio::time::sleep(WHILE).await;
    let (window, log) = (window.end().await, log.end().await);
    for error in errors(&window) {
        assert!(
            error.may_have_run,
            "what certainly did not run is sent again: {error:?}"
        );
        assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error:?}");
    }
    assert!(
        errors(&log).is_empty(),
        "a log's charge is sent again: {:?}",
        errors(&log)
    );
    for all in [&window, &log] {
        assert_no_answer_is_anothers(all);
        assert_charged_once(&store, all).await;
    }
    println!(
        "30 connection kills: {} charges under a window, {} in doubt; {} under a log",
        window.len(),
        errors(&window).len(),
        log.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shard_is_failed_over_and_loses_nothing() {
    let (cluster, store) = cluster_and_store().await;
    let mut events = store.shard_events();
    let window = Traffic::start(
        &store,
        &global(Algorithm::FixedWindow, 1_000_000),
        PATIENT_MS,
        STEADY,
    );
    let log = Traffic::start(
        &store,
        &dual(Algorithm::SlidingLog, 1_000_000, 900_000),
        PATIENT_MS,
        STEADY,
    );
    let mut begun = Vec::new();
    for replica in 3..6 {
        tokio::time::sleep(WHILE).await;
        begun.push(Instant::now());
        cluster
            .run(replica, &["CLUSTER", "FAILOVER"])
            .await
            .unwrap();
        eventually("the failover", async || {
            let view = cluster.view(replica).await.unwrap();
            view.myself()
                .is_some_and(|node| node.primary && node.slot_count() > 0)
        })
        .await;
    }
    tokio::time::sleep(WHILE * 3).await;
    let shards: Vec<ShardId> = log.shards.iter().map(|(id, _)| *id).collect();
    let (window, log) = (window.end().await, log.end().await);
    assert!(errors(&log).is_empty(), "{:?}", errors(&log));
    for all in [&window, &log] {
        assert_no_answer_is_anothers(all);
        assert_charged_once(&store, all).await;
    }
    let gaps: Vec<_> = shards
        .iter()
        .map(|id| longest_gap(&log, *id, begun[0]))
        .collect();
    println!(
        "planned failovers: {:?} without an answer, {} errors",
        gaps,
        errors(&window).len()
    );
    let mut promoted = Vec::new();
    while let Ok(event) = events.try_recv() {
        if let ShardEvent::Promoted {
            shard,
            slots,
            from,
            to,
        } = event
        {
            assert!(slots.len() > 5_000 && from != to, "{slots} {from} {to}");
            promoted.push(shard);
        }
    }
    promoted.sort();
    assert_eq!(promoted, shards, "each promotion is told once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_killed_and_the_others_do_not_notice() {
    let (cluster, store) = cluster_and_store().await;
    let traffic = Traffic::start(
        &store,
        &dual(Algorithm::SlidingLog, 1_000_000, 900_000),
        50,
        STEADY,
    );
    let (dying, targets) = traffic.shards[0].clone();
    let primary = primary_of(&cluster, &targets[0]).await;
    tokio::time::sleep(WHILE * 5).await;
    let killed = Instant::now();
    cluster.kill(primary).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let all = traffic.end().await;
    assert_no_answer_is_anothers_but_lost(&all, dying);
    let gap = longest_gap(&all, dying, killed);
    let others = |s: &&crate::traffic::Seen| s.shard != dying;
    let before = p99(all.iter().filter(others).filter(|s| s.begun < killed));
    let after = p99(all.iter().filter(others).filter(|s| s.begun >= killed));
    let ratio = after.as_secs_f64() / before.as_secs_f64();
    println!(
        "killed primary: {gap:?} without an answer; the others' p99 {before:?}, then {after:?}: {ratio:.2}x"
    );
    let wrong: Vec<_> = all
        .iter()
        .filter(others)
        .filter(|s| s.result.is_err())
        .collect();
    assert!(
        wrong.len() <= all.len() / 200,
        "{} of {} on other shards",
        wrong.len(),
        all.len()
    );
    assert!(gap < Duration::from_secs(4), "{gap:?}");
    assert!(ratio < 4.0 || after < Duration::from_millis(20), "{ratio}");
    assert_in_time(&all, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_is_paused_and_the_others_do_not_notice() {
    let (cluster, store) = cluster_and_store().await;
    let traffic = Traffic::start(
        &store,
        &dual(Algorithm::SlidingLog, 1_000_000, 900_000),
        50,
        STEADY,
    );
    let (stalled, targets) = traffic.shards[1].clone();
    let primary = primary_of(&cluster, &targets[0]).await;
    tokio::time::sleep(WHILE * 5).await;
    let paused = Instant::now();
    cluster.pause(primary).await.unwrap();
    // Shorter than the node timeout: nobody takes over.
    tokio::time::sleep(Duration::from_millis(700)).await;
    let resumed = Instant::now();
    cluster.resume(primary).await.unwrap();
    tokio::time::sleep(WHILE * 5).await;
    let all = traffic.end().await;
    let others = |s: &&crate::traffic::Seen| s.shard != stalled;
    let during = |s: &&crate::traffic::Seen| s.begun >= paused && s.begun < resumed;
    let before = p99(all.iter().filter(others).filter(|s| s.begun < paused));
    let after = p99(all.iter().filter(others).filter(during));
    let ratio = after.as_secs_f64() / before.as_secs_f64();
    println!("paused primary: the others' p99 {before:?}, then {after:?}: {ratio:.2}x");
    assert!(ratio < 4.0 || after < Duration::from_millis(20), "{ratio}");
    let late = all
        .iter()
        .filter(|s| s.shard == stalled && s.begun > resumed + WHILE);
    let late: Vec<_> = late.collect();
    assert!(
        late.len() > 50 && late.iter().all(|s| s.result.is_ok()),
        "it recovers by itself"
    );
    let silent = all.iter().filter(|s| s.shard == stalled).filter(during);
    for seen in silent.filter_map(|s| s.result.as_ref().err()) {
        assert!(
            seen.may_have_run && seen.kind == StoreErrorKind::Deadline,
            "{seen:?}"
        );
    }
    assert_in_time(&all, 50);
    assert_no_answer_is_anothers(&all);
    assert_charged_once(&store, &all).await;
}

/// Calls end by their deadline; a busy machine is given some grace.
fn assert_in_time(all: &[crate::traffic::Seen], deadline_ms: u64) {
    let deadline = Duration::from_millis(deadline_ms);
    let late = all
        .iter()
        .filter(|s| s.took > deadline + Duration::from_millis(5))
        .count();
    let worst = all.iter().map(|s| s.took).max().unwrap_or_default();
    println!(
        "{} calls, {late} more than 5 ms past their deadline, the longest {worst:?}",
        all.len()
    );
    assert!(late <= all.len() / 100, "{late} of {}", all.len());
    assert!(worst < deadline + Duration::from_millis(500), "{worst:?}");
}

/// A killed primary takes acknowledged charges with it: on its shard alone, what is left may
/// rise, once a subject.
fn assert_no_answer_is_anothers_but_lost(all: &[crate::traffic::Seen], lost: ShardId) {
    let (on_it, others): (Vec<_>, Vec<_>) = all.iter().partition(|s| s.shard == lost);
    let mut rises: std::collections::HashMap<&str, (u64, u32)> = std::collections::HashMap::new();
    for seen in on_it {
        let Ok(left) = seen.result else { continue };
        let entry = rises
            .entry(seen.target.subject.as_str())
            .or_insert((left + 1, 0));
        if left >= entry.0 {
            entry.1 += 1;
        }
        entry.0 = left;
    }
    assert!(rises.values().all(|(_, rises)| *rises <= 1), "{rises:?}");
    let mut last: std::collections::HashMap<&str, u64> = std::collections::HashMap::new();
    for seen in others {
        let Ok(left) = seen.result else { continue };
        let before = last.insert(seen.target.subject.as_str(), left);
        assert!(before.is_none_or(|before| left < before));
    }
}
