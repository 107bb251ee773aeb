//! A queue that drains at the rate and holds the burst, the check in service included (nginx's
//! `burst=n` is n + 1 here). What finds the queue full is denied. Never hands the backend more
//! than the rate, when callers wait the `delay` that they are told.
//!
//! The state is [`gcra::Meter`](super::gcra::Meter), the same meter as the token bucket's.

pub use super::gcra::Meter as LeakyBucket;

use crate::model::{Cost, Micros, Quota, Timestamp};

/// How long a check that is admitted into `queue` (as it was before) waits for its turn.
pub fn delay(queue: LeakyBucket, now: Timestamp) -> Micros {
    queue.drained_after(now)
}

/// How long a check of `cost` that is in `queue` already still waits, at the most: as if it were
/// the last in it.
pub fn delay_of_repeat(queue: LeakyBucket, quota: Quota, now: Timestamp, cost: Cost) -> Micros {
    let mut before = queue;
    let charged = super::Charged { at: now, cost };
    before.refund(quota, now, charged, cost);
    before.drained_after(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_come_at_once_leave_at_the_rate() {
        let quota = Quota::new(10, Micros::from_secs(1)).unwrap();
        let now = Timestamp::from_micros(42);
        let mut queue = LeakyBucket::default().settle(quota, now);
        for i in 0..10 {
            assert_eq!(delay(queue, now), Micros::from_millis(100 * i));
            queue = queue.charge(quota, now, 1);
            assert_eq!(
                delay_of_repeat(queue, quota, now, 1),
                Micros::from_millis(100 * i)
            );
        }
        assert!(queue.decide(quota, now, 1).retry().is_some());
    }
}
