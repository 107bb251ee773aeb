//! `POST /v1/refund` and `POST /v1/reset`, for who holds the bearer token. Off without one.
//! Never says how a wrong token was wrong.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HeaderMap};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::{answer, app::App, request};
use crate::config::Settings;
use crate::edge::body::ResetBody;
use crate::edge::problem::Problem;
use crate::edge::protocol::ErrorKind;
use tidegate::model::Cost;
use tidegate::store::{Refunded, Store};

#[derive(Serialize)]
struct RefundAnswer {
    refunded: Cost,
}

/// Gives a charge back.
pub(super) async fn refund<S: Store>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    match refunded(&app, request).await {
        Ok(units) => answer::ok(&RefundAnswer { refunded: units }),
        Err(problem) => problem.into_response(),
    }
}

async fn refunded<S: Store>(app: &App<S>, request: Request) -> Result<Cost, Problem> {
    let (head, body) = request.into_parts();
    authorized(&head.headers, &app.settings)?;
    let json = request::body(&head.headers, body, &app.settings).await?;
    match app.limiter.refund(&request::refund(&json)?).await {
        Ok(Refunded::Units(units)) => Ok(units),
        Ok(Refunded::NotFound) => Err(Problem::new(
            ErrorKind::UnknownCharge,
            "id: no such charge of this subject under this policy, or not any more",
        )),
        Err(error) => Err(app.problem(&error)),
    }
}

/// Forgets what a subject used.
pub(super) async fn reset<S: Store>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    match forgotten(&app, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => problem.into_response(),
    }
}

async fn forgotten<S: Store>(app: &App<S>, request: Request) -> Result<(), Problem> {
    let (head, body) = request.into_parts();
    authorized(&head.headers, &app.settings)?;
    let json = request::body(&head.headers, body, &app.settings).await?;
    let check = request::sane(request::decoded::<ResetBody>(&json)?.into_check())?;
    match app.limiter.reset(&check).await {
        Ok(()) => Ok(()),
        Err(error) => Err(app.problem(&error)),
    }
}

fn authorized(headers: &HeaderMap, settings: &Settings) -> Result<(), Problem> {
    let Some(token) = &settings.admin_token else {
        return Err(Problem::new(
            ErrorKind::AdminOff,
            "refunds and resets are off: the server was started without an administrator's token",
        ));
    };
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, given)| given.trim());
    match given {
        Some(given) if token.matches(given) => Ok(()),
        _ => Err(Problem::new(
            ErrorKind::Unauthorized,
            "send the administrator's token: Authorization: Bearer ...",
        )),
    }
}
