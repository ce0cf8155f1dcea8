//! The health port: the only one that is open to everybody, and it says nothing of any tenant (rule
//! o01).

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;

use crate::Snapshot;

/// Makes the port's routes. Liveness never asks anything: a process that answers lives (rule m04).
pub(crate) fn router(state: watch::Receiver<Snapshot>, more: Vec<Router>) -> Router {
    let router = probes(state).route("/metrics", get(metrics));
    more.into_iter().fold(router, Router::merge)
}

/// Makes the probes alone, which an edge answers on its own port too.
pub(crate) fn probes(state: watch::Receiver<Snapshot>) -> Router {
    Router::new()
        .route(
            "/health/live",
            get(async || Json(serde_json::json!({ "live": true }))),
        )
        .route("/health/ready", get(ready))
        .with_state(state)
}

async fn ready(State(state): State<watch::Receiver<Snapshot>>) -> Response {
    let snapshot = state.borrow().clone();
    let status = if snapshot.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(snapshot)).into_response()
}

async fn metrics() -> Response {
    match crate::metrics_handle() {
        Some(handle) => (
            [(CONTENT_TYPE, "text/plain; version=0.0.4")],
            handle.render(),
        )
            .into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
