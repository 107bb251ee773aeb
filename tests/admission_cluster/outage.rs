//! A shard that is away: its callers get their policy's choice, in time; nobody else notices.

use std::time::{Duration, Instant};

use tidegate::admission::LocalStage;
use tidegate::model::{OnOutage, Source};

use crate::support::{
    Fleet, PATIENCE, check, eventually, most_in_a_window, on_outage, one_of_each_shard, policy,
    shard_of, six_nodes,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_shards_callers_are_answered_in_time_and_the_others_by_their_store() {
    let cluster = six_nodes().await;
    let (deadline, slack) = (Duration::from_millis(300), Duration::from_secs(2));
    let policies = [on_outage(policy("100000/h"), OnOutage::Deny)];
    let fleet = Fleet::new(&cluster, 1, &policies, &LocalStage::default(), deadline).await;
    let node = &fleet.nodes[0];
    let subjects = one_of_each_shard(node);
    assert_eq!(subjects.len(), 3);
    for subject in &subjects {
        eventually("each shard to answer", async || {
            node.check(&check(subject)).await.unwrap().is_admitted()
        })
        .await;
    }
    let away = shard_of(&cluster, &subjects[0]).await;
    for n in away {
        cluster.pause(n).await.unwrap();
    }
    let begun = Instant::now();
    let (mut waited, mut healthy) = (0, 0);
    while begun.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        let denied = node.check(&check(&subjects[0])).await.unwrap();
        let took = asked.elapsed();
        assert!(
            denied.facts().degraded && !denied.is_admitted(),
            "{denied:?}"
        );
        assert_eq!(denied.facts().source, Source::Outage);
        assert!(took < deadline + slack, "{took:?}");
        waited += usize::from(took > deadline / 2);
        for subject in &subjects[1..] {
            let decision = node.check(&check(subject)).await.unwrap();
            healthy += usize::from(decision.facts().source == Source::Store);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(waited >= 1, "some waited for it");
    assert!(healthy > 20, "{healthy}");
    for n in away {
        cluster.resume(n).await.unwrap();
    }
    eventually("the shard to be asked again", async || {
        let decision = node.check(&check(&subjects[0])).await.unwrap();
        decision.facts().source == Source::Store
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_nodes_without_a_shard_admit_together_at_most_its_ceiling_in_any_window() {
    let cluster = six_nodes().await;
    let window = Duration::from_secs(3);
    let policies = [on_outage(policy("400/3s"), OnOutage::Local)];
    let stage = LocalStage::default();
    let fleet = Fleet::new(&cluster, 4, &policies, &stage, Duration::from_millis(200)).await;
    let subject = one_of_each_shard(&fleet.nodes[0]).remove(0);
    for n in shard_of(&cluster, &subject).await {
        cluster.stop(n).await.unwrap();
    }
    for node in &fleet.nodes {
        eventually("each node to notice", async || {
            let decision = node.check(&check(&subject)).await.unwrap();
            decision.facts().degraded
        })
        .await;
    }
    let mut running = Vec::new();
    for node in &fleet.nodes {
        let (node, subject) = (node.clone(), subject.clone());
        running.push(tokio::spawn(async move {
            let (begun, mut admitted) = (Instant::now(), Vec::new());
            while begun.elapsed() < 3 * window {
                let decision = node.check(&check(&subject)).await.unwrap();
                assert!(decision.facts().degraded, "{decision:?}");
                if decision.is_admitted() {
                    admitted.push(Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            admitted
        }));
    }
    let mut admitted = Vec::new();
    for one in running {
        admitted.extend(one.await.unwrap());
    }
    let all = admitted.len();
    let most = most_in_a_window(admitted, window);
    assert!(most <= 400, "{most}");
    assert!(all >= 600, "{all} in three windows of 400");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_there_yet_is_an_outage_and_comes_by_itself() {
    let cluster = six_nodes().await;
    let policies = [on_outage(policy("100/h"), OnOutage::Admit)];
    let fleet = Fleet::new(&cluster, 1, &policies, &LocalStage::default(), PATIENCE).await;
    let node = &fleet.nodes[0];
    let subject = one_of_each_shard(node).remove(0);
    let away = shard_of(&cluster, &subject).await;
    for n in away {
        cluster.kill(n).await.unwrap();
    }
    eventually("the choice of the policy", async || {
        let decision = node.check(&check(&subject)).await.unwrap();
        assert!(decision.is_admitted());
        decision.facts().degraded
    })
    .await;
    for n in away {
        cluster.restart(n).await.unwrap();
    }
    eventually("the store", async || {
        let decision = node.check(&check(&subject)).await.unwrap();
        decision.facts().source == Source::Store
    })
    .await;
}
