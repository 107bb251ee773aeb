//! A limit before an axum service: `cargo run --example axum`, then
//! `curl -i -H 'x-api-key: me' http://127.0.0.1:3000/` four times.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Router, routing::get};
use tidegate::model::Policies;
use tidegate::{Check, Limiter, MemoryStore};

type Shared = Arc<Limiter<MemoryStore>>;

async fn limit(State(limiter): State<Shared>, request: Request, next: Next) -> Response {
    let key = request.headers().get("x-api-key");
    let Some(Ok(key)) = key.map(|key| key.to_str()) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    match limiter.check(&Check::new("api", key)).await {
        Ok(decision) if decision.is_admitted() => next.run(request).await,
        Ok(denied) => {
            let wait = denied.retry_after().map_or(1, |wait| wait.ceil_secs());
            (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, wait)]).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policies = "{version: 1, policies: {api: {algorithm: sliding_log, global: 3/min}}}";
    let limiter = Limiter::builder()
        .policies(Policies::from_yaml(policies)?)
        .store(MemoryStore::default())
        .build()?;
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(from_fn_with_state(Arc::new(limiter), limit));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
