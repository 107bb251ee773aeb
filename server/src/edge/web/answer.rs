//! From a decision or an error to an HTTP response. Never decides the status: that is the
//! protocol table's.

use axum::body::Body;
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::config::{ErrorBody, Settings};
use crate::edge::headers;
use crate::edge::problem::{DenialProblem, PROBLEM_JSON, Problem, ShortDenial};
use crate::edge::protocol::{DecisionKind, ErrorKind};
use tidegate::model::{Decision, Timestamp};

/// Room for the body of a decision with two ceilings, so that it needn't grow.
const BODY_BYTES_EXPECTED: usize = 768;

const JSON: &str = "application/json";

/// A response of this status with a JSON body.
pub(super) fn json(status: u16, media_type: &'static str, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(BODY_BYTES_EXPECTED);
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => {
            let mut response = Response::new(Body::from(bytes));
            *response.status_mut() = status_code(status);
            let media_type = HeaderValue::from_static(media_type);
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        }
        Err(error) => {
            tracing::error!(%error, "an answer can't be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// 200 with a JSON body.
pub(super) fn ok(body: &impl Serialize) -> Response {
    json(200, JSON, body)
}

/// Keeps caches from repeating an answer: it is one moment's.
pub(super) fn forbid_storing(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// A check's answer: the decision, or the problem that its denial is.
pub(super) fn decision(decision: &Decision, settings: &Settings, wall: Timestamp) -> Response {
    let status = DecisionKind::of(decision).http_status();
    let mut response = match (DenialProblem::of(decision), settings.error_body) {
        (None, _) => json(status, JSON, decision),
        (Some(problem), ErrorBody::Problem) => json(status, PROBLEM_JSON, &problem),
        (Some(_), ErrorBody::Short) => json(status, JSON, &ShortDenial::from(decision)),
    };
    put_headers(decision, settings, wall, response.headers_mut());
    response
}

/// A peek's answer: the decision, always 200.
pub(super) fn peeked(decision: &Decision, settings: &Settings, wall: Timestamp) -> Response {
    let mut response = ok(decision);
    put_headers(decision, settings, wall, response.headers_mut());
    // What didn't happen has no time to be tried again; the body says when there is room.
    response.headers_mut().remove(RETRY_AFTER);
    response
}

/// A proxy's answer: as a check's, but an admission has no body.
pub(super) fn forwarded(decided: &Decision, settings: &Settings, wall: Timestamp) -> Response {
    if !decided.is_admitted() {
        return decision(decided, settings, wall);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    put_headers(decided, settings, wall, response.headers_mut());
    response
}

fn put_headers(decision: &Decision, settings: &Settings, wall: Timestamp, out: &mut HeaderMap) {
    let Settings {
        ratelimit_headers,
        x_ratelimit_reset,
        ..
    } = settings;
    headers::write(decision, *ratelimit_headers, *x_ratelimit_reset, wall, out);
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = json(self.kind.http_status(), PROBLEM_JSON, &self.body());
        let headers = response.headers_mut();
        forbid_storing(headers);
        if let Some(seconds) = self.kind.retry_after_secs() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.kind == ErrorKind::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer realm=\"tidegate\"");
            headers.insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// 405 that names the method which the address knows.
pub(super) fn method_not_allowed(allowed: &'static str) -> Response {
    let detail = format!("this address knows {allowed} only");
    let mut response = Problem::new(ErrorKind::MethodNotAllowed, detail).into_response();
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(ALLOW, allowed);
    response
}

fn status_code(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
