//! `/health/handlers`: whether the remote handlers that routes ask can be reached (rule o07).
//!
//! The page is open, so it names endpoints and handlers and no tenant (rule o01). What it says has no part in
//! readiness: a handler that is down fails the events of its routes, retryably, and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use tonic::codegen::http::StatusCode;

use super::Remotes;

/// How a remote handler stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It answers.
    Up,
    /// It does not, or says that it does not serve.
    Down,
    /// It was not asked yet, or does not know.
    Unknown,
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// How it stands.
    pub state: State,
    /// How long the probe took.
    pub latency: Duration,
    /// When it ended, by this process's clock.
    pub at: DateTime<Utc>,
    /// One line in Weir's own words.
    pub message: String,
}

/// An endpoint's handlers and its last probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Names of the handlers there.
    pub names: BTreeSet<String>,
    /// The last probe; `None` before the first.
    pub probed: Option<Probed>,
}

#[derive(Serialize)]
struct Page {
    handlers: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    endpoint: String,
    names: BTreeSet<String>,
    state: State,
    latency_ms: Option<f64>,
    probed_at: Option<String>,
    message: String,
}

/// Makes the page: 503 when a handler is down, else 200, also when there are none.
pub fn page(remotes: Remotes) -> Router {
    Router::new()
        .route("/health/handlers", get(handlers))
        .with_state(remotes)
}

async fn handlers(Shared(remotes): Shared<Remotes>) -> Response {
    let handlers: Vec<Line> = remotes
        .probed()
        .into_iter()
        .map(|(endpoint, health)| line(endpoint, health))
        .collect();
    let status = if handlers.iter().any(|h| h.state == State::Down) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    (status, Json(Page { handlers })).into_response()
}

fn line(endpoint: String, health: Health) -> Line {
    let Health { names, probed } = health;
    match probed {
        Some(probed) => Line {
            endpoint,
            names,
            state: probed.state,
            latency_ms: Some((probed.latency.as_secs_f64() * 1e6).round() / 1e3),
            probed_at: Some(probed.at.to_rfc3339_opts(SecondsFormat::Millis, true)),
            message: probed.message,
        },
        None => Line {
            endpoint,
            names,
            state: State::Unknown,
            latency_ms: None,
            probed_at: None,
            message: "not probed yet".to_owned(),
        },
    }
}
