//! `POST /v1/check` and `POST /v1/peek`. Never charges on a peek.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};

use super::{answer, app::App, request};
use crate::edge::problem::Problem;
use tidegate::model::Check;
use tidegate::store::Store;

/// Decides and charges.
pub(super) async fn check<S: Store>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    let began = Instant::now();
    let check = match read(&app, request).await {
        Ok(check) => check,
        Err(problem) => return problem.into_response(),
    };
    match app.limiter.check(&check).await {
        Ok(decision) => {
            app.decided(&decision, began);
            answer::decision(&decision, &app.settings, app.limiter.clock().wall())
        }
        Err(error) => app.problem(&error).into_response(),
    }
}

/// Decides and changes nothing.
pub(super) async fn peek<S: Store>(State(app): State<Arc<App<S>>>, request: Request) -> Response {
    let check = match read(&app, request).await {
        Ok(check) => check,
        Err(problem) => return problem.into_response(),
    };
    match app.limiter.peek(&check).await {
        Ok(decision) => answer::peeked(&decision, &app.settings, app.limiter.clock().wall()),
        Err(error) => app.problem(&error).into_response(),
    }
}

async fn read<S: Store>(app: &App<S>, request: Request) -> Result<Check, Problem> {
    let (head, body) = request.into_parts();
    let json = request::body(&head.headers, body, &app.settings).await?;
    request::check(&json)
}
