//! What a client sends, as the edge reads it and the command line writes it. Never accepts a member
//! it doesn't know: a misspelt `cost` would charge 1.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use tidegate::model::{Check, Cost, Refund};

/// The body of `POST /v1/check` and `/v1/peek`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckBody {
    /// The policy's name.
    pub(crate) policy: String,
    /// Who is limited.
    pub(crate) subject: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
    /// Units asked for, 1 when absent; signed so that a negative one can be refused by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<i64>,
    /// The caller's own charge id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
}

/// The body of `POST /v1/refund`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefundBody {
    /// The policy's name.
    pub(crate) policy: String,
    /// Who had been charged.
    pub(crate) subject: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
    /// The charge's id.
    pub(crate) id: String,
    /// Units to give back, all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<i64>,
}

/// The body of `POST /v1/reset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {
    /// The policy's name.
    pub(crate) policy: String,
    /// Whose use is forgotten.
    pub(crate) subject: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<String>,
}

/// A cost that is too small.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cost of {0} can't be charged: it is at least 0 (0 asks without charging)")]
pub(crate) struct CostTooSmall(pub(crate) i64);

fn cost(given: i64) -> Result<Cost, CostTooSmall> {
    Cost::try_from(given).map_err(|_| CostTooSmall(given))
}

impl CheckBody {
    /// The check that is asked for.
    ///
    /// # Errors
    /// When the cost is negative.
    pub(crate) fn into_check(self) -> Result<Check, CostTooSmall> {
        let cost = cost(self.cost.unwrap_or(1))?;
        let mut check = Check::new(self.policy, self.subject).cost(cost);
        (check.region, check.id) = (self.region, self.id);
        Ok(check)
    }
}

impl From<&Refund> for RefundBody {
    fn from(refund: &Refund) -> Self {
        RefundBody {
            policy: refund.policy.clone(),
            subject: refund.subject.clone(),
            region: refund.region.clone(),
            id: refund.id.clone(),
            cost: refund
                .cost
                .map(|c| i64::try_from(c.get()).unwrap_or(i64::MAX)),
        }
    }
}

impl From<&Check> for CheckBody {
    fn from(check: &Check) -> Self {
        CheckBody {
            policy: check.policy.clone(),
            subject: check.subject.clone(),
            region: check.region.clone(),
            cost: Some(i64::try_from(check.cost).unwrap_or(i64::MAX)),
            id: check.id.clone(),
        }
    }
}

impl RefundBody {
    /// The charge that is given back, and how much of it.
    ///
    /// # Errors
    /// When the cost is below 1.
    pub(crate) fn into_refund(self) -> Result<Refund, CostTooSmall> {
        let units = |given| {
            let units = cost(given).ok().and_then(NonZeroU64::new);
            units.ok_or(CostTooSmall(given))
        };
        let mut refund = Refund::new(self.policy, self.subject, self.id);
        refund.region = self.region;
        refund.cost = self.cost.map(units).transpose()?;
        Ok(refund)
    }
}

impl ResetBody {
    /// Whose use is forgotten: the check's cost and id mean nothing here.
    pub(crate) fn into_check(self) -> Check {
        let mut check = Check::new(self.policy, self.subject);
        check.region = self.region;
        check
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<CheckBody, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn a_check_costs_one_unless_it_says_otherwise() {
        let body = read(r#"{"policy":"p","subject":"s"}"#).unwrap();
        assert_eq!(body.into_check().unwrap(), Check::new("p", "s"));
        let body = read(r#"{"policy":"p","subject":"s","region":"us","cost":0,"id":"a"}"#).unwrap();
        let check = Check::new("p", "s").region("us").cost(0).id("a");
        assert_eq!(body.into_check().unwrap(), check);
    }

    #[test]
    fn a_negative_cost_is_named() {
        let body = read(r#"{"policy":"p","subject":"s","cost":-1}"#).unwrap();
        assert_eq!(body.into_check(), Err(CostTooSmall(-1)));
        let refund = r#"{"policy":"p","subject":"s","id":"a","cost":-3}"#;
        let refund: RefundBody = serde_json::from_str(refund).unwrap();
        assert_eq!(refund.into_refund(), Err(CostTooSmall(-3)));
    }

    #[test]
    fn unknown_members_and_wrong_types_are_rejected_by_name() {
        let error = |json| read(json).unwrap_err().to_string();
        assert!(error(r#"{"policy":"p","subject":"s","costs":2}"#).contains("costs"));
        assert!(error(r#"{"policy":"p"}"#).contains("subject"));
        assert!(error(r#"{"policy":"p","subject":"s","cost":1.5}"#).contains("1.5"));
    }
}
