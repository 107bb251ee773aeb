//! The bodies of denials and errors: `application/problem+json` (RFC 9457), or the short form.
//! Never holds a secret; the decision's own members are those that every answer has.

use serde::Serialize;

use super::headers::ceiling_name;
use super::protocol::{DecisionKind, ErrorKind};
use tidegate::model::{CeilingStatus, Decision, Region, Retry};
use tidegate::wire::{DecisionBody, Seconds};

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A denial as a problem: the decision's members stand beside the problem's.
#[derive(Clone, Debug, Serialize)]
pub struct DenialProblem {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<String>,
    #[serde(flatten)]
    decision: DecisionBody,
}

impl DenialProblem {
    /// The problem that a denial is; `None` when the decision admits.
    pub fn of(decision: &Decision) -> Option<Self> {
        let kind = DecisionKind::of(decision);
        let ceilings = decision.facts().ceilings.iter();
        Some(DenialProblem {
            r#type: kind.problem_type()?,
            title: kind.title(),
            status: kind.http_status(),
            detail: detail(kind, decision),
            violated_policies: ceilings
                .filter(|ceiling| ceiling.retry.is_some())
                .map(|ceiling| ceiling_name(decision, ceiling))
                .collect(),
            decision: DecisionBody::from(decision),
        })
    }
}

/// A denial in the short form: `{"error":"rate_limited","retry_after":12.340561,"region":"us"}`.
#[derive(Clone, Debug, Serialize)]
pub struct ShortDenial {
    error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
}

impl From<&Decision> for ShortDenial {
    fn from(decision: &Decision) -> Self {
        ShortDenial {
            error: DecisionKind::of(decision).word(),
            retry_after: decision.retry_after().map(Seconds),
            region: decision.facts().region.as_ref().map(Region::to_string),
        }
    }
}

/// A question that got no decision, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What is wrong, for people; names the field where there is one.
    pub detail: String,
}

/// A [`Problem`]'s members.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemBody<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    /// An error and what is wrong.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Problem {
            kind,
            detail: detail.into(),
        }
    }

    /// A malformed question.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Problem::new(ErrorKind::Malformed, detail)
    }

    /// Its members in JSON. The type is `about:blank`: the status says all that a program needs.
    pub fn body(&self) -> ProblemBody<'_> {
        ProblemBody {
            r#type: "about:blank",
            title: self.kind.title(),
            status: self.kind.http_status(),
            detail: &self.detail,
        }
    }
}

fn detail(kind: DecisionKind, decision: &Decision) -> String {
    let cost = decision.facts().cost;
    match (kind, decision.binding()) {
        (DecisionKind::Admitted, _) => String::new(),
        (DecisionKind::Unavailable, _) => {
            "The store could not confirm this charge in time, and the policy denies without it."
                .to_owned()
        }
        (DecisionKind::NeverAdmitted, Some(ceiling)) if ceiling.limit == 0 => {
            format!("{} is 0: nothing is admitted.", ceiling_in_words(ceiling))
        }
        (DecisionKind::NeverAdmitted, Some(ceiling)) => format!(
            "A cost of {cost} is more than {} ever allows at once: it can never be admitted.",
            in_mid_sentence(ceiling)
        ),
        (DecisionKind::NeverAdmitted, None) => {
            format!("A cost of {cost} is more than a ceiling ever allows at once.")
        }
        (DecisionKind::RateLimited, Some(ceiling)) => {
            let wait = match ceiling.retry {
                Some(Retry::After(wait)) => format!("; it will in {wait} s"),
                Some(Retry::Never) | None => String::new(),
            };
            format!(
                "{} has no room for a cost of {cost} now{wait}.",
                ceiling_in_words(ceiling)
            )
        }
        (DecisionKind::RateLimited, None) => format!("There is no room for a cost of {cost} now."),
    }
}

fn ceiling_in_words(ceiling: &CeilingStatus) -> String {
    format!("The {}", words(ceiling))
}

fn in_mid_sentence(ceiling: &CeilingStatus) -> String {
    format!("the {}", words(ceiling))
}

fn words(ceiling: &CeilingStatus) -> String {
    let CeilingStatus { limit, window, .. } = ceiling;
    match &ceiling.region {
        Some(region) => format!("ceiling of {limit} per {window} s in region {region}"),
        None => format!("{} ceiling of {limit} per {window} s", ceiling.scope.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::testing::{admitted, denied, outage};
    use serde_json::{Value, json};
    use tidegate::model::Micros;

    fn problem(decision: &Decision) -> Value {
        serde_json::to_value(DenialProblem::of(decision).unwrap()).unwrap()
    }

    #[test]
    fn a_denial_has_the_problems_members_beside_the_decisions() {
        let wait = Micros::new(12_340_561);
        let body = problem(&denied(Retry::After(wait)));
        assert_eq!(
            body["type"],
            "https://iana.org/assignments/http-problem-types#quota-exceeded"
        );
        assert_eq!(body["title"], "Quota exceeded");
        assert_eq!(body["status"], 429);
        assert_eq!(
            body["detail"],
            "The ceiling of 500 per 60 s in region us has no room for a cost of 1 now; \
             it will in 12.340561 s."
        );
        assert_eq!(body["violated-policies"], json!(["video_top.region"]));
        assert_eq!(body["admitted"], false);
        assert_eq!(body["retry_after"], 12.340561);
        assert_eq!(body["binding"], "region");
        assert_eq!(body["ceilings"][1]["remaining"], 0);
    }

    #[test]
    fn an_outage_is_reduced_capacity_and_blames_no_policy() {
        let body = problem(&outage(None));
        assert_eq!(body["status"], 503);
        assert!(
            body["type"]
                .as_str()
                .unwrap()
                .ends_with("#temporary-reduced-capacity")
        );
        assert!(body.get("violated-policies").is_none());
        assert!(body.get("retry_after").is_none());
        assert_eq!(body["degraded"], true);
    }

    #[test]
    fn what_never_fits_says_so_and_gives_no_wait() {
        let body = problem(&denied(Retry::Never));
        assert_eq!(
            body["detail"],
            "A cost of 1 is more than the ceiling of 500 per 60 s in region us ever allows at \
             once: it can never be admitted."
        );
        assert_eq!(body["never"], true);
        assert!(body.get("retry_after").is_none());
    }

    #[test]
    fn an_admission_is_no_problem() {
        assert!(DenialProblem::of(&admitted()).is_none());
    }

    #[test]
    fn the_short_form_has_three_members() {
        let wait = Retry::After(Micros::new(12_340_561));
        let short =
            |decision: &Decision| serde_json::to_value(ShortDenial::from(decision)).unwrap();
        assert_eq!(
            short(&denied(wait)),
            json!({"error": "rate_limited", "retry_after": 12.340561, "region": "us"})
        );
        assert_eq!(
            short(&denied(Retry::Never)),
            json!({"error": "never_admitted", "region": "us"})
        );
        assert_eq!(
            short(&outage(None)),
            json!({"error": "temporarily_unavailable", "region": "us"})
        );
    }

    #[test]
    fn an_error_says_what_is_wrong() {
        let problem = Problem::malformed("cost: must not be negative");
        assert_eq!(
            serde_json::to_value(problem.body()).unwrap(),
            json!({"type": "about:blank", "title": "Bad Request", "status": 400,
                   "detail": "cost: must not be negative"})
        );
    }
}
