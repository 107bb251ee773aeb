//! What the scripts leave on the server: expiry, trimming, and nothing after a refusal.

use tidegate::model::KeyPrefix;
use tidegate::store::cluster::script::reset_keys;
use tidegate::store::{CallClock, CallKind, IdOrigin, Refunded};

use super::rig::{Rig, START, T, left, request, wait};
use super::server::Server;

/// Every key with its value and its expiry, as the server dumps them.
async fn everything(server: &Server) -> Vec<String> {
    let keys = server.run("KEYS *").await.into_array();
    let mut all = Vec::new();
    for key in keys.iter().map(|key| key.as_string().unwrap()) {
        let dump = server.run(&format!("DUMP {key}")).await;
        let expires_at = server.integer(&format!("PEXPIRETIME {key}")).await;
        all.push(format!("{key} {:?} {expires_at}", dump.into_bytes()));
    }
    all.sort();
    all
}

#[tokio::test]
async fn a_denial_and_a_peek_write_nothing_by_the_servers_clock() {
    for r in [
        "sliding_log 2/min",
        "sliding_counter 2/min",
        "fixed_window 2/min",
        "token_bucket 2/min",
    ] {
        let mut rig = Rig::new("sliding_log 9/min", r).await;
        rig.clock = CallClock::Store;
        rig.charge(1).await;
        rig.charge(1).await;
        let before = everything(&rig.server).await;
        assert!(before.len() >= 2, "{before:?}");
        assert!(wait(&rig.charge(1).await) > 0, "{r}");
        assert!(wait(&rig.charge(2).await) > 0, "{r}");
        assert!(wait(&rig.charge_named("a", 1).await) > 0, "{r}");
        rig.peek(1).await;
        assert_eq!(rig.refund("unknown", None).await, Refunded::NotFound);
        assert_eq!(everything(&rig.server).await, before, "{r}");
    }
}

#[tokio::test]
async fn every_key_ends_a_little_after_what_it_holds() {
    let life =
        async |rig: &Rig, key: &str| rig.server.integer(&format!("PTTL tg:{{s}}:p:{key}")).await;
    let mut rig = Rig::new("sliding_log 9/min", "sliding_log 2/min").await;
    rig.clock = CallClock::Store;
    rig.charge(1).await;
    rig.charge(1).await;
    for key in ["g", "r:us"] {
        assert!((61_500..=61_877).contains(&life(&rig, key).await), "{key}");
    }
    // What the filling charge noted is of no use when the oldest entry has gone.
    assert!((59_000..=60_001).contains(&life(&rig, "g:n").await));
    rig.change("sliding_log 9/min", "");
    rig.charge(3).await;
    assert!((61_500..=61_877).contains(&life(&rig, "g:x").await));
    rig.change("fixed_window 9/min", "sliding_counter 9/min");
    rig.charge_named("a", 2).await;
    assert!((62_000..=62_877).contains(&life(&rig, "g:f").await));
    assert!((122_000..=122_877).contains(&life(&rig, "r:us:c").await));
    for record in ["i", "i:x"] {
        assert!(
            (61_500..=61_877).contains(&life(&rig, record).await),
            "{record}"
        );
    }
    rig.change("token_bucket 60/min burst 5", "");
    rig.charge(5).await;
    assert!((7_000..=7_877).contains(&life(&rig, "g:b").await));
    assert_eq!(
        everything(&rig.server)
            .await
            .iter()
            .filter(|k| k.ends_with(" -1"))
            .count(),
        0
    );
}

#[tokio::test]
async fn a_logs_expiry_is_refreshed_when_it_is_due_and_healed_when_it_is_gone() {
    for costs in [1, 2] {
        let mut rig = Rig::new("sliding_log 90/min", "sliding_log 80/min").await;
        rig.clock = CallClock::Store;
        rig.charge(costs).await;
        let (g, r) = ("tg:{s}:p:g", "tg:{s}:p:r:us");
        for (life, refreshed) in [(61_500, false), (60_900, true), (30_000, true)] {
            rig.server.run(&format!("PEXPIRE {r} {life}")).await;
            rig.server.run(&format!("PEXPIRE {g} {life}")).await;
            rig.charge(costs).await;
            for key in [g, r] {
                let now = rig.server.integer(&format!("PTTL {key}")).await;
                assert_eq!(now > 61_501, refreshed, "{key} {life} {now}");
            }
        }
        rig.server.run(&format!("PERSIST {r}")).await;
        rig.server.run(&format!("PERSIST {g}")).await;
        rig.charge(costs).await;
        for key in [g, r] {
            assert!(rig.server.integer(&format!("PTTL {key}")).await > 61_000);
        }
    }
}

#[tokio::test]
async fn a_full_server_refuses_a_charge_whole_and_still_answers_peeks_and_refunds() {
    let limits = ["--maxmemory", "6mb", "--maxmemory-policy", "noeviction"];
    let mut rig = Rig::on(
        Server::start_with(&limits).await,
        "sliding_log 90/min",
        "sliding_log 80/min",
    );
    rig.clock = CallClock::Store;
    rig.charge_named("a", 7).await;
    let block = "x".repeat(100_000);
    let mut n = 0;
    while rig
        .server
        .send("SET", vec![format!("b{n}").into(), block.clone().into()])
        .await
        .is_ok()
    {
        n += 1;
        assert!(n < 1_000, "the server has no limit");
    }
    // What is left is too little for a block, but maybe not for a charge.
    let small = "y".repeat(100);
    while rig
        .server
        .send("SET", vec![format!("s{n}").into(), small.clone().into()])
        .await
        .is_ok()
    {
        n += 1;
    }
    let before = rig
        .server
        .run("ZRANGE tg:{s}:p:g 0 -1 WITHSCORES")
        .await
        .into_array();
    // The scripts were loaded before: loading is refused too.
    let script = rig.script(CallKind::Charge, vec![request("b", IdOrigin::Caller, 1)]);
    let refused = rig
        .server
        .send("EVALSHA", script.args(false))
        .await
        .unwrap_err();
    assert!(refused.starts_with("OOM"), "{refused}");
    let after = rig
        .server
        .run("ZRANGE tg:{s}:p:g 0 -1 WITHSCORES")
        .await
        .into_array();
    assert_eq!(before, after);
    rig.server.run("CONFIG SET maxmemory 0").await;
    rig.peek(1).await;
    rig.refund("none", None).await;
    rig.server.run("CONFIG SET maxmemory 1").await;
    let script = rig.script(CallKind::Peek, vec![request("b", IdOrigin::Fresh, 1)]);
    let reply = rig
        .server
        .send("EVALSHA", script.args(false))
        .await
        .unwrap();
    assert_eq!(
        script.decode(reply).unwrap().outcomes[0].ceilings[0].remaining,
        83
    );
    let refunded = rig.refund_loaded("a", None).await;
    assert_eq!(refunded, Refunded::Units(7));
}

#[tokio::test]
async fn a_key_of_another_type_stops_a_charge_before_anything_is_written() {
    let text = |algorithm: &str| format!("{algorithm} 9/min");
    for g in [
        "sliding_log",
        "sliding_counter",
        "fixed_window",
        "token_bucket",
    ] {
        for (r, key) in [
            ("sliding_log", "r:us"),
            ("fixed_window", "r:us:f"),
            ("sliding_counter", "r:us:c"),
            ("token_bucket", "r:us:b"),
        ] {
            for clock in [CallClock::Store, Rig::story()] {
                let mut rig = Rig::new(&text(g), &text(r)).await;
                rig.clock = clock;
                rig.server.run(&format!("SADD tg:{{s}}:p:{key} x")).await;
                let before = everything(&rig.server).await;
                for ask in [
                    rig.fresh(1),
                    rig.fresh(3),
                    request("c", IdOrigin::Caller, 2),
                ] {
                    let script = rig.script(CallKind::Charge, vec![ask]);
                    let refused = rig.run(&script, false).await.unwrap_err();
                    assert!(refused.contains("WRONGTYPE"), "{g} {r}: {refused}");
                }
                assert_eq!(everything(&rig.server).await, before, "{g} {r}");
            }
        }
    }
}

#[tokio::test]
async fn a_companion_or_a_bucket_that_makes_no_sense_stops_a_charge_too() {
    let mut rig = Rig::new("sliding_log 9/min", "sliding_log 9/min").await;
    rig.server.run("SET tg:{s}:p:r:us:x nonsense").await;
    let script = rig.script(CallKind::Charge, vec![request("a", IdOrigin::Fresh, 1)]);
    assert!(
        rig.run(&script, false)
            .await
            .unwrap_err()
            .contains("WRONGTYPE")
    );
    assert_eq!(
        rig.server.integer("EXISTS tg:{s}:p:g tg:{s}:p:r:us").await,
        0
    );
    rig.change("token_bucket 9/min", "");
    rig.server.run("SET tg:{s}:p:g:b nonsense").await;
    let script = rig.script(CallKind::Charge, vec![request("a", IdOrigin::Fresh, 1)]);
    assert!(
        rig.run(&script, false)
            .await
            .unwrap_err()
            .contains("WRONGTYPE")
    );
}

#[tokio::test]
async fn an_instant_of_sixteen_digits_is_kept_whole_and_one_entry_holds_any_cost() {
    let mut rig = Rig::new("sliding_log 100000/min", "").await;
    rig.at(123_456);
    assert_eq!(
        left(&rig.charge_named("a", 8_001).await),
        [(91_999, 60 * T)]
    );
    let score = rig
        .server
        .run("ZSCORE tg:{s}:p:g a")
        .await
        .as_f64()
        .unwrap();
    assert_eq!(score as u64, START + 123_456);
    assert_eq!(rig.server.integer("ZCARD tg:{s}:p:g").await, 1);
    assert_eq!(left(&rig.charge(91_999).await), [(0, 60 * T)]);
    assert_eq!(rig.refund("a", Some(8_000)).await, Refunded::Units(8_000));
    assert_eq!(rig.refund("a", None).await, Refunded::Units(1));
}

#[tokio::test]
async fn a_policy_that_changes_its_algorithm_counts_anew_and_a_reset_leaves_no_key() {
    let mut rig = Rig::new("sliding_log 2/min", "sliding_log 2/min").await;
    for algorithm in [
        "sliding_log",
        "sliding_counter",
        "fixed_window",
        "token_bucket",
        "leaky_bucket",
        "sliding_log",
    ] {
        rig.change(&format!("{algorithm} 9/min"), &format!("{algorithm} 8/min"));
        rig.charge_named(algorithm, 3).await;
        rig.charge(1).await;
    }
    assert_eq!(
        left(&rig.peek(1).await)
            .iter()
            .map(|c| c.0)
            .collect::<Vec<_>>(),
        [4, 3]
    );
    let keys = reset_keys(&KeyPrefix::default(), &rig.target);
    rig.server.run(&format!("UNLINK {}", keys.join(" "))).await;
    assert_eq!(rig.server.integer("DBSIZE").await, 0);
}
