//! How much was admitted in the worst window, when each charge's instant is only known to lie
//! between two others. Pure sums over intervals; never guesses an instant.
//!
//! A charge at `x` counts in the windows `(t-W, t]` with `x <= t < x+W`. Of a charge in
//! `[earliest, latest]` this much is known: it counts *certainly* while
//! `latest <= t < earliest+W`, and *possibly* while `earliest <= t < latest+W`. So a ceiling is
//! proven broken when certain lifetimes add up above the limit, whatever the true instants were.

use std::collections::BTreeMap;

/// A charge that took place somewhere in `[earliest, latest]`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// It was not before this instant.
    pub(super) earliest: u64,
    /// It was not after this instant; `u64::MAX` when nothing is known.
    pub(super) latest: u64,
    /// Units charged.
    pub(super) units: u64,
}

/// What the lifetimes of a ceiling's charges add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowLoad {
    /// The most units in one window.
    pub(super) peak: u64,
    /// The end of the first window that holds the peak.
    pub(super) peak_at: u64,
    /// The fewest units that would have had to be refused for no window to exceed the limit.
    pub(super) excess: u64,
}

/// Lower bounds: in some window at least `peak` units were admitted, and at least `excess` units
/// were admitted wrongly.
pub(super) fn certain(spans: &[Span], window: u64, limit: u64) -> WindowLoad {
    let lifetimes = spans.iter().filter_map(|span| {
        let end = span.earliest.saturating_add(window);
        (span.latest < end).then_some((span.latest, end, span.units))
    });
    sweep(lifetimes.collect(), limit)
}

/// Upper bounds: in no window more than `peak` units were admitted, and at most `excess` units
/// wrongly. Where a ceiling is used to the full, an entry that takes the place of one that has
/// just gone is within these bounds, so they are seldom zero under load.
pub(super) fn possible(spans: &[Span], window: u64, limit: u64) -> WindowLoad {
    let lifetimes = spans.iter().map(|span| {
        (
            span.earliest,
            span.latest.saturating_add(window),
            span.units,
        )
    });
    sweep(lifetimes.collect(), limit)
}

/// Sweeps over lifetimes `[begin, end)`. Whenever more than the limit is alive, it strikes out
/// units of the lifetime that ends last: the classic greedy colouring of intervals, which strikes
/// out as few as can be.
fn sweep(mut lifetimes: Vec<(u64, u64, u64)>, limit: u64) -> WindowLoad {
    lifetimes.sort_unstable();
    let (mut raw, mut kept) = (Alive::default(), Alive::default());
    let mut load = WindowLoad::default();
    for (number, (begin, end, units)) in lifetimes.into_iter().enumerate() {
        for alive in [&mut raw, &mut kept] {
            alive.expire(begin);
            alive.add((end, number), units);
        }
        if raw.sum > load.peak {
            (load.peak, load.peak_at) = (raw.sum, begin);
        }
        load.excess += kept.shrink_to(limit);
    }
    load
}

/// The lifetimes that have begun and not ended, by their ends.
#[derive(Default)]
struct Alive {
    by_end: BTreeMap<(u64, usize), u64>,
    sum: u64,
}

impl Alive {
    fn add(&mut self, key: (u64, usize), units: u64) {
        self.by_end.insert(key, units);
        self.sum += units;
    }

    fn expire(&mut self, now: u64) {
        while let Some(entry) = self.by_end.first_entry() {
            if entry.key().0 > now {
                return;
            }
            self.sum -= entry.remove();
        }
    }

    fn shrink_to(&mut self, limit: u64) -> u64 {
        let over = self.sum.saturating_sub(limit);
        let mut left = over;
        while left > 0 {
            let Some(mut entry) = self.by_end.last_entry() else {
                break;
            };
            let struck = left.min(*entry.get());
            *entry.get_mut() -= struck;
            if *entry.get() == 0 {
                entry.remove();
            }
            self.sum -= struck;
            left -= struck;
        }
        over
    }
}

/// Answers how much of a ceiling can have been used when somebody was refused.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    by_earliest: Vec<(u64, u64)>,
    by_latest: Vec<(u64, u64)>,
    window: u64,
}

impl Use {
    /// The use that these charges make of a ceiling with this window. Charges whose fate is
    /// unknown belong in it, with `latest` at `u64::MAX`.
    pub(super) fn new(spans: &[Span], window: u64) -> Self {
        let sums = |key: fn(&Span) -> u64| {
            let mut points: Vec<_> = spans.iter().map(|span| (key(span), span.units)).collect();
            points.sort_unstable();
            let mut sum = 0;
            for (_, units) in &mut points {
                sum += *units;
                *units = sum;
            }
            points
        };
        Use {
            by_earliest: sums(|span| span.earliest),
            by_latest: sums(|span| span.latest),
            window,
        }
    }

    /// The most units that can have counted at any one instant in `[sent, answered]`: all that
    /// may have been charged by its end, less all that had certainly expired by its beginning.
    pub(super) fn at_most(&self, sent: u64, answered: u64) -> u64 {
        let up_to = |sums: &[(u64, u64)], at: u64| {
            let count = sums.partition_point(|(instant, _)| *instant <= at);
            count
                .checked_sub(1)
                .and_then(|last| sums.get(last))
                .map_or(0, |(_, sum)| *sum)
        };
        let expired = match sent.checked_sub(self.window) {
            Some(horizon) => up_to(&self.by_latest, horizon),
            None => 0,
        };
        up_to(&self.by_earliest, answered).saturating_sub(expired)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 4;

    fn span(earliest: u64, latest: u64, units: u64) -> Span {
        Span {
            earliest,
            latest,
            units,
        }
    }

    fn point(at: u64, units: u64) -> Span {
        span(at, at, units)
    }

    /// Every choice of one instant a span.
    fn instants(spans: &[Span]) -> Vec<Vec<Span>> {
        spans.iter().fold(vec![Vec::new()], |choices, s| {
            let grown = choices.iter().flat_map(|choice| {
                (s.earliest..=s.latest).map(move |at| {
                    let mut longer = choice.clone();
                    longer.push(point(at, s.units));
                    longer
                })
            });
            grown.collect()
        })
    }

    /// Units of known instants in `(t-W, t]`.
    fn in_window(points: &[Span], t: u64) -> u64 {
        let counted = points
            .iter()
            .filter(|p| p.earliest <= t && t < p.earliest + WINDOW);
        counted.map(|p| p.units).sum()
    }

    fn worst(points: &[Span]) -> u64 {
        (0..40).map(|t| in_window(points, t)).max().unwrap_or(0)
    }

    /// The fewest units to take away so that no window exceeds the limit, by trying every way.
    fn fewest_wrong(points: &[Span], limit: u64) -> u64 {
        let mut ways = vec![Vec::new()];
        for p in points {
            let grown = ways.iter().flat_map(|way| {
                (0..=p.units).map(move |kept| {
                    let mut longer: Vec<Span> = way.clone();
                    longer.push(point(p.earliest, kept));
                    longer
                })
            });
            ways = grown.collect();
        }
        let total: u64 = points.iter().map(|p| p.units).sum();
        let sound = ways.iter().filter(|way| worst(way) <= limit);
        let kept = sound
            .map(|way| way.iter().map(|p| p.units).sum::<u64>())
            .max();
        total - kept.unwrap_or(0)
    }

    fn spans(count: usize, width: u64) -> impl Strategy<Value = Vec<Span>> {
        let one = (0u64..14, 0..=width, 1u64..=3)
            .prop_map(|(earliest, wide, units)| span(earliest, earliest + wide, units));
        prop::collection::vec(one, 0..=count)
    }

    proptest! {
        #[test]
        fn with_exact_instants_both_bounds_are_the_truth(points in spans(6, 0), limit in 0u64..6) {
            let (low, high) = (certain(&points, WINDOW, limit), possible(&points, WINDOW, limit));
            prop_assert_eq!(low, high);
            prop_assert_eq!(low.peak, worst(&points));
            prop_assert_eq!(low.excess, fewest_wrong(&points, limit));
            if low.peak > 0 {
                prop_assert_eq!(in_window(&points, low.peak_at), low.peak);
            }
        }

        #[test]
        fn whatever_the_instants_were_the_truth_is_between_the_bounds(
            spans in spans(4, 3), limit in 0u64..6,
        ) {
            let (low, high) = (certain(&spans, WINDOW, limit), possible(&spans, WINDOW, limit));
            for points in instants(&spans) {
                let (peak, wrong) = (worst(&points), fewest_wrong(&points, limit));
                prop_assert!(low.peak <= peak && peak <= high.peak, "{points:?}: {low:?} {high:?}");
                prop_assert!(low.excess <= wrong && wrong <= high.excess, "{points:?}: {low:?} {high:?}");
            }
        }

        #[test]
        fn a_peak_is_certain_when_its_spans_fit_into_one_window(spans in spans(6, 5), limit in 0u64..6) {
            let inside = |t: u64| -> u64 {
                let fit = spans.iter().filter(|s| s.latest <= t && t < s.earliest + WINDOW);
                fit.map(|s| s.units).sum()
            };
            let brute = (0..40).map(inside).max().unwrap_or(0);
            prop_assert_eq!(certain(&spans, WINDOW, limit).peak, brute);
        }

        #[test]
        fn no_choice_of_instants_uses_more_than_at_most(
            spans in spans(4, 3), sent in 0u64..16, wait in 0u64..3,
        ) {
            let bound = Use::new(&spans, WINDOW).at_most(sent, sent + wait);
            for points in instants(&spans) {
                for t in sent..=sent + wait {
                    prop_assert!(in_window(&points, t) <= bound);
                }
            }
        }

        #[test]
        fn with_exact_instants_at_most_is_the_truth(points in spans(6, 0), at in 0u64..20) {
            prop_assert_eq!(Use::new(&points, WINDOW).at_most(at, at), in_window(&points, at));
        }
    }

    #[test]
    fn an_entry_counts_up_to_one_microsecond_before_its_window_is_over() {
        let over = [point(10, 1), point(13, 1)];
        assert_eq!(certain(&over, WINDOW, 1).excess, 1);
        let right = [point(10, 1), point(14, 1)];
        assert_eq!(possible(&right, WINDOW, 1).excess, 0);
    }

    #[test]
    fn an_unknown_charge_may_count_for_ever_and_proves_nothing() {
        let unknown = [span(5, u64::MAX, 2), point(6, 1)];
        assert_eq!(certain(&unknown, WINDOW, 1).peak, 1);
        assert_eq!(Use::new(&unknown, WINDOW).at_most(5_000_000, 5_000_000), 2);
    }

    #[test]
    fn a_call_as_long_as_the_window_proves_nothing() {
        let slow = [span(0, WINDOW, 1), span(0, WINDOW, 1)];
        assert_eq!(certain(&slow, WINDOW, 1), WindowLoad::default());
    }
}
