//! How long a shard was without service: from one answer of the store to the next, as one
//! instance saw it. Counts only what the store itself answered; a remembered denial or an outage
//! choice is no service.

/// An interruption shorter than this is not told from a busy machine: 100 ms, in microseconds.
pub(super) const INTERRUPTION_MIN: u64 = 100_000;

/// What one instance saw of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Service {
    /// The longest time between two answers of the store after the fault, in microseconds.
    pub(super) longest_gap: u64,
    /// The sum of all gaps of at least [`INTERRUPTION_MIN`] after the fault, in microseconds.
    pub(super) without_service: u64,
    /// From the fault to the end of the last such gap; the longest gap when none was that long.
    /// `None` when the store never answered again.
    pub(super) recovery: Option<u64>,
}

/// Measures the service between `fault` and `end` from the instants of the store's answers, in
/// microseconds. Gaps that begin before the fault count from the fault on.
///
/// `stalled` says how much of a time the instance itself was not let run; that is taken off.
pub(super) fn service(
    mut answers: Vec<u64>,
    fault: u64,
    end: u64,
    stalled: impl Fn(u64, u64) -> u64,
) -> Service {
    answers.sort_unstable();
    answers.retain(|at| *at <= end);
    let mut service = Service {
        recovery: Some(0),
        ..Service::default()
    };
    let (mut begin, mut last_interruption) = (fault, None);
    for at in answers.into_iter().filter(|at| *at > fault).chain([end]) {
        let gap = at.saturating_sub(begin);
        let gap = gap.saturating_sub(stalled(begin, at));
        service.longest_gap = service.longest_gap.max(gap);
        if gap >= INTERRUPTION_MIN {
            service.without_service += gap;
            last_interruption = Some(at);
        }
        begin = at;
    }
    service.recovery = match last_interruption {
        None => Some(service.longest_gap),
        Some(at) if at >= end => None,
        Some(at) => Some(at - fault),
    };
    service
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    fn every_10_ms(from: u64, to: u64) -> impl Iterator<Item = u64> {
        (from..to).step_by(10).map(|ms| ms * MS)
    }

    #[test]
    fn recovery_is_counted_from_the_fault_to_the_end_of_the_last_interruption() {
        let answers = every_10_ms(0, 500)
            .chain(every_10_ms(1_700, 1_800))
            .chain(every_10_ms(2_000, 3_000));
        let seen = service(answers.collect(), 450 * MS, 3_000 * MS, |_, _| 0);
        assert_eq!(seen.longest_gap, 1_210 * MS);
        assert_eq!(seen.without_service, 1_420 * MS);
        assert_eq!(seen.recovery, Some(1_550 * MS));
    }

    #[test]
    fn without_an_interruption_recovery_is_the_longest_gap() {
        let answers = every_10_ms(0, 500).chain(every_10_ms(560, 1_000));
        let seen = service(answers.collect(), 400 * MS, 1_000 * MS, |_, _| 0);
        assert_eq!(seen.without_service, 0);
        assert_eq!(seen.recovery, Some(70 * MS));
    }

    #[test]
    fn what_the_machine_stood_still_is_no_interruption() {
        let answers = every_10_ms(0, 500).chain(every_10_ms(700, 1_000));
        let stalled = |from: u64, to: u64| {
            if from < 500 * MS && to >= 700 * MS {
                150 * MS
            } else {
                0
            }
        };
        let seen = service(answers.collect(), 400 * MS, 1_000 * MS, stalled);
        assert_eq!(seen.longest_gap, 60 * MS);
        assert_eq!(seen.recovery, Some(60 * MS));
    }

    #[test]
    fn a_shard_that_never_answers_again_has_not_recovered() {
        let seen = service(
            every_10_ms(0, 500).collect(),
            400 * MS,
            2_000 * MS,
            |_, _| 0,
        );
        assert_eq!(seen.recovery, None);
        assert_eq!(service(Vec::new(), 0, 2_000 * MS, |_, _| 0).recovery, None);
    }
}
