//! Faults inside the nodes: connections, scripts, data, memory, slots, roles; seen, then healed.

use std::time::{Duration, Instant};

use tidegate_chaos::fault::{Fault, Migration};
use tidegate_chaos::resp::{NodeConnection, Reply};

use crate::faults::start;

/// Slot 12182 is node 2's at the start.
const SLOT: u16 = 12_182;

#[tokio::test]
async fn reset_connections_end_and_new_ones_work() {
    let cluster = start().await;
    let mut client = cluster.connect(2).await.unwrap();
    client.command(&["PING"]).await.unwrap();
    let mut other = cluster.connect(0).await.unwrap();
    let fault = Fault::ResetConnections(vec![2])
        .apply(&cluster)
        .await
        .unwrap();
    assert!(client.command(&["PING"]).await.is_err());
    other.command(&["PING"]).await.unwrap();
    cluster.run(2, &["PING"]).await.unwrap();
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
}

#[tokio::test]
async fn a_planned_failover_swaps_the_roles_and_keeps_the_data() {
    let cluster = start().await;
    cluster.run(2, &["SET", "{foo}", "kept"]).await.unwrap();
    let begun = Instant::now();
    let fault = Fault::Failover(2).apply(&cluster).await.unwrap();
    println!("failed over in {} ms", begun.elapsed().as_millis());
    assert_eq!(cluster.primary_of("{foo}").await.unwrap(), 5);
    let kept = cluster.run(5, &["GET", "{foo}"]).await.unwrap();
    assert_eq!(kept.text(), Some("kept"));
    let old = cluster.run(2, &["SET", "{foo}", "1"]).await.unwrap_err();
    let moved = format!("MOVED {SLOT} {}", cluster.address(5).unwrap());
    assert!(old.to_string().contains(&moved), "{old}");
    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
}

#[tokio::test]
async fn a_classic_migration_asks_and_tries_again_until_it_is_done() {
    let cluster = start().await;
    let mut client = cluster.connect(2).await.unwrap();
    for n in 0..20 {
        client
            .command(&["SET", &format!("{{foo}}{n}"), "v"])
            .await
            .unwrap();
    }
    let fault = Fault::MigrateSlots {
        slots: SLOT..=SLOT,
        to: 0,
        by: Migration::Classic,
    };
    let fault = fault.apply(&cluster).await.unwrap();
    let slot = SLOT.to_string();
    for node in [2, 0] {
        let count = cluster
            .run(node, &["CLUSTER", "COUNTKEYSINSLOT", &slot])
            .await
            .unwrap();
        assert_eq!(count.int(), Some(10), "node {node}");
    }
    let target = cluster.address(0).unwrap();
    let (mut here, mut asked) = (None, None);
    for n in 0..20 {
        let key = format!("{{foo}}{n}");
        match client.command(&["GET", &key]).await.unwrap() {
            Reply::Error(ask) => {
                assert_eq!(ask, format!("ASK {SLOT} {target}"));
                asked = Some(key);
            }
            value => {
                assert_eq!(value.text(), Some("v"));
                here = Some(key);
            }
        }
    }
    let (here, asked) = (here.unwrap(), asked.unwrap());
    let both = client.command(&["MGET", &here, &asked]).await.unwrap();
    assert!(
        matches!(&both, Reply::Error(e) if e.starts_with("TRYAGAIN")),
        "{both:?}"
    );
    let limit = Duration::from_secs(1);
    let mut target = NodeConnection::open(target, limit, limit).await.unwrap();
    let commands: [&[&str]; 2] = [&["ASKING"], &["GET", &asked]];
    let replies = target.pipeline(&commands).await.unwrap();
    assert_eq!(replies[1].text(), Some("v"));

    fault.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
    assert_eq!(cluster.primary_of("{foo}").await.unwrap(), 0);
    let count = cluster
        .run(0, &["CLUSTER", "COUNTKEYSINSLOT", &slot])
        .await
        .unwrap();
    assert_eq!(count.int(), Some(20));
    for node in 0..6 {
        let view = cluster.view(node).await.unwrap();
        assert_eq!(
            view.owner(SLOT).unwrap().node,
            Some(0),
            "as node {node} sees it"
        );
    }
}

#[tokio::test]
async fn an_atomic_migration_moves_the_slots_or_says_what_server_it_needs() {
    let cluster = start().await;
    for n in 0..20 {
        let key = format!("{{foo}}{n}");
        cluster.run(2, &["SET", &key, "v"]).await.unwrap();
    }
    let server = cluster.run(2, &["INFO", "server"]).await.unwrap();
    let version = server
        .text()
        .unwrap()
        .lines()
        .find_map(|l| l.strip_prefix("valkey_version:"));
    let major = version.and_then(|v| v.split('.').next()?.parse::<u32>().ok());
    let fault = Fault::MigrateSlots {
        slots: 12_000..=12_200,
        to: 0,
        by: Migration::Atomic,
    };
    let applied = fault.apply(&cluster).await;
    if major < Some(9) {
        let error = applied.unwrap_err().to_string();
        assert!(error.contains("Valkey 9"), "{error}");
        return;
    }
    let applied = applied.unwrap();
    assert_eq!(cluster.primary_of("{foo}").await.unwrap(), 0);
    let slot = SLOT.to_string();
    let count = cluster
        .run(0, &["CLUSTER", "COUNTKEYSINSLOT", &slot])
        .await
        .unwrap();
    assert_eq!(count.int(), Some(20));
    applied.heal(&cluster).await.unwrap();
    cluster.wait_healthy().await.unwrap();
}

#[tokio::test]
async fn slots_of_several_owners_or_of_the_target_are_not_moved() {
    let cluster = start().await;
    for (slots, to) in [(5_000..=6_000, 2), (SLOT..=SLOT, 2)] {
        for by in [Migration::Classic, Migration::Atomic] {
            let slots = slots.clone();
            let error = Fault::MigrateSlots { slots, to, by }.apply(&cluster).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains("not all one other primary's"), "{error}");
        }
    }
}

#[tokio::test]
async fn forgotten_scripts_are_unknown_on_that_node_alone() {
    let cluster = start().await;
    let mut sha = String::new();
    for node in 0..6 {
        let loaded = cluster
            .run(node, &["SCRIPT", "LOAD", "return 7"])
            .await
            .unwrap();
        sha = loaded.text().unwrap().to_owned();
    }
    let fault = Fault::ForgetScripts(vec![1]).apply(&cluster).await.unwrap();
    let unknown = cluster.run(1, &["EVALSHA", &sha, "0"]).await.unwrap_err();
    assert!(unknown.to_string().contains("NOSCRIPT"), "{unknown}");
    for node in [0, 2, 3, 4, 5] {
        let known = cluster.run(node, &["EVALSHA", &sha, "0"]).await.unwrap();
        assert_eq!(known.int(), Some(7));
    }
    fault.heal(&cluster).await.unwrap();
}

#[tokio::test]
async fn forgotten_data_are_gone_on_that_primary_and_its_replica_alone() {
    let cluster = start().await;
    // Slots 12182 and 5061 by the cluster specification's CRC16.
    cluster.run(2, &["SET", "foo", "1"]).await.unwrap();
    cluster.run(0, &["SET", "bar", "1"]).await.unwrap();
    for node in [0, 2] {
        cluster.run(node, &["WAIT", "1", "5000"]).await.unwrap();
    }
    let fault = Fault::ForgetData(2).apply(&cluster).await.unwrap();
    cluster.run(2, &["WAIT", "1", "5000"]).await.unwrap();
    for (node, keys) in [(2, 0), (5, 0), (0, 1)] {
        let size = cluster.run(node, &["DBSIZE"]).await.unwrap();
        assert_eq!(size.int(), Some(keys), "node {node}");
    }
    fault.heal(&cluster).await.unwrap();
}

#[tokio::test]
async fn a_full_node_refuses_writes_until_its_memory_is_restored() {
    let cluster = start().await;
    cluster
        .run(2, &["CONFIG", "SET", "maxmemory", "100mb"])
        .await
        .unwrap();
    let fault = Fault::FillMemory(vec![2]).apply(&cluster).await.unwrap();
    let refused = cluster.run(2, &["SET", "foo", "1"]).await.unwrap_err();
    assert!(refused.to_string().contains("OOM"), "{refused}");
    cluster.run(0, &["SET", "bar", "1"]).await.unwrap();
    fault.heal(&cluster).await.unwrap();
    cluster.run(2, &["SET", "foo", "1"]).await.unwrap();
    let restored = cluster
        .info(2, &["INFO", "memory"], "maxmemory")
        .await
        .unwrap();
    assert_eq!(restored, (100 << 20).to_string());
}

#[test]
fn faults_have_names_for_scenarios_and_sentences_for_people() {
    let fault = Fault::Kill(vec![0, 1]);
    assert_eq!(
        (fault.name(), fault.to_string().as_str()),
        ("kill", "kill of nodes 0, 1")
    );
    let fault = Fault::MigrateSlots {
        slots: 1..=9,
        to: 2,
        by: Migration::Atomic,
    };
    assert_eq!(
        fault.to_string(),
        "migrate-atomic of slots 1 to 9 to node 2"
    );
    assert_eq!(
        Fault::CutOffFromPeers(4).to_string(),
        "split-brain of node 4"
    );
}
