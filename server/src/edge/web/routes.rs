//! Which path is which endpoint, and what stands before each: the bound of requests in flight, and
//! the clock. Never answers but through them: what isn't here is a problem in JSON too.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any, get, post};

use super::app::App;
use super::{admin, answer, auth, batch, check, request, status};
use crate::edge::problem::Problem;
use crate::edge::protocol::ErrorKind;
use tidegate::store::Store;

/// Which part of the endpoints a listener has. Health is at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// Everything.
    All,
    /// What clients and proxies ask.
    Public,
    /// Metrics and administrators' calls.
    Admin,
}

/// An endpoint, the methods that it knows, and what answers them.
type Route<S> = (Endpoint, &'static str, MethodRouter<Arc<App<S>>>);

/// The endpoints of `paths` over `app`. [`super::Server`] gives each request its peer's address as an
/// extension: without it a request to `/v1/auth` must name its subject.
pub fn router<S: Store>(app: Arc<App<S>>, paths: Paths) -> Router {
    let mut routes = health::<S>();
    if paths != Paths::Admin {
        routes.extend([
            (bounded("/v1/check"), "POST", post(check::check::<S>)),
            (bounded("/v1/checks"), "POST", post(batch::checks::<S>)),
            (bounded("/v1/peek"), "POST", post(check::peek::<S>)),
            (bounded("/v1/auth"), "GET, HEAD", get(auth::auth::<S>)),
        ]);
    }
    if paths != Paths::Public {
        routes.extend([
            (bounded("/v1/refund"), "POST", post(admin::refund::<S>)),
            (bounded("/v1/reset"), "POST", post(admin::reset::<S>)),
            (
                watched("/metrics"),
                "GET, HEAD",
                get(status::exposition::<S>),
            ),
        ]);
    }
    let elsewhere = any(move |uri| async move { nowhere(paths, &uri) });
    assemble(app, routes, elsewhere)
}

/// What a server answers for which there is no place: health, and to everyone else that it is full.
pub fn when_full<S: Store>(app: Arc<App<S>>) -> Router {
    let full = any(|| async {
        let detail = "this node has as many connections as it may; nothing was charged";
        Problem::new(ErrorKind::Overloaded, detail).into_response()
    });
    assemble(app, health::<S>(), full)
}

fn bounded(name: &'static str) -> Endpoint {
    Endpoint {
        name,
        bounded: true,
    }
}

/// Who watches a server must reach it also when it has too much to do.
fn watched(name: &'static str) -> Endpoint {
    Endpoint {
        name,
        bounded: false,
    }
}

fn health<S: Store>() -> Vec<Route<S>> {
    vec![
        (watched("/livez"), "GET, HEAD", get(status::healthz)),
        (watched("/healthz"), "GET, HEAD", get(status::healthz)),
        (watched("/readyz"), "GET, HEAD", get(status::readyz::<S>)),
    ]
}

fn assemble<S: Store>(app: Arc<App<S>>, routes: Vec<Route<S>>, elsewhere: MethodRouter) -> Router {
    let mut router = Router::new();
    for (endpoint, methods, route) in routes {
        let route = route
            .fallback(move || async move { answer::method_not_allowed(methods) })
            .layer(from_fn_with_state((Arc::clone(&app), endpoint), guard::<S>));
        router = router.route(endpoint.name, route);
    }
    let elsewhere = elsewhere.layer(from_fn_with_state(
        (Arc::clone(&app), bounded("elsewhere")),
        guard::<S>,
    ));
    router
        .fallback_service(elsewhere.with_state(()))
        .with_state(app)
}

fn nowhere(paths: Paths, uri: &Uri) -> Response {
    let there_are = match paths {
        Paths::All => {
            "POST /v1/check, /v1/checks, /v1/peek, /v1/refund, /v1/reset and GET /v1/auth, /livez, \
             /healthz, /readyz, /metrics"
        }
        Paths::Public => {
            "POST /v1/check, /v1/checks, /v1/peek and GET /v1/auth, /livez, /healthz, /readyz; \
             /metrics, /v1/refund and /v1/reset are at the address of --admin-listen"
        }
        Paths::Admin => "POST /v1/refund, /v1/reset and GET /metrics, /livez, /healthz, /readyz",
    };
    let path = request::quoted(uri.path());
    let detail = format!("nothing is at {path}; there are {there_are}");
    Problem::new(ErrorKind::UnknownPath, detail).into_response()
}

/// An endpoint, as its guard knows it.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    /// What it is called in metrics.
    name: &'static str,
    /// Whether its requests count among those in flight, and are refused beyond their bound.
    bounded: bool,
}

/// Counts and times a request, and refuses it at once when too many are in flight: a queue would
/// answer it after its client has given up.
async fn guard<S: Store>(
    State((app, endpoint)): State<(Arc<App<S>>, Endpoint)>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let mut response = if endpoint.bounded {
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
    if app.is_stopping() {
        // The client is to find another server before this one goes.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
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
    Problem::new(ErrorKind::Overloaded, detail).into_response()
}
