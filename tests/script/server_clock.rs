//! By the server's own clock, where the scripts take their shortest ways: histories at real
//! speed over short windows, judged by the instants that the server itself gave.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::model::{Ceiling, Micros, Retry, Timestamp};
use tidegate::store::cluster::script::Acknowledged;
use tidegate::store::{CallClock, CallKind, ChargeRequest, IdOrigin, Outcome, Refunded};

use super::rig::{Rig, held, request};
use super::server::Server;

/// Whatever was admitted: by id, its instant and units.
#[derive(Default)]
struct Ledger(BTreeMap<String, (u64, u64)>);

impl Ledger {
    fn used(&self, now: u64, window: u64) -> u64 {
        let counted = self.0.values().filter(|(at, _)| at + window > now);
        counted.map(|(_, units)| units).sum()
    }

    /// The first instant from `now` on at which `units` fit under `limit`.
    fn room_at(&self, now: u64, window: u64, limit: u64, units: u64) -> u64 {
        let mut ends: Vec<u64> = self.0.values().map(|(at, _)| at + window).collect();
        ends.push(now);
        ends.sort_unstable();
        let room = |at: &u64| *at >= now && self.used(*at, window) + units <= limit;
        ends.into_iter().find(room).unwrap()
    }

    fn whole_at(&self, now: u64, window: u64) -> u64 {
        let ends = self
            .0
            .values()
            .filter(|(_, units)| *units > 0)
            .map(|(at, _)| at + window);
        ends.max().unwrap_or(now).max(now)
    }

    /// What the log's answer must be; `remaining` may come from up to a 64th of a window earlier
    /// (and the expiry's millisecond), on an admission.
    fn judge(
        &self,
        now: u64,
        ceiling: &Ceiling,
        request: &ChargeRequest,
        outcome: &Outcome,
        n: usize,
    ) {
        let (limit, window) = (ceiling.quota.limit(), ceiling.quota.window().get());
        let of_this = outcome.ceilings[n];
        let what = format!("{request:?} at {now}: {outcome:?}");
        let used = self.used(now, window);
        let fresh = limit.saturating_sub(used);
        let stale = limit.saturating_sub(self.used(now, window + window / 64 + 2_000));
        assert!(
            (stale..=fresh).contains(&of_this.remaining),
            "{fresh} {stale} {what}"
        );
        assert_eq!(
            of_this.reset_after.get(),
            self.whole_at(now, window) - now,
            "{what}"
        );
        match of_this.retry {
            None => assert!(
                outcome.is_admitted() || used + request.cost <= limit,
                "{what}"
            ),
            Some(Retry::Never) => assert!(request.cost > limit, "{what}"),
            Some(Retry::After(wait)) => {
                let room_at = self.room_at(now, window, limit, request.cost);
                assert_eq!(now + wait.get(), room_at, "{what}");
                assert_eq!(of_this.remaining, fresh, "a denial is never stale: {what}");
            }
        }
    }
}

/// Small numbers, the same ones each time for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

async fn history(rig: &mut Rig, numbers: &mut Numbers, steps: usize, units_only: bool) {
    let mut ledger = Ledger::default();
    let mut admitted = 0;
    for step in 0..steps {
        if numbers.below(4) == 0 {
            tokio::time::sleep(Duration::from_micros(numbers.below(12_000))).await;
        }
        let cost = if units_only || numbers.below(3) > 0 {
            1
        } else {
            1 + numbers.below(4)
        };
        let ask = match numbers.below(12) {
            0 => request(
                &format!("caller-{}", numbers.below(20)),
                IdOrigin::Caller,
                cost,
            ),
            1 if step > 0 => {
                let id = numbers.below(step as u64).to_string();
                let refunded = rig.refund(&id, None).await;
                let known = ledger.0.remove(&id);
                if let Refunded::Units(units) = refunded {
                    assert_eq!(known.map(|(_, units)| units), Some(units));
                }
                continue;
            }
            _ => request(&step.to_string(), IdOrigin::Fresh, cost),
        };
        let script = rig.script(CallKind::Charge, vec![ask.clone()]);
        let mut reply = rig.run(&script, false).await.unwrap();
        let (now, outcome) = (reply.at.as_micros(), reply.outcomes.remove(0));
        assert!(reply.at > Timestamp::from_micros(1_700_000_000_000_000));
        let windows = rig.target.ceilings.iter().map(|c| c.quota.window().get());
        let longest = windows.max().unwrap();
        let known = ledger.0.get(ask.id.as_str());
        assert_eq!(
            outcome.repeated,
            known.is_some_and(|(at, _)| at + longest > now),
            "{ask:?}"
        );
        let of_ask = |ledger: &Ledger| {
            rig.target.ceilings.iter().enumerate().all(|(n, ceiling)| {
                ledger.judge(now, ceiling, &ask, &outcome, n);
                true
            })
        };
        if outcome.is_admitted() && !outcome.repeated {
            for ceiling in &rig.target.ceilings {
                let used = ledger.used(now, ceiling.quota.window().get());
                assert!(
                    used + cost <= ceiling.quota.limit(),
                    "over: {ask:?} {outcome:?}"
                );
            }
            ledger.0.insert(ask.id.as_str().to_owned(), (now, cost));
            admitted += 1;
        }
        assert!(of_ask(&ledger));
    }
    assert!(admitted > 10, "{admitted}");
}

async fn rig(server: Server, g: &str, r: &str, window_ms: u64) -> Rig {
    let mut rig = Rig::on(server, g, r);
    rig.clock = CallClock::Store;
    let mut target = (*rig.target).clone();
    for ceiling in &mut target.ceilings {
        let window = Duration::from_millis(window_ms);
        ceiling.quota = tidegate::model::Quota::new(ceiling.quota.limit(), window).unwrap();
    }
    rig.target = target.into();
    rig
}

#[tokio::test]
async fn a_short_window_beside_a_long_one_keeps_its_log() {
    for (g, r) in [
        ("sliding_log 6/s", "sliding_log 900/h"),
        ("sliding_log 900/h", "sliding_log 6/s"),
    ] {
        let mut rig = Rig::on(Server::start().await, g, r);
        rig.clock = CallClock::Store;
        let mut target = (*rig.target).clone();
        for ceiling in &mut target.ceilings {
            if ceiling.quota.limit() == 6 {
                let window = Duration::from_millis(90);
                ceiling.quota = tidegate::model::Quota::new(6, window).unwrap();
            }
        }
        rig.target = target.into();
        history(&mut rig, &mut Numbers(3), 600, true).await;
    }
}

#[tokio::test]
async fn the_short_ways_answer_as_the_ledger_does() {
    for (n, (g, r)) in [
        ("sliding_log 12/s", "sliding_log 7/s"),
        ("sliding_log 5/s", "sliding_log 5/s"),
        ("sliding_log 9/s", ""),
        ("", "sliding_log 3/s"),
        ("sliding_log 2/s", "sliding_log 40/s"),
        ("sliding_log 1/s", ""),
    ]
    .into_iter()
    .enumerate()
    {
        for units_only in [true, false] {
            let mut rig = rig(Server::start().await, g, r, 60).await;
            history(&mut rig, &mut Numbers(n as u64 + 7), 400, units_only).await;
        }
    }
}

/// Half of 100/s is leased for half a second, from now on or by a replay.
async fn leased(g: &str, r: &str, replayed: bool) -> Rig {
    let mut rig = Rig::on(Server::start().await, g, r);
    rig.clock = CallClock::Store;
    let lease = held(rig.fresh(50), 500_000);
    if replayed {
        let at = Timestamp::from_micros(rig.peek_at().await + 500_000);
        rig.replay(vec![Acknowledged {
            id: lease.id,
            cost: lease.cost,
            at,
            held: Micros::from_millis(500),
        }])
        .await;
    } else {
        assert!(rig.charge_all(vec![lease]).await[0].is_admitted());
    }
    rig
}

#[tokio::test]
async fn a_lease_counts_for_a_window_after_its_end() {
    let pairs = [
        ("sliding_log 100/s", ""),
        ("sliding_log 100/s", "sliding_log 100/s"),
    ];
    for (g, r) in pairs {
        for replayed in [false, true] {
            let mut rig = leased(g, r, replayed).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(rig.charge(1).await.is_admitted());
            // The unit's window is over, the lease's is not.
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            let denied = rig.charge(51).await;
            assert!(!denied.is_admitted(), "{g}, {r}, {replayed}: {denied:?}");
            assert!(rig.charge(50).await.is_admitted(), "{g}, {r}, {replayed}");
        }
    }
}
