//! What a limited response says in its header fields, as pure functions of a decision.
//!
//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers, structured fields
//! of RFC 9651), `X-RateLimit-*` as GitHub or Envoy send them, `Retry-After` (RFC 9110 10.2.3).
//! Never names a subject, and never a region: a region's name need not be ASCII.

use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::protocol::DecisionKind;
use crate::config::{RateLimitHeaders, XRateLimitReset};
use tidegate::model::{CeilingStatus, Decision, Micros, Retry, Timestamp};

/// The policies that apply (structured field list).
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What is left of each (structured field list).
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The binding ceiling's limit.
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// What is left of the binding ceiling.
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When the binding ceiling is whole again.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// Leaky bucket: how long to wait before going on, in seconds with their microseconds.
pub const TIDEGATE_DELAY: HeaderName = HeaderName::from_static("tidegate-delay");

/// The largest integer of a structured field: 15 digits.
const SF_INTEGER_MAX: u64 = 999_999_999_999_999;

/// The most fields that a decision has, and room for those that hyper adds.
const FIELDS_MAX: usize = 14;

/// Puts all of a decision's fields into `out`. `wall` is the wall clock's now, for the form of
/// `X-RateLimit-Reset` that is an instant.
pub fn write(
    decision: &Decision,
    ratelimit: RateLimitHeaders,
    reset: XRateLimitReset,
    wall: Timestamp,
    out: &mut HeaderMap,
) {
    out.reserve(FIELDS_MAX);
    if let Some(seconds) = DecisionKind::retry_after_secs(decision) {
        out.insert(RETRY_AFTER, seconds.into());
    }
    // An answer is one moment's, admitted or denied: a cache that repeated it would lie.
    out.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Decision::Admitted(grant) = decision
        && let Some(delay) = grant.delay
    {
        insert(out, TIDEGATE_DELAY, delay.to_string());
    }
    if decision.facts().ceilings.is_empty() {
        return;
    }
    if ratelimit != RateLimitHeaders::Off {
        insert(out, RATELIMIT_POLICY, ratelimit_policy(decision));
        insert(out, RATELIMIT, ratelimit_state(decision, ratelimit));
    }
    if let Some(binding) = decision.binding() {
        out.insert(X_RATELIMIT_LIMIT, binding.limit.into());
        out.insert(X_RATELIMIT_REMAINING, binding.remaining.into());
        let reset_secs = match reset {
            XRateLimitReset::Delta => binding.reset_after.ceil_secs(),
            XRateLimitReset::Epoch => {
                Micros::new((wall + binding.reset_after).as_micros()).ceil_secs()
            }
        };
        out.insert(X_RATELIMIT_RESET, reset_secs.into());
    }
}

/// What a ceiling is called in header fields and problems: `<policy>.global`, `<policy>.region`.
pub fn ceiling_name(decision: &Decision, ceiling: &CeilingStatus) -> String {
    format!("{}.{}", decision.facts().policy, ceiling.scope.name())
}

/// `RateLimit-Policy: "video_top.global";q=1000;w=60, "video_top.region";q=500;w=60`. A window
/// that is no whole number of seconds has no `w`: the draft has no smaller unit.
pub fn ratelimit_policy(decision: &Decision) -> String {
    list(decision, |item, ceiling| {
        parameter(item, "q", ceiling.limit);
        let us = ceiling.window.get();
        if us.is_multiple_of(1_000_000) {
            parameter(item, "w", us / 1_000_000);
        }
    })
}

/// `RateLimit: "video_top.global";r=380;t=60, "video_top.region";r=0;t=13`.
///
/// `t` is the time until the ceiling is whole again. On a denial a ceiling that denies says its
/// own wait there instead, and one that doesn't says nothing: `Retry-After` must not point
/// earlier than any `t`. The working text after draft 11 calls them `a` and `w`, and adds the
/// cost.
pub fn ratelimit_state(decision: &Decision, form: RateLimitHeaders) -> String {
    let (left, time) = match form {
        RateLimitHeaders::Draft12 => ("a", "w"),
        RateLimitHeaders::Draft11 | RateLimitHeaders::Off => ("r", "t"),
    };
    list(decision, |item, ceiling| {
        parameter(item, left, ceiling.remaining);
        let until = match (decision.is_admitted(), ceiling.retry) {
            (true, _) => Some(ceiling.reset_after.ceil_secs()),
            (false, Some(Retry::After(wait))) => Some(wait.ceil_secs().max(1)),
            (false, Some(Retry::Never) | None) => None,
        };
        if let Some(until) = until {
            parameter(item, time, until);
        }
        if form == RateLimitHeaders::Draft12 {
            parameter(item, "c", decision.facts().cost);
        }
    })
}

fn list(decision: &Decision, mut parameters: impl FnMut(&mut String, &CeilingStatus)) -> String {
    let policy = decision.facts().policy.as_str();
    let mut text = String::with_capacity(2 * (policy.len() + 48));
    for ceiling in &decision.facts().ceilings {
        if !text.is_empty() {
            text.push_str(", ");
        }
        for part in ["\"", policy, ".", ceiling.scope.name(), "\""] {
            text.push_str(part);
        }
        parameters(&mut text, ceiling);
    }
    text
}

/// Every answer has a few of these, so they are put together without `format!`.
fn parameter(item: &mut String, name: &str, value: u64) {
    let mut digits = [0_u8; 15];
    let mut rest = sf_integer(value);
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        first = at;
        if rest == 0 {
            break;
        }
    }
    item.push(';');
    item.push_str(name);
    item.push('=');
    item.extend(digits.iter().skip(first).map(|&digit| char::from(digit)));
}

const fn sf_integer(n: u64) -> u64 {
    if n > SF_INTEGER_MAX {
        SF_INTEGER_MAX
    } else {
        n
    }
}

fn insert(out: &mut HeaderMap, name: HeaderName, value: String) {
    // Policy names, scopes and numbers are printable ASCII; a value that were not would be left
    // out rather than break the answer.
    if let Ok(value) = HeaderValue::try_from(value) {
        out.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::testing::{admitted, denied, outage};

    const NOW: Timestamp = Timestamp::from_micros(1_760_000_000_500_000);

    fn fields(decision: &Decision, reset: XRateLimitReset) -> Vec<String> {
        let mut map = HeaderMap::new();
        write(decision, RateLimitHeaders::Draft11, reset, NOW, &mut map);
        let mut lines: Vec<_> = map
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn an_admission_shows_each_policy_and_the_tightest_ceiling() {
        assert_eq!(
            fields(&admitted(), XRateLimitReset::Epoch),
            [
                "cache-control: no-store",
                r#"ratelimit-policy: "video_top.global";q=1000;w=60, "video_top.region";q=500;w=60"#,
                r#"ratelimit: "video_top.global";r=380;t=60, "video_top.region";r=120;t=32"#,
                "x-ratelimit-limit: 500",
                "x-ratelimit-remaining: 120",
                "x-ratelimit-reset: 1760000033",
            ]
        );
    }

    #[test]
    fn a_denial_points_no_earlier_than_any_reset() {
        let decision = denied(Retry::After(Micros::new(12_340_561)));
        assert_eq!(
            fields(&decision, XRateLimitReset::Delta),
            [
                "cache-control: no-store",
                r#"ratelimit-policy: "video_top.global";q=1000;w=60, "video_top.region";q=500;w=60"#,
                r#"ratelimit: "video_top.global";r=380, "video_top.region";r=0;t=13"#,
                "retry-after: 13",
                "x-ratelimit-limit: 500",
                "x-ratelimit-remaining: 0",
                "x-ratelimit-reset: 32",
            ]
        );
    }

    #[test]
    fn what_can_never_be_admitted_has_no_time_to_come_again() {
        let lines = fields(&denied(Retry::Never), XRateLimitReset::Delta).join("\n");
        assert!(!lines.contains("retry-after"), "{lines}");
        assert!(!lines.contains(";t="), "{lines}");
    }

    #[test]
    fn an_outage_says_when_to_come_again_and_claims_no_state() {
        assert_eq!(
            fields(&outage(None), XRateLimitReset::Epoch),
            ["cache-control: no-store", "retry-after: 1"]
        );
    }

    #[test]
    fn the_working_text_after_draft_11_has_its_own_letters() {
        assert_eq!(
            ratelimit_state(&admitted(), RateLimitHeaders::Draft12),
            r#""video_top.global";a=380;w=60;c=1, "video_top.region";a=120;w=32;c=1"#
        );
    }

    #[test]
    fn switched_off_fields_are_absent_and_the_others_stay() {
        let mut map = HeaderMap::new();
        let (off, epoch) = (RateLimitHeaders::Off, XRateLimitReset::Epoch);
        write(&admitted(), off, epoch, NOW, &mut map);
        assert!(!map.contains_key(RATELIMIT) && !map.contains_key(RATELIMIT_POLICY));
        assert!(map.contains_key(X_RATELIMIT_LIMIT));
    }

    #[test]
    fn a_window_below_a_second_has_no_w_and_a_wait_is_told_exactly() {
        let Decision::Admitted(mut grant) = admitted() else {
            unreachable!("admitted() admits")
        };
        grant.facts.ceilings.truncate(1);
        grant.facts.ceilings[0].window = Micros::new(1_500_000);
        grant.delay = Some(Micros::new(250_001));
        let decision = Decision::Admitted(grant);
        assert_eq!(ratelimit_policy(&decision), r#""video_top.global";q=1000"#);
        let lines = fields(&decision, XRateLimitReset::Delta);
        assert!(lines.contains(&"tidegate-delay: 0.250001".to_owned()));
    }

    #[test]
    fn integers_are_written_whole_and_keep_to_fifteen_digits() {
        for n in [0, 1, 9, 10, 1_000, 1_234_567_890, SF_INTEGER_MAX, u64::MAX] {
            let mut text = String::new();
            parameter(&mut text, "q", n);
            assert_eq!(text, format!(";q={}", n.min(SF_INTEGER_MAX)));
            assert!(text.len() <= 3 + 15);
        }
    }
}
