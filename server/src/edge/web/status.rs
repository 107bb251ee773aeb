//! `GET /livez`, `/healthz`, `/readyz` and `/metrics`. Never shed: who watches a server must reach it when
//! it has too much to do.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::{answer, app::App};
use crate::edge::problem::Problem;
use crate::edge::protocol::ErrorKind;
use crate::telemetry::instruments::OPENMETRICS_TEXT;
use tidegate::store::{Readiness, Store};

#[derive(Serialize)]
struct Healthy {
    status: &'static str,
}

/// 200 while the process answers at all.
pub(super) async fn healthz() -> Response {
    let mut response = answer::ok(&Healthy { status: "alive" });
    answer::forbid_storing(response.headers_mut());
    response
}

/// 200 from the store's first answer on until the server is told to stop, else 503 with the reason.
/// With `?strict`, also 503 while the store can't decide.
pub(super) async fn readyz<S: Store>(State(app): State<Arc<App<S>>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    let strict = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "strict");
    match app.readiness(strict) {
        Readiness::Ready => {
            let mut response = answer::ok(&Healthy { status: "ready" });
            answer::forbid_storing(response.headers_mut());
            response
        }
        Readiness::NotReady(reason) => {
            Problem::new(ErrorKind::StoreUnavailable, reason).into_response()
        }
    }
}

/// All instruments in OpenMetrics' text form.
pub(super) async fn exposition<S: Store>(State(app): State<Arc<App<S>>>) -> Response {
    let calls_sent = app.limiter.store().calls_sent();
    let stage = app.limiter.stats();
    let readiness = app.limiter.readiness();
    match app
        .instruments
        .encode(calls_sent, &readiness, stage.as_ref())
    {
        Ok(text) => {
            let headers = [
                (CONTENT_TYPE, OPENMETRICS_TEXT),
                (CACHE_CONTROL, "no-store"),
            ];
            (headers, text).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "the instruments can't be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
