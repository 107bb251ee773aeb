//! Reports on keys. The number is that project's own issue.

use std::sync::Arc;

use tidegate::model::{Algorithm, Ceiling};
use tidegate::store::Store;

use crate::common::probe::{Probe, Reading, at, global, region};
use crate::common::unique;

fn dual(algorithm: Algorithm) -> [Ceiling; 2] {
    [global(algorithm, "10/min"), region(algorithm, "8/min")]
}

pub async fn traefik_pr11753_two_policies_never_share_a_counter<S: Store>(store: Arc<S>) {
    for algorithm in Algorithm::ALL {
        let one = Probe::new(&store, "policies", dual(algorithm)).policy("one");
        let two = one.policy("one-two");
        assert_eq!(one.charge(at(0.0), 3).await.remaining(), [7, 5]);
        assert_eq!(
            two.charge(at(0.0), 1).await.remaining(),
            [9, 7],
            "{algorithm}"
        );
        assert_eq!(
            one.charge(at(0.0), 1).await.remaining(),
            [6, 4],
            "{algorithm}"
        );
    }
}

pub async fn subjects_that_look_like_key_syntax_never_meet<S: Store>(store: Arc<S>) {
    let mark = unique("syntax");
    // The empty subject and a lone brace are one key each in a store that other runs share.
    let policy = format!(
        "p{}",
        mark.replace(|c: char| !c.is_ascii_alphanumeric(), "")
    );
    let policy = &policy[..policy.len().min(60)];
    let long = "x".repeat(65);
    let subjects = [
        "", "}", "{", "{}", "}{", "a:b", "a%3ab", "%e", "%", "a b", "\0", "\r\n", "ü", "*", &long,
    ];
    for (n, subject) in subjects.iter().enumerate() {
        let probe = Probe::new(&store, "x", dual(Algorithm::SlidingLog));
        let probe = probe.policy(policy).subject(subject);
        let outcome = probe.charge(at(0.0), 3).await;
        assert_eq!(outcome.remaining(), [7, 5], "{subject:?}, the {n}th");
    }
    for subject in subjects {
        let probe = Probe::new(&store, "x", dual(Algorithm::SlidingLog));
        let probe = probe.policy(policy).subject(subject);
        assert_eq!(
            probe.charge(at(0.0), 1).await.remaining(),
            [6, 4],
            "{subject:?}"
        );
        probe.reset().await;
    }
}

pub async fn subjects_and_regions_never_run_into_each_other<S: Store>(store: Arc<S>) {
    let mark = unique("run");
    for algorithm in Algorithm::ALL {
        let base = Probe::new(&store, "x", dual(algorithm));
        // Region names that could be mistaken for the parts of a key.
        let regions = [
            "g", "r", "r:us", "us", "us:x", "us:i", "x", "i", "{us}", "%", "US",
        ];
        let subject = base.subject(&format!("{mark}-{algorithm}"));
        for (n, region) in regions.iter().enumerate() {
            let outcome = subject.region(region).peek(at(0.0), 1).await;
            assert_eq!(
                outcome.remaining()[1],
                8,
                "{algorithm}: {region}, the {n}th"
            );
            let charged = subject.region(region).charge(at(0.0), 1).await;
            if charged.is_admitted() {
                assert_eq!(charged.remaining()[1], 7, "{algorithm}: {region}");
            }
        }
        let joined = base.subject(&format!("{mark}-{algorithm}:r:us"));
        assert_eq!(
            joined.peek(at(0.0), 1).await.remaining(),
            [10, 8],
            "{algorithm}"
        );
    }
}
