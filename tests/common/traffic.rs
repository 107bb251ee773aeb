//! Made-up traffic against the sliding counter and the exact log side by side: how often, and by
//! how much, the estimate is wrong.

use tidegate::algorithm::{SlidingCounter, SlidingLog, Verdict};
use tidegate::model::{ChargeId, Micros, Quota, Timestamp};

use super::probe::T0;

/// A random number generator (splitmix64), the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In 0..1.
    pub fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A gap of Poisson traffic, in microseconds.
    pub fn gap(&mut self, per_second: f64) -> f64 {
        -(1.0 - self.part()).ln() / per_second * 1e6
    }
}

/// Instants of requests of one unit, in microseconds from T0 on.
pub type Arrivals = Vec<u64>;

/// `load` times the limit, without a pattern.
pub fn poisson(limit: u64, window_s: u64, load: f64, windows: u64) -> Arrivals {
    let (mut random, mut at, mut all) = (Random(7), 0.0, Vec::new());
    let rate = limit as f64 / window_s as f64 * load;
    while at < (windows * window_s) as f64 * 1e6 {
        at += random.gap(rate);
        all.push(at as u64);
    }
    all
}

/// `load` times the limit in all, in bursts of half a limit within a fiftieth of a window.
pub fn bursty(limit: u64, window_s: u64, load: f64, windows: u64) -> Arrivals {
    let (mut random, mut all) = (Random(11), Vec::new());
    let bursts = (windows as f64 * load * 2.0) as u64;
    for _ in 0..bursts {
        let start = random.part() * (windows * window_s) as f64 * 1e6;
        let spread = window_s as f64 * 1e6 / 50.0;
        all.extend((0..limit / 2).map(|_| (start + random.part() * spread) as u64));
    }
    all.sort_unstable();
    all
}

/// The worst for the estimate: a full budget at the very end of a window, which is then taken for
/// spread evenly over it, and whoever asks goes on asking.
pub fn adversarial(limit: u64, window_s: u64, windows: u64) -> Arrivals {
    let window = window_s * 1_000_000;
    let mut all = Vec::new();
    for n in (0..windows).step_by(3) {
        let end = (n + 1) * window;
        all.extend((0..limit).map(|i| end - limit + i));
        let every = window / (4 * limit);
        all.extend((0..4 * limit).map(|i| end + i * every));
    }
    all
}

/// What was found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Error {
    pub checks: u64,
    /// Admitted though the exact window, of what the counter itself had admitted, was full.
    pub wrongly_admitted: u64,
    /// Denied though it had room.
    pub wrongly_denied: u64,
    /// The most units in any window beyond the limit.
    pub most_over: u64,
}

impl Error {
    pub fn wrong_percent(&self) -> f64 {
        (self.wrongly_admitted + self.wrongly_denied) as f64 * 100.0 / self.checks.max(1) as f64
    }

    pub fn over_percent(&self, limit: u64) -> f64 {
        self.most_over as f64 * 100.0 / limit as f64
    }
}

/// Each decision of the counter against the exact log of what the counter admitted.
pub fn measure(quota: Quota, arrivals: &[u64]) -> Error {
    let mut counter = SlidingCounter::default();
    let mut log = SlidingLog::default();
    let mut error = Error::default();
    for (n, us) in arrivals.iter().enumerate() {
        let now: Timestamp = T0 + Micros::new(*us);
        log.settle(quota.window(), now);
        counter = counter.settle(quota, now);
        let exact = log.decide(quota, now, 1) == Verdict::Room;
        let estimate = counter.decide(quota, now, 1) == Verdict::Room;
        error.checks += 1;
        error.wrongly_admitted += u64::from(estimate && !exact);
        error.wrongly_denied += u64::from(!estimate && exact);
        if estimate {
            counter = counter.charge(quota, now, 1);
            let id = ChargeId::new(n.to_string()).unwrap();
            log.charge(now, id, 1, Micros::ZERO);
            let over = log.used(quota.window(), now).saturating_sub(quota.limit());
            error.most_over = error.most_over.max(over);
        }
    }
    error
}
