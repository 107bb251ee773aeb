//! Promise 1 from the admissions alone, without the model: in every window, the admitted cost of
//! an exact ceiling is at most its limit.

use std::collections::BTreeMap;

use tidegate::model::{Algorithm, Ceiling, Cost, Micros, Scope, Timestamp};
use tidegate::store::ChargeRequest;

/// What was admitted since limits last changed, a charge was given back, or a clock stepped back.
#[derive(Debug, Default)]
pub struct Ledger {
    by_ceiling: BTreeMap<String, Admitted>,
    over: Option<String>,
    latest: Timestamp,
    /// By how much a check may have been overtaken by another in this account.
    overtaken: Micros,
}

#[derive(Debug)]
struct Admitted {
    ceiling: Ceiling,
    charges: Vec<(Timestamp, Cost)>,
}

impl Ledger {
    /// A check came at `now`. A clock that stepped back by more than `skew_max` begins another
    /// account: instants before and after it have no common order. Of checks that overtake each
    /// other by less a later one may have let go what would count for an earlier one: windows are
    /// judged that are shorter by as much.
    pub fn saw(&mut self, now: Timestamp, skew_max: Micros) {
        if now + skew_max < self.latest {
            self.end();
            self.latest = now;
        }
        self.overtaken = self.overtaken.max(self.latest.since(now));
        self.latest = self.latest.max(now);
    }

    /// A request was admitted and charged.
    pub fn charged(
        &mut self,
        ceilings: &[Ceiling],
        region: &str,
        now: Timestamp,
        request: &ChargeRequest,
    ) {
        for ceiling in ceilings {
            if ceiling.algorithm == Algorithm::SlidingLog {
                let name = match ceiling.scope {
                    Scope::Global => "global".to_owned(),
                    Scope::Region => format!("region {region}"),
                };
                let admitted = self.by_ceiling.entry(name).or_insert_with(|| Admitted {
                    ceiling: *ceiling,
                    charges: Vec::new(),
                });
                admitted.charges.push((now, request.cost));
            }
        }
    }

    /// What follows is under other rules: judges what was, and forgets it.
    pub fn end(&mut self) {
        if let Err(why) = self.judge() {
            self.over.get_or_insert(why);
        }
        self.by_ceiling.clear();
        self.overtaken = Micros::ZERO;
    }

    /// Whether every window kept to its limit.
    pub fn judge(&self) -> Result<(), String> {
        if let Some(why) = &self.over {
            return Err(why.clone());
        }
        for (name, Admitted { ceiling, charges }) in &self.by_ceiling {
            let window = ceiling.quota.window().saturating_sub(self.overtaken);
            for (end, _) in charges {
                let counted = |at: Timestamp| at <= *end && at + window > *end;
                let inside = charges.iter().filter(|(at, _)| counted(*at));
                let sum: Cost = inside.map(|(_, cost)| cost).sum();
                if sum > ceiling.quota.limit() {
                    let limit = ceiling.quota.limit();
                    return Err(format!(
                        "{name}: {sum} of {limit} admitted in the window that ends at {end:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
