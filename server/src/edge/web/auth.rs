//! `GET /v1/auth`: a check for proxies that ask before they forward (nginx's `auth_request`,
//! Traefik's ForwardAuth, Caddy's `forward_auth`). 204 admits; 429 and 503 carry the same fields
//! and body as a check's.
//!
//! The query names what the operator wrote into the proxy's configuration: `policy`, `region`,
//! `cost`. The rest comes in header fields, which a proxy sets from the request in hand. The query
//! goes first, so that a client can't choose its own policy through a proxy that passes its header
//! fields on. Never takes a subject's name for an address: see [`SUBJECT_PREFIX`].

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::HeaderMap;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};

use super::{answer, app::App, request};
use crate::config::Settings;
use crate::edge::client_address::{Peer, SUBJECT_PREFIX, client_address, subject};
use crate::edge::problem::Problem;
use tidegate::model::{Check, Cost};
use tidegate::store::Store;

/// Names the cost when it isn't 1.
const COST_HEADER: &str = "x-tidegate-cost";

/// Names the charge. A proxy that may ask twice for one request (nginx asks again after an
/// internal redirect, and at another server when one is slow) sends its request's id here, and is
/// charged once.
const ID_HEADER: &str = "x-tidegate-id";

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Decides and charges for a proxy.
pub(super) async fn auth<S: Store>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    let began = Instant::now();
    let (head, _) = request.into_parts();
    let check = match check(&head, &app.settings) {
        Ok(check) => check,
        Err(problem) => return problem.into_response(),
    };
    match app.limiter.check(&check).await {
        Ok(decision) => {
            app.decided(&decision, began);
            answer::forwarded(&decision, &app.settings, app.limiter.clock().wall())
        }
        Err(error) => app.problem(&error).into_response(),
    }
}

fn check(head: &Parts, settings: &Settings) -> Result<Check, Problem> {
    let headers = &head.headers;
    let query = Query::read(head.uri.query().unwrap_or_default())?;
    let policy_header = settings.policy_header.as_str();
    let policy = match query.policy {
        Some(policy) => Some(policy),
        None => one(headers, policy_header)?,
    };
    let policy = policy.ok_or_else(|| {
        let detail =
            format!("policy: name it in the query (/v1/auth?policy=...) or in {policy_header}");
        Problem::malformed(detail)
    })?;
    let region = match query.region {
        Some(region) => Some(region),
        None => one(headers, settings.region_header.as_str())?,
    };
    let cost = match query.cost {
        Some(cost) => Some(cost),
        None => one(headers, COST_HEADER)?,
    };
    let mut check = Check::new(policy, who(head, settings)?);
    check.region = region;
    check.cost = cost.as_deref().map_or(Ok(1), digits)?;
    check.id = one(headers, ID_HEADER)?;
    request::sane(check)
}

/// The subject that the proxy names, or the client's address.
fn who(head: &Parts, settings: &Settings) -> Result<String, Problem> {
    let header = settings.subject_header.as_str();
    if let Some(named) = one(&head.headers, header)? {
        if named.starts_with(SUBJECT_PREFIX) {
            let detail = format!("{header}: `{SUBJECT_PREFIX}` begins the names of addresses only");
            return Err(Problem::malformed(detail));
        }
        return Ok(named);
    }
    let Some(Peer(peer)) = head.extensions.get::<Peer>() else {
        let detail = format!("{header}: is missing, and the client's address is unknown");
        return Err(Problem::malformed(detail));
    };
    let forwarded = head.headers.get_all(FORWARDED_FOR);
    // A value that is no text is no address either: the walk ends there.
    let forwarded: Vec<&str> = forwarded
        .iter()
        .map(|value| value.to_str().unwrap_or_default())
        .collect();
    let client = client_address(peer.ip(), forwarded.into_iter(), settings);
    Ok(subject(client, settings.ipv6_prefix))
}

/// What the operator wrote into the address.
#[derive(Debug, Default, PartialEq, Eq)]
struct Query {
    policy: Option<String>,
    region: Option<String>,
    cost: Option<String>,
}

impl Query {
    fn read(text: &str) -> Result<Self, Problem> {
        let mut query = Query::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let member = match name.as_ref() {
                "policy" => &mut query.policy,
                "region" => &mut query.region,
                "cost" => &mut query.cost,
                other => {
                    let other = request::quoted(other);
                    let detail = format!("{other}: the query knows policy, region and cost only");
                    return Err(Problem::malformed(detail));
                }
            };
            if member.replace(value.into_owned()).is_some() {
                return Err(Problem::malformed(format!("{name}: is given twice")));
            }
        }
        Ok(query)
    }
}

fn digits(text: &str) -> Result<Cost, Problem> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        let detail = format!("cost: a whole number, not `{}`", request::quoted(text));
        return Err(Problem::malformed(detail));
    }
    // More digits than a number holds are more units than can be charged, too.
    request::cost(text.parse().unwrap_or(Cost::MAX))
}

/// The value of a header field that may be there once; an empty one is none.
fn one(headers: &HeaderMap, name: &str) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::malformed(format!("{name}: is given twice")));
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok("") => Ok(None),
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Problem::malformed(format!("{name}: is not UTF-8"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;

    fn ask(uri: &str, headers: &[(&str, &str)], settings: &Settings) -> Result<Check, String> {
        let mut request = Request::get(uri).extension(Peer("127.0.0.1:9".parse().unwrap()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, _) = request.body(Body::empty()).unwrap().into_parts();
        check(&head, settings).map_err(|problem| problem.detail)
    }

    fn default(uri: &str, headers: &[(&str, &str)]) -> Result<Check, String> {
        ask(uri, headers, &Settings::default())
    }

    #[test]
    fn the_query_goes_before_the_header_fields() {
        let headers = [
            ("X-Tidegate-Policy", "cheap"),
            ("X-Tidegate-Subject", "key-1"),
            ("X-Tidegate-Region", "eu"),
            ("X-Tidegate-Cost", "3"),
            ("X-Tidegate-Id", "r1"),
        ];
        let expected = Check::new("cheap", "key-1").region("eu").cost(3).id("r1");
        assert_eq!(default("/v1/auth", &headers), Ok(expected));
        let expected = Check::new("dear", "key-1").region("us").cost(9).id("r1");
        assert_eq!(
            default("/v1/auth?policy=dear&region=us&cost=9", &headers),
            Ok(expected)
        );
    }

    #[test]
    fn without_a_subject_the_clients_address_is_it() {
        let check = default("/v1/auth?policy=p", &[("X-Forwarded-For", "9.9.9.9")]);
        assert_eq!(check, Ok(Check::new("p", "ip:127.0.0.1")));
        let settings = Settings {
            trusted_proxies: vec!["127.0.0.0/8".parse().unwrap()],
            ..Settings::default()
        };
        let headers = [
            ("X-Forwarded-For", "6.6.6.6, 9.9.9.9"),
            ("X-Tidegate-Subject", ""),
        ];
        let check = ask("/v1/auth?policy=p", &headers, &settings);
        assert_eq!(check, Ok(Check::new("p", "ip:9.9.9.9")));
    }

    #[test]
    fn nobody_can_take_an_addresss_name() {
        let error = default("/v1/auth?policy=p", &[("X-Tidegate-Subject", "ip:9.9.9.9")]);
        assert!(error.unwrap_err().starts_with("x-tidegate-subject"));
    }

    #[test]
    fn names_of_header_fields_are_configurable() {
        let settings = Settings {
            subject_header: "X-API-Key".parse().unwrap(),
            region_header: "X-Region".parse().unwrap(),
            ..Settings::default()
        };
        let headers = [("X-API-Key", "k"), ("X-Region", "us")];
        let check = ask("/v1/auth?policy=p", &headers, &settings);
        assert_eq!(check, Ok(Check::new("p", "k").region("us")));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let subject = ("X-Tidegate-Subject", "s");
        for (uri, headers, named) in [
            ("/v1/auth", vec![subject], "policy"),
            ("/v1/auth?policy=p&polcy=q", vec![subject], "polcy"),
            ("/v1/auth?policy=p&policy=q", vec![subject], "policy"),
            ("/v1/auth?policy=p&cost=-1", vec![subject], "cost"),
            ("/v1/auth?policy=p&cost=+1", vec![subject], "cost"),
            ("/v1/auth?policy=p&cost=1.5", vec![subject], "cost"),
            ("/v1/auth?policy=p&cost=", vec![subject], "cost"),
            (
                "/v1/auth?policy=p&cost=1000000000001",
                vec![subject],
                "cost",
            ),
            (
                "/v1/auth?policy=p&cost=99999999999999999999999",
                vec![subject],
                "cost",
            ),
            ("/v1/auth?policy=p", vec![subject, subject], "subject"),
            (
                "/v1/auth?policy=p",
                vec![("X-Tidegate-Subject", "a\tb")],
                "subject",
            ),
        ] {
            let error = default(uri, &headers).unwrap_err();
            assert!(error.contains(named), "{uri}: {error}");
        }
        assert_eq!(
            default("/v1/auth?policy=p&cost=0", &[subject]).map(|c| c.cost),
            Ok(0)
        );
    }
}
