//! Sends one webhook, signed, until it is answered.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hmac::{Hmac, Mac as _};
use reqwest::{Response, StatusCode, header};
use serde_json::Value;
use sha2::Sha256;
use tokio::time::{Instant, sleep};
use weir_client::Backoff;

use super::super::error::Failure;
use super::corpus::Entry;

/// A webhook endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    pub(super) tenant: String,
    scope: String,
    source: String,
}

impl FromStr for Hook {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split('/').collect::<Vec<_>>()[..] {
            [tenant, scope, source] if [tenant, scope, source].iter().all(|name| is_name(name)) => {
                Ok(Self {
                    tenant: tenant.to_owned(),
                    scope: scope.to_owned(),
                    source: source.to_owned(),
                })
            }
            _ => Err(format!(
                "`{text}` is not TENANT/SCOPE/SOURCE, such as demo/github/github"
            )),
        }
    }
}

/// What can stand in a path without more ado.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c))
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.scope, self.source)
    }
}

/// What became of one webhook.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Accepted,
    Deduplicated,
    Refused(String),
    Unreachable(String),
}

/// Sends webhooks to one endpoint.
pub(super) struct Sender {
    http: reqwest::Client,
    url: String,
    secret: String,
    patience: Duration,
}

impl Sender {
    pub(super) fn new(
        url: &str,
        hook: &Hook,
        secret: String,
        timeout: Duration,
        patience: Duration,
    ) -> Result<Self, Failure> {
        if !url.starts_with("http://") {
            return Err(Failure::usage(format!(
                "`{url}` is not an address of a gateway, such as http://localhost:7070"
            )));
        }
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .build()
            .map_err(|error| Failure::failed(format!("cannot make an HTTP client: {error}")))?;
        Ok(Self {
            http,
            url: format!("{url}/v1/hooks/{hook}"),
            secret,
            patience,
        })
    }

    /// Sends a webhook. While nobody answers, or the answer is to come again, it is sent again: its
    /// delivery id makes that safe.
    pub(super) async fn send(&self, entry: &Entry) -> Delivery {
        let give_up = Instant::now() + self.patience;
        let mut backoff = Backoff::default();
        loop {
            let (why, after) = match self.post(entry).await {
                Ok(response) if is_temporary(response.status()) => (
                    format!("HTTP {}", response.status().as_u16()),
                    retry_after(&response),
                ),
                Ok(response) => return answer(response).await,
                Err(error) => (cause(&error), None),
            };
            let delay = backoff.next_delay().max(after.unwrap_or_default());
            if Instant::now() + delay >= give_up {
                return Delivery::Unreachable(why);
            }
            sleep(delay).await;
        }
    }

    async fn post(&self, entry: &Entry) -> reqwest::Result<Response> {
        self.http
            .post(&self.url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(
                header::USER_AGENT,
                concat!("weir-replay/", env!("CARGO_PKG_VERSION")),
            )
            .header("X-GitHub-Event", &entry.event)
            .header("X-GitHub-Delivery", entry.delivery.to_string())
            .header(
                "X-Hub-Signature-256",
                signature(&self.secret, entry.payload.as_bytes()),
            )
            .body(entry.payload.clone())
            .send()
            .await
    }
}

fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

fn is_temporary(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response
        .headers()
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

async fn answer(response: Response) -> Delivery {
    let status = response.status();
    let body = response.bytes().await.unwrap_or_default();
    read_answer(status, &body)
}

fn read_answer(status: StatusCode, body: &[u8]) -> Delivery {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    if status.is_success() {
        let is_set = |value: Option<&Value>| value.and_then(Value::as_bool).unwrap_or_default();
        let again =
            is_set(body.get("deduplicated")) || is_set(body.pointer("/acceptance/deduplicated"));
        return if again {
            Delivery::Deduplicated
        } else {
            Delivery::Accepted
        };
    }
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = [text("detail"), text("title")]
        .into_iter()
        .find(|text| !text.is_empty());
    let mut why = format!("HTTP {}", status.as_u16());
    if let Some(said) = said {
        why.push_str(&format!(": {said}"));
    }
    if !text("reason").is_empty() {
        why.push_str(&format!(" [{}]", text("reason")));
    }
    Delivery::Refused(why)
}

/// The innermost cause, which is what tells a refused connection from a timeout.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_githubs() {
        // The example of GitHub's documentation.
        assert_eq!(
            signature("It's a Secret to Everybody", b"Hello, World!"),
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        );
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(
            read_answer(StatusCode::ACCEPTED, br#"{"uid":"0199"}"#),
            Delivery::Accepted
        );
        assert_eq!(read_answer(StatusCode::OK, b""), Delivery::Accepted);
        assert_eq!(
            read_answer(StatusCode::OK, br#"{"deduplicated":true}"#),
            Delivery::Deduplicated
        );
        let problem = br#"{"title":"Unauthorized","detail":"signature does not match","reason":"WEBHOOK_REFUSED"}"#;
        assert_eq!(
            read_answer(StatusCode::UNAUTHORIZED, problem),
            Delivery::Refused("HTTP 401: signature does not match [WEBHOOK_REFUSED]".to_owned())
        );
        assert!(
            is_temporary(StatusCode::SERVICE_UNAVAILABLE) && !is_temporary(StatusCode::BAD_REQUEST)
        );
    }

    #[test]
    fn a_hook_has_three_names() {
        let hook: Hook = "demo/github/github".parse().expect("three names");
        assert_eq!(hook.to_string(), "demo/github/github");
        for wrong in ["demo/github", "demo//github", "a/b/c/d", "a/b/c?d"] {
            assert!(wrong.parse::<Hook>().is_err(), "{wrong}");
        }
    }
}
