//! What every algorithm does.

use super::rig::{Rig, T, left, wait};

#[tokio::test]
async fn two_logs_are_charged_together_or_not_at_all() {
    let mut rig = Rig::new("sliding_log 5/min", "sliding_log 2/min").await;
    let w = 60 * T;
    assert_eq!(left(&rig.charge(1).await), [(4, w), (1, w)]);
    assert_eq!(left(&rig.at(1).charge(1).await), [(3, w), (0, w)]);
    let denied = rig.at(2).charge(1).await;
    assert_eq!(
        (wait(&denied), left(&denied)),
        (w - 2, vec![(3, w - 1), (0, w - 1)])
    );
    assert!(denied.ceilings[0].retry.is_none());
    assert_eq!(wait(&rig.at(w as i64 - 1).charge(1).await), 1);
    assert_eq!(left(&rig.at(w as i64).charge(1).await), [(3, w), (0, w)]);
}

#[tokio::test]
async fn each_algorithm_denies_what_is_over_and_admits_it_at_retry_after_not_before() {
    for algorithm in [
        "sliding_log",
        "sliding_counter",
        "fixed_window",
        "token_bucket",
        "leaky_bucket",
    ] {
        for (g, r) in [("7/min", ""), ("7/min", "100/s"), ("100/s", "7/min")] {
            let text = |rate: &str| {
                if rate.is_empty() {
                    String::new()
                } else {
                    format!("{algorithm} {rate}")
                }
            };
            let mut rig = Rig::new(&text(g), &text(r)).await;
            rig.at(13 * T as i64 + 7);
            assert_eq!(wait(&rig.charge(4).await), 0, "{algorithm}");
            rig.at(20 * T as i64);
            assert_eq!(wait(&rig.charge(3).await), 0, "{algorithm}");
            for cost in [1, 3, 4, 7] {
                rig.at(20 * T as i64 + 5);
                let denied = rig.charge(cost).await;
                let at = 20 * T as i64 + 5 + wait(&denied) as i64;
                assert!(wait(&denied) > 0, "{algorithm} {g} {r} {cost}");
                assert_eq!(
                    denied,
                    {
                        rig.at(20 * T as i64 + 5);
                        rig.peek(cost).await
                    },
                    "{algorithm}"
                );
                assert_eq!(
                    wait(&rig.at(at - 1).peek(cost).await),
                    1,
                    "{algorithm} {g} {r} {cost}"
                );
                assert_eq!(
                    wait(&rig.at(at).peek(cost).await),
                    0,
                    "{algorithm} {g} {r} {cost}"
                );
            }
            assert_eq!(wait(&rig.charge(8).await), u64::MAX, "{algorithm}");
        }
    }
}
