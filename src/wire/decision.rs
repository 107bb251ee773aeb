//! A decision as JSON, both ways. Never adds a member by case: each is there whenever it applies.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::seconds::Seconds;
use crate::model::{
    CeilingStatus, ChargeId, Cost, Decision, DecisionFacts, Denial, Grant, Micros, PolicyName,
    Region, Retry, Scope, Source, Subject,
};

/// A decision's JSON members, in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionBody {
    /// Whether the check may go on.
    pub admitted: bool,
    /// The policy asked.
    pub policy: String,
    /// Who was limited.
    pub subject: String,
    /// Where, when the check said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Units asked for.
    pub cost: Cost,
    /// The charge's id.
    pub id: String,
    /// Denied: when the same request, alone, would be admitted; absent when never or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Seconds>,
    /// Denied for good: it costs more than a ceiling ever allows.
    pub never: bool,
    /// Decided without the store, by the policy's outage choice.
    pub degraded: bool,
    /// Which part answered: `store`, `denial_cache`, `node_ceiling`, `lease` or `outage`.
    #[serde(with = "source")]
    pub source: Source,
    /// Leaky bucket, admitted: how long to wait before going on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Seconds>,
    /// The ceiling that decided, or that is closest to it: `global` or `region`.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "binding")]
    pub binding: Option<Scope>,
    /// Each ceiling that applies, global first.
    pub ceilings: Vec<CeilingBody>,
}

/// One ceiling's JSON members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CeilingBody {
    /// `global` or `region`.
    #[serde(with = "scope")]
    pub scope: Scope,
    /// The region, when it is one region's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Units per window.
    pub limit: u64,
    /// The window.
    pub window: Seconds,
    /// Units left now.
    pub remaining: u64,
    /// Until the ceiling is whole again if nothing more comes.
    pub reset_after: Seconds,
}

/// Why a [`DecisionBody`] is no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the decision's {member} is not valid: {detail}")]
#[non_exhaustive]
pub struct DecisionBodyError {
    /// The JSON member.
    pub member: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

impl From<&Decision> for DecisionBody {
    fn from(decision: &Decision) -> Self {
        let facts = decision.facts();
        let delay = match decision {
            Decision::Admitted(grant) => grant.delay,
            Decision::Denied(_) => None,
        };
        DecisionBody {
            admitted: decision.is_admitted(),
            policy: facts.policy.to_string(),
            subject: facts.subject.to_string(),
            region: facts.region.as_ref().map(Region::to_string),
            cost: facts.cost,
            id: facts.id.to_string(),
            retry_after: decision.retry_after().map(Seconds),
            never: decision.is_never(),
            degraded: facts.degraded,
            source: facts.source,
            delay: delay.map(Seconds),
            binding: decision.binding().map(|ceiling| ceiling.scope),
            ceilings: facts.ceilings.iter().map(CeilingBody::from).collect(),
        }
    }
}

impl From<&CeilingStatus> for CeilingBody {
    fn from(ceiling: &CeilingStatus) -> Self {
        CeilingBody {
            scope: ceiling.scope,
            region: ceiling.region.as_ref().map(Region::to_string),
            limit: ceiling.limit,
            window: Seconds(ceiling.window),
            remaining: ceiling.remaining,
            reset_after: Seconds(ceiling.reset_after),
        }
    }
}

fn invalid(member: &'static str) -> impl Fn(String) -> DecisionBodyError {
    move |detail| DecisionBodyError { member, detail }
}

fn region(given: Option<String>) -> Result<Option<Region>, DecisionBodyError> {
    given
        .map(Region::new)
        .transpose()
        .map_err(|e| invalid("region")(e.to_string()))
}

impl TryFrom<DecisionBody> for Decision {
    type Error = DecisionBodyError;

    /// Reads a decision back. JSON says which ceiling decided and how long it refuses, but not
    /// what the others would have said: only the binding one carries its refusal.
    fn try_from(body: DecisionBody) -> Result<Self, DecisionBodyError> {
        let retry = match (body.never, body.retry_after) {
            (true, _) => Some(Retry::Never),
            (false, wait) => wait.map(|s| Retry::After(Micros::from(s))),
        };
        let refusal = |scope: Scope| (body.binding == Some(scope)).then_some(retry).flatten();
        let ceilings = body
            .ceilings
            .iter()
            .map(|c| {
                Ok(CeilingStatus {
                    scope: c.scope,
                    region: region(c.region.clone())?,
                    limit: c.limit,
                    window: c.window.into(),
                    remaining: c.remaining,
                    reset_after: c.reset_after.into(),
                    retry: refusal(c.scope),
                })
            })
            .collect::<Result<_, DecisionBodyError>>()?;
        let facts = DecisionFacts {
            policy: PolicyName::new(&body.policy).map_err(|e| invalid("policy")(e.to_string()))?,
            subject: Subject::new(body.subject).map_err(|e| invalid("subject")(e.to_string()))?,
            region: region(body.region)?,
            cost: body.cost,
            id: ChargeId::new(body.id).map_err(|e| invalid("id")(e.to_string()))?,
            degraded: body.degraded,
            source: body.source,
            ceilings,
        };
        Ok(if body.admitted {
            Decision::Admitted(Grant {
                facts,
                delay: body.delay.map(Micros::from),
            })
        } else {
            Decision::Denied(Denial { facts, retry })
        })
    }
}

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DecisionBody::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let body = DecisionBody::deserialize(deserializer)?;
        Decision::try_from(body).map_err(D::Error::custom)
    }
}

/// [`Source`] by its name.
mod source {
    use super::*;

    pub fn serialize<S: Serializer>(source: &Source, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(source.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
        let name = String::deserialize(deserializer)?;
        Source::ALL
            .into_iter()
            .find(|source| source.name() == name)
            .ok_or_else(|| D::Error::custom(format!("`{name}` is no source of decisions")))
    }
}

/// [`Scope`] by its name.
mod scope {
    use super::*;

    pub fn serialize<S: Serializer>(scope: &Scope, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(scope.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scope, D::Error> {
        let name = String::deserialize(deserializer)?;
        [Scope::Global, Scope::Region]
            .into_iter()
            .find(|scope| scope.name() == name)
            .ok_or_else(|| D::Error::custom(format!("`{name}` is no scope: global or region")))
    }
}

/// The binding ceiling's [`Scope`], absent without ceilings.
mod binding {
    use super::*;

    pub fn serialize<S: Serializer>(
        binding: &Option<Scope>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match binding {
            Some(scope) => super::scope::serialize(scope, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Scope>, D::Error> {
        super::scope::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceiling(scope: Scope, limit: u64, remaining: u64, reset_us: u64) -> CeilingStatus {
        CeilingStatus {
            scope,
            region: (scope == Scope::Region).then(|| Region::new("us").unwrap()),
            limit,
            window: Micros::from_secs(60),
            remaining,
            reset_after: Micros::new(reset_us),
            retry: None,
        }
    }

    fn facts(ceilings: Vec<CeilingStatus>, source: Source) -> DecisionFacts {
        DecisionFacts {
            policy: PolicyName::new("video_top").unwrap(),
            subject: Subject::new("key-1").unwrap(),
            region: Some(Region::new("us").unwrap()),
            cost: 1,
            id: ChargeId::new("01J").unwrap(),
            degraded: source == Source::Outage,
            source,
            ceilings,
        }
    }

    fn denied() -> Decision {
        let retry = Some(Retry::After(Micros::new(12_340_561)));
        let mut region = ceiling(Scope::Region, 500, 0, 31_700_000);
        region.retry = retry;
        let global = ceiling(Scope::Global, 1000, 380, 59_100_000);
        let facts = facts(vec![global, region], Source::Store);
        Decision::Denied(Denial { facts, retry })
    }

    #[test]
    fn a_denial_is_written_as_documented() {
        let expected = concat!(
            r#"{"admitted":false,"policy":"video_top","subject":"key-1","region":"us","cost":1,"#,
            r#""id":"01J","retry_after":12.340561,"never":false,"degraded":false,"#,
            r#""source":"store","binding":"region","ceilings":["#,
            r#"{"scope":"global","limit":1000,"window":60,"remaining":380,"reset_after":59.1},"#,
            r#"{"scope":"region","region":"us","limit":500,"window":60,"remaining":0,"#,
            r#""reset_after":31.7}]}"#,
        );
        assert_eq!(serde_json::to_string(&denied()).unwrap(), expected);
    }

    #[test]
    fn a_wait_is_told_on_an_admission_and_what_does_not_apply_is_absent() {
        let decision = Decision::Admitted(Grant {
            facts: facts(
                vec![ceiling(Scope::Global, 10, 3, 700_000)],
                Source::DenialCache,
            ),
            delay: Some(Micros::new(700_000)),
        });
        let json = serde_json::to_value(&decision).unwrap();
        assert_eq!(json["delay"], 0.7);
        assert_eq!(json["source"], "denial_cache");
        assert!(json.get("retry_after").is_none());
        assert!(json["ceilings"][0].get("region").is_none());
    }

    #[test]
    fn never_and_unknown_have_no_retry_after() {
        let never = Decision::Denied(Denial {
            facts: facts(vec![], Source::Store),
            retry: Some(Retry::Never),
        });
        let json = serde_json::to_value(&never).unwrap();
        assert_eq!(json["never"], true);
        assert!(json.get("retry_after").is_none() && json.get("binding").is_none());
        let outage = Decision::Denied(Denial {
            facts: facts(vec![], Source::Outage),
            retry: None,
        });
        let json = serde_json::to_value(&outage).unwrap();
        assert_eq!(json["degraded"], true);
        assert!(json.get("retry_after").is_none());
    }

    #[test]
    fn a_decision_reads_back() {
        let outage = Decision::Denied(Denial {
            facts: facts(vec![], Source::Outage),
            retry: None,
        });
        let granted = Decision::Admitted(Grant {
            facts: facts(vec![ceiling(Scope::Region, 10, 3, 1)], Source::Lease),
            delay: None,
        });
        for decision in [denied(), outage, granted] {
            let json = serde_json::to_string(&decision).unwrap();
            assert_eq!(serde_json::from_str::<Decision>(&json).unwrap(), decision);
        }
    }

    #[test]
    fn what_is_no_decision_is_refused_by_member() {
        let json = serde_json::to_string(&denied()).unwrap();
        for (from, to) in [
            ("\"01J\"", "\"\""),
            ("video_top", "V"),
            ("\"store\"", "\"x\""),
        ] {
            let error = serde_json::from_str::<Decision>(&json.replace(from, to));
            assert!(error.is_err(), "{to}");
        }
    }
}
