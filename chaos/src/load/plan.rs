//! What one instance is to ask, when, and under which policies: everything about the load that
//! must be known beforehand. Pure: the schedule of a plan is always the same.

use serde::{Deserialize, Serialize};

use tidegate::model::{
    Algorithm, Allowance, CeilingRule, ClockSource, Micros, OnOutage, Policies, Policy, PolicyName,
    Quota,
};

/// The most checks a second that one instance is asked for.
const RATE_MAX: u32 = 50_000;

/// A policy of the load: a sliding log over all regions, and one for each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyPlan {
    /// Its name.
    pub name: String,
    /// Units a window over all regions.
    pub global: u64,
    /// Units a window in each region.
    pub region: u64,
    /// The window, in milliseconds.
    pub window_ms: u64,
    /// Whether the instance's own clock stamps charges.
    pub callers_clock: bool,
}

/// One subject's traffic from one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Which policy, by its place in the plan.
    pub policy: usize,
    /// Who.
    pub subject: String,
    /// From where: the checks take the regions by turns.
    pub regions: Vec<String>,
    /// How many checks a second.
    pub rate: u32,
    /// When the first is sent, in milliseconds after the load's beginning.
    pub from_ms: u64,
    /// Every how manieth check costs 3 units; 0 for none.
    pub heavy_every: u32,
}

/// A step of the instance's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// When, in milliseconds after the load's beginning.
    pub at_ms: u64,
    /// By how much it goes back, in milliseconds.
    pub back_ms: u64,
}

/// Everything that an instance must know; it travels as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// Which instance this is.
    pub instance: u16,
    /// The store, as `--redis` takes it.
    pub redis: String,
    /// The prefix of all keys.
    pub key_prefix: String,
    /// How long a check may take, in milliseconds.
    pub deadline_ms: u64,
    /// How long checks are asked, in milliseconds.
    pub length_ms: u64,
    /// Where the history is written.
    pub history: std::path::PathBuf,
    /// Whether the instance repairs what a failover lost.
    pub repair: bool,
    /// Whether the instance has its local stage.
    pub local_stage: bool,
    /// The policies.
    pub policies: Vec<PolicyPlan>,
    /// The traffic.
    pub streams: Vec<Stream>,
    /// A step of the clock, for policies that use it.
    pub clock_step: Option<ClockStep>,
}

/// Why a plan can't be carried out: a name or a number of a policy is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the load's policies: {0}")]
pub struct PlanError(String);

/// One check that is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    /// When, in microseconds after the load's beginning.
    pub(super) at: u64,
    /// Which stream of the plan.
    pub(super) stream: usize,
    /// Which of the stream's regions.
    pub(super) region: usize,
    /// Units asked for.
    pub(super) cost: u64,
}

/// The policies of a plan, ready to be enforced.
///
/// # Errors
/// When a name or a number is out of bounds.
pub fn policies(plans: &[PolicyPlan]) -> Result<Policies, PlanError> {
    fn wrong(error: impl ToString) -> PlanError {
        PlanError(error.to_string())
    }
    let policy = |plan: &PolicyPlan| {
        let rule = |limit| -> Result<_, PlanError> {
            let quota = Quota::new(limit, Micros::from_millis(plan.window_ms)).map_err(wrong)?;
            Ok(Some(CeilingRule {
                algorithm: Algorithm::SlidingLog,
                allowance: Allowance::Limited(quota),
                delay: false,
            }))
        };
        let name = PolicyName::new(&plan.name).map_err(wrong)?;
        let policy = Policy::new(name, rule(plan.global)?, rule(plan.region)?);
        let clock = match plan.callers_clock {
            true => ClockSource::Caller,
            false => ClockSource::Store,
        };
        let policy = policy.map_err(wrong)?.with_on_outage(OnOutage::Deny);
        Ok(policy.with_clock(clock))
    };
    let policies: Result<Vec<_>, PlanError> = plans.iter().map(policy).collect();
    Policies::new(policies?).map_err(wrong)
}

impl LoadPlan {
    /// Every check of the plan, in the order in which they are due. Streams of different
    /// instances are out of step with each other, so that their checks don't come in pairs.
    pub(super) fn schedule(&self) -> Vec<Due> {
        let end = self.length_ms.saturating_mul(1_000);
        let mut due = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            let rate = u64::from(stream.rate.clamp(1, RATE_MAX));
            // The golden ratio spreads any number of phases evenly.
            let turn = (number as u64 + 97 * u64::from(self.instance)) * 618_034 % 1_000_000;
            let first = stream.from_ms.saturating_mul(1_000) + turn / rate;
            let regions = stream.regions.len().max(1);
            for n in 0.. {
                let at = first + n * 1_000_000 / rate;
                if at >= end {
                    break;
                }
                let heavy = stream.heavy_every > 0 && n % u64::from(stream.heavy_every) == 2;
                due.push(Due {
                    at,
                    stream: number,
                    region: usize::try_from(n).unwrap_or(0) % regions,
                    cost: if heavy { 3 } else { 1 },
                });
            }
        }
        due.sort_unstable();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(instance: u16) -> LoadPlan {
        let stream = |subject: &str, rate, from_ms| Stream {
            policy: 0,
            subject: subject.into(),
            regions: vec!["us".into(), "eu".into()],
            rate,
            from_ms,
            heavy_every: 7,
        };
        LoadPlan {
            instance,
            redis: String::new(),
            key_prefix: "tg".into(),
            deadline_ms: 50,
            length_ms: 3_000,
            history: "history".into(),
            repair: false,
            local_stage: true,
            policies: vec![PolicyPlan {
                name: "hot".into(),
                global: 12,
                region: 8,
                window_ms: 1_000,
                callers_clock: true,
            }],
            streams: vec![stream("a", 100, 0), stream("b", 10, 1_000)],
            clock_step: None,
        }
    }

    #[test]
    fn a_schedule_keeps_its_rates_and_its_order() {
        let due = plan(0).schedule();
        assert!(due.is_sorted());
        let of = |stream| due.iter().filter(move |d| d.stream == stream);
        assert_eq!(of(0).count(), 300);
        assert_eq!(of(1).count(), 20);
        assert!(of(1).all(|d| d.at >= 1_000_000));
        assert_eq!(of(0).filter(|d| d.region == 0).count(), 150);
        assert_eq!(of(0).filter(|d| d.cost == 3).count(), 43);
        assert_ne!(due[0].at, plan(1).schedule()[0].at);
    }

    #[test]
    fn a_plan_travels_as_one_line() {
        let line = serde_json::to_string(&plan(3)).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<LoadPlan>(&line).unwrap(), plan(3));
    }

    #[test]
    fn policies_are_checked() {
        let mut wrong = plan(0).policies;
        wrong[0].window_ms = 0;
        assert!(policies(&wrong).is_err());
        let sound = policies(&plan(0).policies).unwrap();
        let policy = sound.get("hot").unwrap();
        assert_eq!(policy.clock(), ClockSource::Caller);
    }
}
