//! Callers that go away: nobody else loses an answer, and no charge is left behind.

use std::time::Duration;

use tidegate::Check;
use tidegate::admission::LocalStage;
use tidegate::model::{Algorithm, Policy, PolicyName};
use tokio::task::JoinHandle;

use crate::world::{MS, Node, World, check, global, rule, settle};

fn start(node: &Node, check: Check) -> JoinHandle<bool> {
    let limiter = node.limiter.clone();
    tokio::spawn(async move { limiter.check(&check).await.unwrap().is_admitted() })
}

fn world(delay: Duration) -> World {
    let world = World::new(&[global("100/min")], 1, &LocalStage::default());
    world.node().weather(|w| w.delay = delay);
    world
}

#[tokio::test(start_paused = true)]
async fn the_one_that_went_alone_leaves_no_charge_and_stops_nobody() {
    let world = world(5 * MS);
    let first = start(world.node(), check("a"));
    settle().await;
    let second = start(world.node(), check("a"));
    settle().await;
    first.abort();
    assert!(second.await.unwrap());
    tokio::time::sleep(50 * MS).await;
    assert_eq!(world.executed().len(), 2, "it was sent, so it was charged");
    assert_eq!(world.used(&check("a")).await, [1], "and given back");
    assert_eq!(world.node().stats().unused_refunded, 1);
    assert!(
        start(world.node(), check("a")).await.unwrap(),
        "the lane goes on"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_had_not_been_sent_never_is() {
    let world = world(5 * MS);
    let first = start(world.node(), check("a"));
    settle().await;
    let second = start(world.node(), check("a"));
    settle().await;
    second.abort();
    settle().await;
    let third = start(world.node(), check("a"));
    assert!(first.await.unwrap() && third.await.unwrap());
    tokio::time::sleep(50 * MS).await;
    assert_eq!(world.executed().len(), 2);
    assert_eq!(world.used(&check("a")).await, [2]);
    assert_eq!(world.node().stats().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn one_of_a_batch_that_is_out_is_given_back_alone() {
    let world = world(5 * MS);
    let first = start(world.node(), check("a"));
    settle().await;
    let batch: Vec<_> = (0..20)
        .map(|_| start(world.node(), check("a").cost(2)))
        .collect();
    // The batch goes out a moment after the first call, which is still out.
    tokio::time::sleep(3 * MS).await;
    for one in batch.iter().step_by(2) {
        one.abort();
    }
    assert!(first.await.unwrap());
    let mut answered = 0;
    for one in batch {
        answered += u64::from(one.await.unwrap_or(false));
    }
    assert_eq!(answered, 10);
    tokio::time::sleep(100 * MS).await;
    assert_eq!(world.used(&check("a")).await, [1 + 2 * 10]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_came_and_was_not_read_is_given_back() {
    let world = world(5 * MS);
    let first = start(world.node(), check("a"));
    settle().await;
    let limiter = world.node().limiter.clone();
    let asked = check("a");
    {
        let mut unread = Box::pin(limiter.check(&asked));
        let is_waiting = std::future::poll_fn(|cx| {
            let polled = unread.as_mut().poll(cx);
            std::task::Poll::Ready(polled.is_pending())
        });
        assert!(is_waiting.await);
        tokio::time::sleep(30 * MS).await;
        assert_eq!(
            world.used(&check("a")).await,
            [2],
            "answered, and not looked at"
        );
    }
    assert!(first.await.unwrap());
    tokio::time::sleep(50 * MS).await;
    assert_eq!(world.used(&check("a")).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_callers_own_id_stays_charged_for_it_may_come_again() {
    let world = world(5 * MS);
    let gone = start(world.node(), check("a").id("mine"));
    settle().await;
    gone.abort();
    tokio::time::sleep(50 * MS).await;
    assert_eq!(world.used(&check("a")).await, [1]);
    assert!(start(world.node(), check("a").id("mine")).await.unwrap());
    assert_eq!(world.used(&check("a")).await, [1], "once");
}

#[tokio::test(start_paused = true)]
async fn what_no_log_holds_stays_charged_and_is_counted() {
    let name = PolicyName::new("p").unwrap();
    let policy = Policy::new(name, rule(Algorithm::TokenBucket, "100/min"), None).unwrap();
    let world = World::one(policy);
    world.node().weather(|w| w.delay = 5 * MS);
    let gone = start(world.node(), check("a"));
    settle().await;
    gone.abort();
    tokio::time::sleep(50 * MS).await;
    assert_eq!(world.node().stats().unused_kept, 1);
    assert_eq!(
        world.used(&check("a")).await,
        [1],
        "never over, for one interval conservative"
    );
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_cancellations_leaves_exactly_what_was_admitted() {
    let world = World::one(global("10000/min"));
    world.node().weather(|w| w.delay = 3 * MS);
    let mut all = Vec::new();
    for n in 0..400_u64 {
        let cost = 1 + n % 3;
        let one = start(world.node(), check("a").cost(cost));
        if n % 4 != 0 {
            let (after, handle) = (n * 7_919 % 12_000, one.abort_handle());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(after)).await;
                handle.abort();
            });
        }
        all.push((cost, one));
        if n % 9 == 0 {
            tokio::time::sleep(MS).await;
        }
    }
    let (mut admitted, mut cancelled) = (0, 0);
    for (cost, one) in all {
        match one.await {
            Ok(true) => admitted += cost,
            Ok(false) => {}
            Err(_) => cancelled += 1,
        }
    }
    tokio::time::sleep(200 * MS).await;
    assert_eq!(world.used(&check("a")).await, [admitted]);
    let stats = world.node().stats();
    assert!(cancelled > 50 && stats.unused_refunded > 5, "{stats:?}");
    assert_eq!(stats.waiting, 0);
}
