//! Charges through the store and back.

use tidegate::model::{Algorithm, Retry};
use tidegate::store::{
    ChargeCall, IdOrigin, Readiness, RefundCall, Refunded, ResetCall, ShardId, Store,
};
use tidegate_chaos::cluster::ClusterUnderTest;

use crate::support::{
    charge, dual, fresh_id, global, single, six_nodes, store, target, used, within,
};

async fn a_check_goes_there_and_back(cluster: ClusterUnderTest) {
    let store = store(&cluster).await;
    assert_eq!(store.readiness(), Readiness::Ready);
    for algorithm in Algorithm::ALL {
        let target = target(&dual(algorithm, 1_000, 3), "key-1");
        for left in [2, 1, 0] {
            let reply = store.charge(charge(&target, 1, 1_000)).await.unwrap();
            let outcome = &reply.outcomes[0];
            assert!(
                outcome.is_admitted() && !outcome.repeated,
                "{algorithm}: {outcome:?}"
            );
            assert_eq!(outcome.ceilings[1].remaining, left, "{algorithm}");
        }
        let reply = store.charge(charge(&target, 1, 1_000)).await.unwrap();
        let refusing = &reply.outcomes[0].ceilings;
        assert!(
            refusing[0].retry.is_none(),
            "{algorithm}: the global ceiling has room"
        );
        assert!(
            matches!(refusing[1].retry, Some(Retry::After(_))),
            "{algorithm}"
        );
        assert_eq!(
            used(&store, &target).await,
            3,
            "{algorithm}: a denial charges nothing"
        );
        let reset = ResetCall {
            target: target.clone(),
            deadline: within(1_000),
        };
        store.reset(reset).await.unwrap();
        assert_eq!(used(&store, &target).await, 0, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_goes_there_and_back_on_a_cluster() {
    a_check_goes_there_and_back(six_nodes().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_goes_there_and_back_on_a_single_server() {
    a_check_goes_there_and_back(single().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_charges_once_and_is_given_back_once() {
    let cluster = six_nodes().await;
    let store = store(&cluster).await;
    for algorithm in Algorithm::ALL {
        let target = target(&global(algorithm, 100), "key-1");
        let id = fresh_id();
        let call = |cost| {
            let mut call: ChargeCall = charge(&target, cost, 1_000);
            call.requests[0].id = id.clone();
            call.requests[0].origin = IdOrigin::Caller;
            call
        };
        assert!(!store.charge(call(7)).await.unwrap().outcomes[0].repeated);
        assert!(
            store.charge(call(7)).await.unwrap().outcomes[0].repeated,
            "{algorithm}"
        );
        assert_eq!(used(&store, &target).await, 7, "{algorithm}");
        let refund = || RefundCall {
            target: target.clone(),
            id: id.clone(),
            cost: None,
            clock: tidegate::store::CallClock::Store,
            deadline: within(1_000),
        };
        assert_eq!(
            store.refund(refund()).await,
            Ok(Refunded::Units(7)),
            "{algorithm}"
        );
        assert_eq!(
            store.refund(refund()).await,
            Ok(Refunded::NotFound),
            "{algorithm}"
        );
        assert_eq!(used(&store, &target).await, 0, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_server_is_one_shard_and_counts_its_script_calls() {
    let cluster = single().await;
    let store = store(&cluster).await;
    let policy = global(Algorithm::TokenBucket, 10);
    let shards: Vec<_> = (0..50)
        .map(|n| store.shard_of(&target(&policy, &format!("s{n}"))))
        .collect();
    assert_ne!(shards[0], ShardId::WHOLE);
    assert!(shards.iter().all(|shard| *shard == shards[0]));
    let before = store.calls_sent();
    let target = target(&policy, "s0");
    for _ in 0..20 {
        store.charge(charge(&target, 1, 1_000)).await.unwrap();
    }
    let sent = store.calls_sent() - before;
    // The first may find that the script isn't there yet.
    assert!((20..=21).contains(&sent), "{sent}");
}
