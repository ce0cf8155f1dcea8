//! What strangers see: raw HTTP and gRPC at the gateway, and what a refusal leaves in the database.

use std::collections::BTreeMap;

use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use http_body_util::BodyExt as _;
use prost::Message;
use sqlx::AssertSqlSafe;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt as _;
use weir_proto::cloudevents::v1::CloudEvent;
use weir_proto::cloudevents::v1::cloud_event::Data;
use weir_rpc::Problem;
use weir_testkit::TestDb;

use crate::support::{Weir, event};

/// An answer over HTTP.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn reason(&self) -> String {
        self.json()["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

/// Sends an HTTP request with these headers.
pub(crate) async fn send(
    url: &str,
    method: http::Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Reply {
    let client = reqwest::Client::new();
    let mut request = client
        .request(method, format!("{url}{path}"))
        .body(body.into());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.expect("the gateway answers");
    Reply {
        status: answer.status().as_u16(),
        body: answer.bytes().await.expect("it ends"),
    }
}

/// Reads a path without any identity.
pub(crate) async fn get(url: &str, path: &str) -> Reply {
    send(url, http::Method::GET, path, &[], "").await
}

/// Delivers a signed webhook to a source of tenant `demo`.
pub(crate) async fn deliver(
    weir: &Weir,
    scope: &str,
    source: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let signature = sign("weir-development", body);
    let mut all = vec![
        ("content-type", "application/json"),
        ("x-github-event", "issues"),
        ("x-hub-signature-256", signature.as_str()),
    ];
    all.extend(headers);
    send(
        &weir.url,
        http::Method::POST,
        &format!("/v1/hooks/demo/{scope}/{source}"),
        &all,
        body,
    )
    .await
}

/// Signs a body as GitHub does.
pub(crate) fn sign(secret: &str, body: &str) -> String {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(body.as_bytes());
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// Calls a gRPC method by its path and returns how it ended.
pub(crate) async fn call(
    url: &str,
    path: &str,
    headers: &[(&str, &str)],
    message: &impl Message,
) -> Result<Bytes, Status> {
    let message = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).expect("small").to_be_bytes());
    framed.extend(message);
    let mut request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body =
        Body::new(http_body_util::Full::new(Bytes::from(framed)).map_err(|never| match never {}));
    let upstream = weir_rpc::remote(url).expect("an address");
    let answer = upstream
        .oneshot(request.body(body).expect("a request"))
        .await
        .expect("it answers");
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return if status.code() == Code::Ok {
            Ok(Bytes::new())
        } else {
            Err(status)
        };
    }
    let body = answer.into_body().collect().await.expect("it ends");
    let status = body
        .trailers()
        .and_then(Status::from_header_map)
        .expect("an answer ends with a status");
    if status.code() == Code::Ok {
        Ok(body.to_bytes().slice(5..))
    } else {
        Err(status)
    }
}

/// Counts the rows of every table, but for those that a running process keeps of itself.
pub(crate) async fn rows(db: &TestDb) -> BTreeMap<String, i64> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'weir' \
         AND table_type = 'BASE TABLE' AND table_name NOT LIKE 'event_body_%' \
         AND table_name NOT IN ('replica', 'route_claim', 'test_clock')",
    )
    .fetch_all(db.pool())
    .await
    .expect("the catalogue can be read");
    assert!(tables.len() > 20, "{tables:?}");
    let mut counts = BTreeMap::new();
    for table in tables {
        let sql = format!("SELECT count(*) FROM weir.{table}");
        let n = sqlx::query_scalar(AssertSqlSafe(sql))
            .fetch_one(db.pool())
            .await
            .expect("a table");
        counts.insert(table, n);
    }
    counts
}

/// A refusal: code, reason, message, and `field: description` of each fault.
pub(crate) fn refusal<T: std::fmt::Debug>(
    answer: Result<T, Status>,
) -> (Code, String, String, Vec<String>) {
    let problem = Problem::from(&answer.expect_err("it is refused"));
    let faults = problem
        .violations
        .iter()
        .map(|v| format!("{}: {}", v.field, v.description))
        .collect();
    (problem.code, problem.reason, problem.message, faults)
}

/// Just the reason of a refusal.
pub(crate) fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> String {
    refusal(answer).1
}

/// An event with another source.
pub(crate) fn from(source: &str, id: &str, kind: &str, data: &str) -> CloudEvent {
    CloudEvent {
        source: source.to_owned(),
        ..event(id, kind, data)
    }
}

/// An event with bytes.
pub(crate) fn bytes(id: &str, kind: &str, data: Vec<u8>) -> CloudEvent {
    CloudEvent {
        data: Some(Data::BinaryData(data)),
        ..event(id, kind, "")
    }
}
