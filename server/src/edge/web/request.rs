//! Reads a request within its bounds, and says what is wrong with one in its sender's words.
//! Never passes a value on that the limiter could misread.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use serde::de::DeserializeOwned;

use crate::config::Settings;
use crate::edge::body::{CheckBody, CostTooSmall, RefundBody};
use crate::edge::problem::Problem;
use crate::edge::protocol::ErrorKind;
use tidegate::limiter::CheckError;
use tidegate::model::{Check, Cost, Refund, UNITS_MAX};

/// The longest text of an error that quotes what was sent, in characters.
const QUOTED_LEN_MAX: usize = 300;

/// The whole body of a JSON request.
///
/// # Errors
/// 413 beyond `body_bytes_max`, 415 when it is said to be something else than JSON, 408 when it
/// takes too long, 400 when it breaks off.
pub(super) async fn body(
    headers: &HeaderMap,
    body: Body,
    settings: &Settings,
) -> Result<Bytes, Problem> {
    let bytes_max = settings.body_bytes_max;
    is_json(headers)?;
    let too_large = || {
        let detail = format!("the body is longer than {bytes_max} bytes, the most that is read");
        Problem::new(ErrorKind::TooLarge, detail)
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(settings.bounds.body_timeout, to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_over_length(&error) => Err(too_large()),
        Ok(Err(_)) => Err(Problem::malformed("the body broke off")),
        Err(_) => Err(too_slow(settings.bounds.body_timeout)),
    }
}

fn too_slow(limit: Duration) -> Problem {
    let detail = format!("the body did not arrive within {} s", limit.as_secs_f32());
    Problem::new(ErrorKind::Timeout, detail)
}

fn is_over_length(error: &axum::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Clients that name no type are taken at their word that they send JSON, and so are those that
/// name the form that `curl -d` names by itself: what they sent shows whether it is.
fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(given) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let given = String::from_utf8_lossy(given.as_bytes());
    let essence = given.split(';').next().unwrap_or_default().trim();
    let is_json = essence.eq_ignore_ascii_case("application/json")
        || essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
        || (essence.len() > 17
            && essence
                .get(..12)
                .is_some_and(|s| s.eq_ignore_ascii_case("application/"))
            && essence.to_ascii_lowercase().ends_with("+json"));
    if is_json {
        return Ok(());
    }
    let detail = format!(
        "Content-Type: send application/json, not {}",
        quoted(essence)
    );
    Err(Problem::new(ErrorKind::UnsupportedMediaType, detail))
}

/// What a JSON text holds.
///
/// # Errors
/// 400 that names the member which can't be read.
pub(super) fn decoded<T: DeserializeOwned>(json: &[u8]) -> Result<T, Problem> {
    is_object(json)?;
    serde_json::from_slice(json).map_err(|error| unreadable::<T>(json, &error))
}

/// serde would read a list as an object's members in their order; nobody means that.
///
/// # Errors
/// 400 when the text begins another value than an object.
pub(super) fn is_object(json: &[u8]) -> Result<(), Problem> {
    match json.trim_ascii_start().first() {
        Some(b'{') => Ok(()),
        Some(b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
            Err(Problem::malformed("a JSON object is wanted: {...}"))
        }
        _ => Err(Problem::malformed("the body is no JSON: {...} is wanted")),
    }
}

/// Reads the text once more, slower, to learn which member it was.
fn unreadable<T: DeserializeOwned>(json: &[u8], error: &serde_json::Error) -> Problem {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let path = match serde_path_to_error::deserialize::<_, T>(&mut deserializer) {
        Err(error) if error.inner().is_data() => error.path().to_string(),
        _ => ".".to_owned(),
    };
    let said = error.to_string();
    Problem::malformed(match path.as_str() {
        "cost" => format!("cost: {COST_RULE} ({said})"),
        "." | "" if error.is_data() => quoted(&said),
        "." | "" => format!("the body is no JSON: {}", quoted(&said)),
        member => quoted(&format!("{member}: {said}")),
    })
}

const COST_RULE: &str = "a whole number from 0 (asks without charging) to 1000000000000";

fn negative(error: CostTooSmall) -> Problem {
    Problem::malformed(format!("cost: {COST_RULE}, not {}", error.0))
}

/// The check that a body asks for, each value within its bounds.
///
/// # Errors
/// 400 that names the member.
pub(super) fn check(json: &[u8]) -> Result<Check, Problem> {
    sane(decoded::<CheckBody>(json)?.into_check().map_err(negative)?)
}

/// The charge that a body gives back, and how much of it.
///
/// # Errors
/// 400 that names the member.
pub(super) fn refund(json: &[u8]) -> Result<Refund, Problem> {
    let refund = decoded::<RefundBody>(json)?.into_refund();
    let refund = refund.map_err(|CostTooSmall(given)| {
        let rule = "a whole number from 1; leave it out to give back all";
        Problem::malformed(format!("cost: {rule}, not {given}"))
    })?;
    refund.cost.map_or(Ok(0), |units| cost(units.get()))?;
    sane_subject(&refund.subject)?;
    Ok(refund)
}

/// Rejects what the limiter would take and the sender can't have meant.
///
/// # Errors
/// 400 that names the member.
pub(super) fn sane(check: Check) -> Result<Check, Problem> {
    cost(check.cost)?;
    sane_subject(&check.subject)?;
    Ok(check)
}

fn sane_subject(subject: &str) -> Result<(), Problem> {
    if subject.is_empty() {
        let detail = "subject: is empty; name who is limited (an API key, a user, an address)";
        return Err(Problem::malformed(detail));
    }
    if subject.chars().any(char::is_control) {
        return Err(Problem::malformed("subject: holds a control character"));
    }
    Ok(())
}

/// A cost within its bounds.
///
/// # Errors
/// 400 when it is more than can be counted.
pub(super) fn cost(given: Cost) -> Result<Cost, Problem> {
    if given > UNITS_MAX {
        let detail = format!("cost: {COST_RULE}, not {given}");
        return Err(Problem::malformed(detail));
    }
    Ok(given)
}

/// A question that the limiter could not answer, in terms of the request's members.
pub(super) fn unanswered(error: &CheckError) -> Problem {
    let member = match error {
        CheckError::Subject(_) => "subject: ",
        CheckError::Region(_) | CheckError::Policy(_) => "region: ",
        CheckError::Id(_) => "id: ",
        CheckError::UnknownPolicy { .. } => "policy: ",
        _ => "",
    };
    Problem::new(ErrorKind::from(error), format!("{member}{error}"))
}

/// `text`, cut to what an error may quote.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_LEN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rejected(json: &str) -> String {
        let problem = check(json.as_bytes()).unwrap_err();
        assert_eq!(problem.kind, ErrorKind::Malformed);
        problem.detail
    }

    fn with(member: &str) -> String {
        format!(r#"{{"policy":"p","subject":"s",{member}}}"#)
    }

    #[test]
    fn a_cost_that_can_not_be_charged_is_rejected_by_name() {
        for cost in [
            "-1",
            "1.5",
            "1.0",
            "1e3",
            "\"1\"",
            "true",
            "[]",
            "1000000000001",
            "9223372036854775807",
            "9223372036854775808",
            "18446744073709551616",
            "-9223372036854775809",
        ] {
            let detail = rejected(&with(&format!("\"cost\":{cost}")));
            assert!(
                detail.contains("cost") || cost == "1e400",
                "{cost}: {detail}"
            );
        }
        for cost in ["0", "1", "1000000000000", "null"] {
            assert!(check(with(&format!("\"cost\":{cost}")).as_bytes()).is_ok());
        }
    }

    #[test]
    fn what_is_missing_unknown_twice_or_of_another_type_is_named() {
        for (json, named) in [
            (r#"{"subject":"s"}"#, "policy"),
            (r#"{"policy":"p"}"#, "subject"),
            (&with(r#""costs":2"#), "costs"),
            (&with(r#""subject":"t""#), "subject"),
            (&with(r#""cost":1,"cost":2"#), "cost"),
            (&with(r#""region":7"#), "region"),
            (&with(r#""id":{}"#), "id"),
            ("[]", "object"),
            (r#"["p","s"]"#, "object"),
            (" 7", "object"),
            (&with(r#""cost":1e400"#), "out of range"),
            ("{}", "policy"),
            ("", "no JSON"),
            ("{\"policy\":\"p\"", "no JSON"),
            ("null", "object"),
            ("{\"policy\":\"p\",\"subject\":\"s\"} x", "no JSON"),
            ("{\"policy\":\"\u{1}\"}", "no JSON"),
        ] {
            let detail = rejected(json);
            assert!(detail.contains(named), "{json}: {detail}");
        }
    }

    #[test]
    fn a_subject_must_be_there_and_hold_no_control_character() {
        for subject in ["", "a\\u0000b", "a\\nb", "\\u009f"] {
            let json = format!(r#"{{"policy":"p","subject":"{subject}"}}"#);
            assert!(rejected(&json).starts_with("subject: "), "{subject}");
        }
        assert!(check(r#"{"policy":"p","subject":"ü {}:"}"#.as_bytes()).is_ok());
    }

    #[test]
    fn an_error_quotes_no_more_than_a_line() {
        let member = "x".repeat(100_000);
        let detail = rejected(&with(&format!("\"{member}\":1")));
        assert!(detail.len() < 1_000);
    }

    #[test]
    fn media_types_are_read_as_they_are_written() {
        let rejects = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, given.parse().unwrap());
            is_json(&headers).is_err()
        };
        for json in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/vnd.api+json",
            "application/x-www-form-urlencoded",
        ] {
            assert!(!rejects(json), "{json}");
        }
        for other in [
            "text/plain",
            "multipart/form-data",
            "application/jsonx",
            "",
            "application/+json",
        ] {
            assert!(rejects(other), "{other}");
        }
        assert!(is_json(&HeaderMap::new()).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn any_bytes_are_a_check_or_a_clear_rejection(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Err(problem) = check(&bytes) {
                prop_assert_eq!(problem.kind, ErrorKind::Malformed);
                prop_assert!(!problem.detail.is_empty());
            }
        }

        #[test]
        fn any_json_shape_is_a_check_or_a_clear_rejection(
            member in "policy|subject|region|cost|id|[a-z]{0,8}",
            value in r#"-?[0-9]{1,25}|-?[0-9]\.[0-9]{1,3}(e[0-9]{1,3})?|"[^"\\]{0,20}"|null|true|\[\]|\{\}"#,
        ) {
            let json = with(&format!("{}:{value}", serde_json::to_string(&member).unwrap()));
            match check(json.as_bytes()) {
                Ok(check) => {
                    prop_assert!(check.cost <= UNITS_MAX);
                    prop_assert!(!check.subject.is_empty());
                }
                Err(problem) => prop_assert!(problem.detail.len() > 8, "{}", problem.detail),
            }
        }
    }
}
