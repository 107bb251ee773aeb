//! From a history to a judgement. Proves what it reports as wrong: a wrong admission by lower
//! bounds on what was admitted, a wrong denial by upper bounds on what can have been used. Never
//! counts a doubt as a fault.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::envelope::Envelope;
use super::expectations::{CeilingKey, Expectations, ExpectedCeiling};
use super::history::{AnsweredBy, Record, Status};
use super::service::{Service, service};
use super::window::{self, Span, Use, WindowLoad};
use tidegate::model::ClockSource;

/// How far callers' clocks may be apart at most without anything being dated back, in microseconds,
/// as [`ClockSource::Caller`] promises it.
const SKEW_MAX: u64 = 100_000;

/// How many of the worst ceilings a judgement lists.
const CEILINGS_LISTED_MAX: usize = 10;

/// What the oracle found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// Checks asked.
    pub checks: u64,
    /// Admitted, also without the store.
    pub admitted: u64,
    /// Denied, also without the store.
    pub denied: u64,
    /// Decided without the store, by the policy's outage choice.
    pub degraded: u64,
    /// Of these, admitted uncounted.
    pub degraded_admitted: u64,
    /// Answered by an error.
    pub errors: u64,
    /// Units that were certainly admitted above a ceiling's limit.
    pub wrongly_admitted: u64,
    /// The most units that can have been admitted above: timing alone can't exclude them.
    pub wrongly_admitted_possible: u64,
    /// Checks denied although even the most that can have been used left room.
    pub wrongly_denied: u64,
    /// Charges of which nobody knows whether they took place.
    pub unknown: u64,
    /// Calls that never came back.
    pub stuck: u64,
    /// Calls that came back, but after their deadline.
    pub past_deadline: u64,
    /// The ceilings with the most wrong admissions, worst first.
    pub ceilings: Vec<CeilingJudgement>,
    /// What each shard's service was like for the instance that saw it worst, by shard.
    pub shards: Vec<ShardJudgement>,
}

/// One ceiling of which too much was admitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CeilingJudgement {
    /// The policy.
    pub policy: String,
    /// Who is limited.
    pub subject: String,
    /// The region; absent for the global ceiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Units per window.
    pub limit: u64,
    /// The most that was certainly admitted in a window.
    pub peak: u64,
    /// When that window ended, in microseconds since the epoch.
    pub peak_at: u64,
    /// Units that were certainly admitted above the limit.
    pub wrongly_admitted: u64,
}

/// One shard's service, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ShardJudgement {
    /// The shard's number when the load began.
    pub shard: u16,
    /// See `Service::recovery`.
    pub recovery: Option<u64>,
    /// See `Service::longest_gap`.
    pub longest_gap: u64,
    /// See `Service::without_service`.
    pub without_service: u64,
}

/// All charges that are counted in one ceiling.
struct Counted {
    ceiling: ExpectedCeiling,
    admitted: Vec<Span>,
    unknown: Vec<Span>,
}

/// Judges a history, whose records may come in any order.
pub fn judge(records: &[Record], expected: &Expectations) -> Judgement {
    let mut judgement = tally(records, expected);
    let counted = count(records, expected);
    let overtaking = overtaking(records, expected);
    judgement.unknown = records.iter().filter(|r| is_unknown(r)).count() as u64;
    for (key, counted) in &counted {
        if !counted.ceiling.strict {
            continue;
        }
        let ExpectedCeiling { limit, window, .. } = counted.ceiling;
        let overtaking = overtaking.get(key.policy.as_str()).copied();
        let overtaking = overtaking.filter(|took| *took > SKEW_MAX.min(window / 10));
        let window = window.saturating_sub(overtaking.unwrap_or(0));
        let certain = window::certain(&counted.admitted, window, limit);
        judgement.wrongly_admitted += certain.excess;
        judgement.wrongly_admitted_possible +=
            window::possible(&counted.admitted, window, limit).excess;
        if certain.excess > 0 {
            judgement.ceilings.push(broken(key, limit, certain));
        }
    }
    judgement
        .ceilings
        .sort_by_key(|c| std::cmp::Reverse(c.wrongly_admitted));
    judgement.ceilings.truncate(CEILINGS_LISTED_MAX);
    judgement.wrongly_denied = wrongly_denied(records, expected, &counted);
    judgement.shards = shards(records, expected);
    judgement
}

/// By how much calls may have overtaken each other, by policy, where callers' clocks stamp them:
/// one that comes later than [`SKEW_MAX`] with an earlier instant looks like a clock that stepped
/// back, and what was charged after that instant is dated back to it. That skew is the callers' own.
fn overtaking<'a>(records: &'a [Record], expected: &Expectations) -> HashMap<&'a str, u64> {
    let mut longest: HashMap<&str, u64> = HashMap::new();
    for record in records.iter().filter(|r| is_counted(r)) {
        let policy = expected.policies.get(&record.policy);
        if policy.is_some_and(|policy| policy.clock() == ClockSource::Caller) {
            let took = record.answered.saturating_sub(record.sent);
            let longest = longest.entry(&record.policy).or_default();
            *longest = took.max(*longest);
        }
    }
    longest
}

fn broken(key: &CeilingKey, limit: u64, certain: WindowLoad) -> CeilingJudgement {
    CeilingJudgement {
        policy: key.policy.clone(),
        subject: key.subject.clone(),
        region: key.region.clone(),
        limit,
        peak: certain.peak,
        peak_at: certain.peak_at,
        wrongly_admitted: certain.excess,
    }
}

fn tally(records: &[Record], expected: &Expectations) -> Judgement {
    let mut seen = Judgement::default();
    for record in records {
        seen.checks += 1;
        seen.degraded += u64::from(record.degraded);
        match record.status {
            Status::Admitted => {
                seen.admitted += 1;
                seen.degraded_admitted += u64::from(record.degraded);
            }
            Status::Denied => seen.denied += 1,
            Status::Failed => seen.errors += 1,
            Status::Stuck => seen.stuck += 1,
        }
        let returned = record.status != Status::Stuck;
        let stalled = expected
            .stalls
            .within(record.instance, record.sent, record.answered);
        let late = record.late.saturating_sub(stalled);
        seen.past_deadline += u64::from(returned && late > expected.lateness_max);
    }
    seen
}

/// Whether the check was counted by the store: an outage choice is not.
pub(super) fn is_counted(record: &Record) -> bool {
    record.status == Status::Admitted && !record.degraded && record.cost > 0
}

/// Whether a charge was sent, for all we know, and nobody knows whether it took place.
fn is_unknown(record: &Record) -> bool {
    record.cost > 0 && (record.degraded || matches!(record.status, Status::Failed | Status::Stuck))
}

fn count(records: &[Record], expected: &Expectations) -> BTreeMap<CeilingKey, Counted> {
    let mut ceilings: BTreeMap<CeilingKey, Counted> = BTreeMap::new();
    let mut by_id: HashMap<(CeilingKey, &str), usize> = HashMap::new();
    for record in records.iter().filter(|r| is_counted(r) || is_unknown(r)) {
        for (key, ceiling) in expected.ceilings_of(record) {
            let counted = ceilings.entry(key.clone()).or_insert_with(|| Counted {
                ceiling,
                admitted: Vec::new(),
                unknown: Vec::new(),
            });
            let span = Span {
                earliest: record.sent,
                latest: record.answered,
                units: record.cost,
            };
            if is_unknown(record) {
                counted.unknown.push(Span {
                    latest: u64::MAX,
                    ..span
                });
                continue;
            }
            let place = counted.admitted.len();
            let first = match record.id.as_str() {
                "" => place,
                id => *by_id.entry((key, id)).or_insert(place),
            };
            match counted.admitted.get_mut(first) {
                // The same charge, asked for again: it took place once, by the first answer.
                Some(known) => {
                    known.earliest = known.earliest.min(span.earliest);
                    known.latest = known.latest.min(span.latest);
                }
                None => counted.admitted.push(span),
            }
        }
    }
    ceilings
}

fn wrongly_denied(
    records: &[Record],
    expected: &Expectations,
    counted: &BTreeMap<CeilingKey, Counted>,
) -> u64 {
    let uses: HashMap<&CeilingKey, Use> = counted
        .iter()
        .map(|(key, counted)| {
            let spans = [counted.admitted.as_slice(), &counted.unknown].concat();
            (key, Use::new(&spans, counted.ceiling.window))
        })
        .collect();
    let envelopes = envelopes(records, expected);
    let denied = records.iter().filter(|r| {
        r.status == Status::Denied && !r.degraded && r.answered > expected.denials_excused_until
    });
    let wrong = denied.filter(|record| {
        let ceilings = expected.ceilings_of(record);
        let mut had_room = ceilings.iter().map(|(key, ceiling)| match record.by {
            AnsweredBy::NodeCeiling => !envelopes
                .get(&(record.instance, key.clone()))
                .is_some_and(|envelope| envelope.exceeded_by(record.answered)),
            _ => {
                let used = uses
                    .get(key)
                    .map_or(0, |u| u.at_most(record.sent, record.answered));
                ceiling.strict && used.saturating_add(record.cost) <= ceiling.limit
            }
        });
        !ceilings.is_empty() && had_room.all(|room| room)
    });
    wrong.count() as u64
}

/// When a check was sent and answered, and its cost.
type Sent = (u64, u64, u64);

/// The envelopes of the ceilings for which a node's own ceiling refused anything.
fn envelopes(records: &[Record], expected: &Expectations) -> HashMap<(u16, CeilingKey), Envelope> {
    let mut sent: HashMap<(u16, CeilingKey), (ExpectedCeiling, Vec<Sent>)> = HashMap::new();
    for record in records.iter().filter(|r| r.by == AnsweredBy::NodeCeiling) {
        for (key, ceiling) in expected.ceilings_of(record) {
            sent.entry((record.instance, key))
                .or_insert((ceiling, Vec::new()));
        }
    }
    if sent.is_empty() {
        return HashMap::new();
    }
    for record in records {
        for (key, _) in expected.ceilings_of(record) {
            if let Some((_, checks)) = sent.get_mut(&(record.instance, key)) {
                checks.push((record.sent, record.answered, record.cost));
            }
        }
    }
    let envelope = |(expected, checks): (ExpectedCeiling, Vec<_>)| {
        Envelope::new(checks, expected.limit, expected.window)
    };
    sent.into_iter()
        .map(|(key, of)| (key, envelope(of)))
        .collect()
}

fn shards(records: &[Record], expected: &Expectations) -> Vec<ShardJudgement> {
    let mut answers: BTreeMap<(u16, u16), Vec<u64>> = BTreeMap::new();
    for record in records {
        let seen = (expected.shard_of(&record.subject), record.instance);
        let answers = answers.entry(seen).or_default();
        if record.by == AnsweredBy::Store && !record.degraded {
            answers.push(record.answered);
        }
    }
    let mut shards: BTreeMap<u16, ShardJudgement> = BTreeMap::new();
    for ((shard, instance), answers) in answers {
        let stalled = |from, to| expected.stalls.within(instance, from, to);
        let seen = service(answers, expected.recovery_from, expected.ended_at, stalled);
        let worst = shards.entry(shard).or_insert(ShardJudgement {
            shard,
            recovery: Some(0),
            longest_gap: 0,
            without_service: 0,
        });
        worst.add(seen);
    }
    shards.into_values().collect()
}

impl ShardJudgement {
    fn add(&mut self, seen: Service) {
        self.recovery = self.recovery.zip(seen.recovery).map(|(a, b)| a.max(b));
        self.longest_gap = self.longest_gap.max(seen.longest_gap);
        self.without_service = self.without_service.max(seen.without_service);
    }
}
