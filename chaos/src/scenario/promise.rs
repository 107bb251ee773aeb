//! What a scenario promises, and whether a run kept it. Promises decide the exit code; goals are
//! figures that a busy machine can miss, and are told apart. Pure.

use crate::oracle::Judgement;

/// How soon a shard must be served again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing is away: no gap of 100 ms.
    NoGap,
    /// A replica takes over: the node timeout and a second.
    Failover,
    /// Nothing is promised but that it comes back.
    Some,
}

/// Which acknowledged charges the fault takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// None.
    Nothing,
    /// What the victim's primary had acknowledged in its last second: at most that much is on
    /// its way to a replica, or to the disk where that is synced each second.
    LastSecond,
    /// That on every shard.
    LastSecondEverywhere,
    /// What the victim's primary goes on acknowledging while it doesn't know that it is cut off:
    /// a node timeout and the election after it.
    UntilCutIsNoticed,
    /// All that the victim's shard knew.
    Everything,
}

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// How soon shards are served again: a goal, and that they are: a promise.
    pub recovery: Recovery,
    /// What the store itself may forget.
    pub lost: Lost,
    /// Whether denials are excused for one window from the fault on: a clock stepped back.
    pub excuses_a_window: bool,
}

/// What became of the promises of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assessment {
    /// Promises that were broken, in words.
    pub broken: Vec<String>,
    /// Goals that were missed, in words.
    pub missed: Vec<String>,
}

impl Promise {
    /// Holds a judgement against the promise; `bound` is the most that the fault itself let
    /// through, `node_timeout` in microseconds.
    pub(super) fn check(&self, judged: &Judgement, bound: u64, node_timeout: u64) -> Assessment {
        let mut kept = Assessment::default();
        if judged.wrongly_admitted > bound {
            let units = judged.wrongly_admitted;
            kept.broken.push(format!(
                "{units} units wrongly admitted, where the fault allows {bound}"
            ));
        }
        let counts = [
            (judged.wrongly_denied, "checks wrongly denied"),
            (judged.stuck, "calls stuck"),
            (judged.past_deadline, "calls past their deadline"),
            (judged.errors, "calls answered by an error"),
        ];
        for (count, what) in counts {
            if count > 0 {
                kept.broken.push(format!("{count} {what}"));
            }
        }
        if judged.checks == 0 || judged.shards.is_empty() {
            kept.broken.push("nothing was asked".to_owned());
        }
        self.check_recovery(judged, node_timeout, &mut kept);
        kept
    }

    fn check_recovery(&self, judged: &Judgement, node_timeout: u64, kept: &mut Assessment) {
        let goal = match self.recovery {
            Recovery::NoGap => Some(100_000),
            Recovery::Failover => Some(node_timeout + 1_000_000),
            Recovery::Some => None,
        };
        for shard in &judged.shards {
            let number = shard.shard;
            match (shard.recovery, goal) {
                (None, _) => kept.broken.push(format!("shard {number} never came back")),
                (Some(took), Some(goal)) if took > goal => {
                    let (took, goal) = (took / 1_000, goal / 1_000);
                    let missed = format!("shard {number} took {took} ms; the goal is {goal} ms");
                    kept.missed.push(missed);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::ShardJudgement;

    const PROMISE: Promise = Promise {
        recovery: Recovery::Failover,
        lost: Lost::LastSecond,
        excuses_a_window: false,
    };

    fn judged(recovery: Option<u64>) -> Judgement {
        Judgement {
            checks: 10,
            shards: vec![ShardJudgement {
                shard: 1,
                recovery,
                longest_gap: 0,
                without_service: 0,
            }],
            ..Judgement::default()
        }
    }

    #[test]
    fn a_slow_recovery_misses_a_goal_and_none_at_all_breaks_the_promise() {
        assert_eq!(
            PROMISE.check(&judged(Some(1_900_000)), 0, 1_000_000),
            Assessment::default()
        );
        let slow = PROMISE.check(&judged(Some(2_100_000)), 0, 1_000_000);
        assert_eq!((slow.broken.len(), slow.missed.len()), (0, 1));
        let never = PROMISE.check(&judged(None), 0, 1_000_000);
        assert_eq!(never.broken, ["shard 1 never came back"]);
    }

    #[test]
    fn over_admission_is_held_against_the_bound_and_everything_else_against_zero() {
        let over = |wrongly_admitted| Judgement {
            wrongly_admitted,
            ..judged(Some(0))
        };
        assert!(PROMISE.check(&over(5), 5, 0).broken.is_empty());
        assert_eq!(PROMISE.check(&over(6), 5, 0).broken.len(), 1);
        let stuck = Judgement {
            stuck: 1,
            wrongly_denied: 2,
            past_deadline: 3,
            ..judged(Some(0))
        };
        assert_eq!(PROMISE.check(&stuck, 5, 0).broken.len(), 3);
    }

    #[test]
    fn a_run_without_checks_proves_nothing() {
        let empty = PROMISE.check(&Judgement::default(), 0, 0);
        assert_eq!(empty.broken, ["nothing was asked"]);
    }
}
