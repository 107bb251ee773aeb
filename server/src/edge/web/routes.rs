//! Which address is which endpoint. Never answers but through them: what isn't here is a problem
//! in JSON too.

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any, get, post};

use super::app::App;
use super::guard::{Endpoint, guard};
use super::{admin, answer, auth, batch, check, reading, status};
use crate::edge::problem::Problem;
use crate::edge::protocol::Fault;
use tidegate::store::Store;

/// An endpoint, the methods that it knows, and what answers them.
type Route<S> = (Endpoint, &'static str, MethodRouter<Arc<App<S>>>);

/// All endpoints over `app`. Requests should carry their peer's address as an extension
/// ([`super::Peer`]), as [`super::serve`] sees to: without it a request to `/v1/auth` must name
/// its subject.
pub fn router<S: Store>(app: Arc<App<S>>) -> Router {
    let bounded = |name| Endpoint {
        name,
        bounded: true,
    };
    // Who watches a server must reach it also when it has too much to do.
    let watched = |name| Endpoint {
        name,
        bounded: false,
    };
    let routes: [Route<S>; 9] = [
        (bounded("/v1/check"), "POST", post(check::check::<S>)),
        (bounded("/v1/checks"), "POST", post(batch::checks::<S>)),
        (bounded("/v1/peek"), "POST", post(check::peek::<S>)),
        (bounded("/v1/refund"), "POST", post(admin::refund::<S>)),
        (bounded("/v1/reset"), "POST", post(admin::reset::<S>)),
        (bounded("/v1/auth"), "GET, HEAD", get(auth::auth::<S>)),
        (watched("/healthz"), "GET, HEAD", get(status::healthz)),
        (watched("/readyz"), "GET, HEAD", get(status::readyz::<S>)),
        (
            watched("/metrics"),
            "GET, HEAD",
            get(status::exposition::<S>),
        ),
    ];
    let mut router = Router::new();
    for (endpoint, methods, route) in routes {
        let route = route
            .fallback(move || async move { answer::method_not_allowed(methods) })
            .layer(from_fn_with_state((Arc::clone(&app), endpoint), guard::<S>));
        router = router.route(endpoint.name, route);
    }
    let elsewhere = any(nowhere).layer(from_fn_with_state(
        (Arc::clone(&app), bounded("elsewhere")),
        guard::<S>,
    ));
    router
        .fallback_service(elsewhere.with_state(()))
        .with_state(app)
}

async fn nowhere(uri: Uri) -> Response {
    let detail = format!(
        "nothing is at {}; there are POST /v1/check, /v1/checks, /v1/peek, /v1/refund, /v1/reset \
         and GET /v1/auth, /healthz, /readyz, /metrics",
        reading::quoted(uri.path())
    );
    Problem::new(Fault::UnknownAddress, detail).into_response()
}
