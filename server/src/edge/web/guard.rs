//! What stands before every endpoint: the bound of requests in flight, and the clock. Never reads
//! a request.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::app::App;
use crate::edge::problem::Problem;
use crate::edge::protocol::Fault;
use tidegate::store::Store;

/// An endpoint, as its guard knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    /// What it is called in metrics.
    pub(super) name: &'static str,
    /// Whether its requests count among those in flight, and are refused beyond their bound.
    pub(super) bounded: bool,
}

/// Counts and times a request, and refuses it at once when too many are in flight: a queue would
/// answer it after its client has given up.
pub(super) async fn guard<S: Store>(
    State((app, endpoint)): State<(Arc<App<S>>, Endpoint)>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let response = if endpoint.bounded {
        match app.in_flight.try_acquire() {
            Ok(_permit) => {
                let _counted = app.instruments.request();
                next.run(request).await
            }
            Err(_) => shed(&app),
        }
    } else {
        next.run(request).await
    };
    let status = response.status().as_u16();
    app.instruments
        .answered(endpoint.name, status, began.elapsed());
    response
}

fn shed<S: Store>(app: &App<S>) -> Response {
    app.instruments.request_shed();
    if let Some(before) = app.shed_log.pass(app.limiter.clock().now()) {
        let max = app.settings.bounds.in_flight_max;
        tracing::warn!(max, before, "refused a request: too many are in flight");
    }
    let detail = "this node has as many requests in flight as it may; nothing was charged";
    Problem::new(Fault::Overloaded, detail).into_response()
}
