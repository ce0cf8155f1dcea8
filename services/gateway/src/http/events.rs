//! Publishing, reading and operating events over HTTP.

use super::cloudevents::{self, Mode};
use super::problem::Failure;
use super::{json, read_body};
use crate::control::Control;
use crate::{Error, Gateway};
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use percent_encoding::percent_decode;
use std::sync::Arc;
use weir_proto::{gateway::v1 as control, routing::v1 as routing};

const PUBLISH: &str = "/weir.routing.v1.EventService/Publish";
const PUBLISH_BATCH: &str = "/weir.routing.v1.EventService/PublishBatch";
const GET_EVENT: &str = "/weir.routing.v1.EventService/GetEvent";
const GET_ROUTE: &str = "/weir.routing.v1.EventService/GetRoute";
const SKIP: &str = "/weir.gateway.v1.ControlService/SkipEvent";
const REROUTE: &str = "/weir.gateway.v1.ControlService/RerouteEvent";

/// Header with correlation keys: a list with commas between; a comma, a percent sign or anything
/// beyond ASCII within a key is percent-encoded. The same keys may come as `key=…` in the query, once
/// each; both are taken together.
const KEYS: &str = "weir-keys";

/// Largest body of an operator's action, in bytes: a reason of the longest kind, escaped, and room.
const MAX_ACTION: usize = 64 << 10;

/// The query in order, repeats included.
type Pairs = Query<Vec<(String, String)>>;

fn last<'a>(pairs: &'a Pairs, name: &str) -> &'a str {
    pairs
        .iter()
        .rev()
        .find(|(n, _)| n == name)
        .map_or("", |(_, value)| value)
}

fn flag(pairs: &Pairs, name: &'static str) -> Result<bool, Error> {
    match last(pairs, name) {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        _ => Err(Error::field(name, "is `true` or `false`")),
    }
}

/// Refuses query parameters that are not known, as unknown fields are refused everywhere.
fn known(pairs: &Pairs, names: &[&str]) -> Result<(), Error> {
    match pairs
        .iter()
        .find(|(name, _)| !names.contains(&name.as_str()))
    {
        Some((name, _)) => {
            let shown = weir_kernel::limits::one_line(name, 64);
            Err(Error::field(
                shown,
                format!("is not a parameter; known: {}", names.join(", ")),
            ))
        }
        None => Ok(()),
    }
}

fn keys(pairs: &Pairs, headers: &HeaderMap) -> Result<Vec<String>, Error> {
    let mut keys = Vec::new();
    for list in headers.get_all(KEYS) {
        for key in list
            .as_bytes()
            .split(|b| *b == b',')
            .map(<[u8]>::trim_ascii)
        {
            let key = String::from_utf8(percent_decode(key).collect())
                .map_err(|_| Error::field(KEYS, "is not UTF-8"))?;
            keys.push(key);
        }
    }
    keys.extend(
        pairs
            .iter()
            .filter(|(name, _)| name == "key")
            .map(|(_, key)| key.clone()),
    );
    Ok(keys)
}

/// `POST /v1/events?scope=S[&key=K…][&atomic=true]`. Answers 202 for a new event and 200 for one that was
/// accepted before, with the acceptance; a batch answers 200 with one result per event. Keys go to the
/// event, in a batch to each.
pub(super) async fn publish(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    query: Result<Pairs, QueryRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let mode = Mode::of(&headers);
    let method = if mode == Ok(Mode::Batched) {
        PUBLISH_BATCH
    } else {
        PUBLISH
    };
    let call = gateway.admit(method, &headers)?;
    let mode = mode?;
    let query = pairs(query)?;
    let batch = mode == Mode::Batched;
    known(
        &query,
        if batch {
            &["scope", "key", "atomic"]
        } else {
            &["scope", "key"]
        },
    )?;
    let scope = last(&query, "scope").to_owned();
    if scope.is_empty() {
        return Err(Error::field("scope", "is required, as a query parameter").into());
    }
    let keys = keys(&query, &headers)?;
    let what = if mode == Mode::Binary {
        "payload"
    } else {
        "request body"
    };
    let body = read_body(what, body, &headers, mode.max_body(gateway.max_payload)).await?;
    if batch {
        let events = cloudevents::read_batch(&body)?
            .into_iter()
            .map(|event| routing::PublishItem {
                event: Some(event),
                keys: keys.clone(),
                targets: None,
            })
            .collect();
        let atomic = flag(&query, "atomic")?;
        let request = routing::PublishBatchRequest {
            scope,
            events,
            atomic,
        };
        let response = gateway
            .events()
            .publish_batch(call.request(request))
            .await?
            .into_inner();
        return Ok(json::answer(
            StatusCode::OK,
            "weir.routing.v1.PublishBatchResponse",
            &response,
        ));
    }
    let event = cloudevents::read(mode, &headers, &body)?;
    let size = cloudevents::payload_size(&event);
    if size > gateway.max_payload {
        let limit = gateway.max_payload as u64;
        return Err(Error::PayloadTooLarge {
            what: "payload",
            size: Some(size as u64),
            limit,
        }
        .into());
    }
    let request = routing::PublishRequest {
        scope,
        event: Some(event),
        keys,
        targets: None,
    };
    let response = gateway
        .events()
        .publish(call.request(request))
        .await?
        .into_inner();
    let acceptance = response.acceptance.unwrap_or_default();
    let status = if acceptance.deduplicated {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok(json::answer(
        status,
        "weir.types.v1.Acceptance",
        &acceptance,
    ))
}

fn pairs(query: Result<Pairs, QueryRejection>) -> Result<Pairs, Error> {
    query.map_err(|_| Error::field("query", "is not of the form `name=value&…`"))
}

/// What names an event: its uid, or `-` and the producer's source and id in the query.
struct Handle {
    event: String,
    source: String,
    id: String,
}

impl Handle {
    fn of(uid: Result<Path<String>, PathRejection>, query: &Pairs) -> Result<Self, Error> {
        let Path(uid) = uid.map_err(|_| Error::field("uid", "is not UTF-8"))?;
        let (source, id) = (
            last(query, "source").to_owned(),
            last(query, "id").to_owned(),
        );
        match (uid.as_str(), source.is_empty() && id.is_empty()) {
            ("-", true) => Err(Error::field(
                "source",
                "is required with `id` where the uid is `-`",
            )),
            ("-", false) => Ok(Self {
                event: String::new(),
                source,
                id,
            }),
            (_, true) => Ok(Self {
                event: uid,
                source,
                id,
            }),
            (_, false) => Err(Error::field(
                "source",
                "is given beside a uid; write `-` for the uid",
            )),
        }
    }
}

/// `GET /v1/events/{uid}[?omitData=true]`. Answers the event.
pub(super) async fn get_event(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    uid: Result<Path<String>, PathRejection>,
    query: Result<Pairs, QueryRejection>,
) -> Result<Response, Failure> {
    let call = gateway.admit(GET_EVENT, &headers)?;
    let query = pairs(query)?;
    known(&query, &["source", "id", "omitData"])?;
    let Handle { event, source, id } = Handle::of(uid, &query)?;
    let omit_data = flag(&query, "omitData")?;
    let request = routing::GetEventRequest {
        event,
        source,
        id,
        omit_data,
    };
    let response = gateway
        .events()
        .get_event(call.request(request))
        .await?
        .into_inner();
    let event = response.event.unwrap_or_default();
    Ok(json::answer(StatusCode::OK, "weir.types.v1.Event", &event))
}

/// `GET /v1/events/{uid}/route`. Answers the record, or why the event is still unrouted.
pub(super) async fn get_route(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    uid: Result<Path<String>, PathRejection>,
    query: Result<Pairs, QueryRejection>,
) -> Result<Response, Failure> {
    let call = gateway.admit(GET_ROUTE, &headers)?;
    let query = pairs(query)?;
    known(&query, &["source", "id"])?;
    let Handle { event, source, id } = Handle::of(uid, &query)?;
    let request = routing::GetRouteRequest { event, source, id };
    let response = gateway
        .events()
        .get_route(call.request(request))
        .await?
        .into_inner();
    Ok(json::answer(
        StatusCode::OK,
        "weir.routing.v1.GetRouteResponse",
        &response,
    ))
}

/// `POST /v1/events/{uid}/skip` with `{"reason": …, "requestId": …}`.
pub(super) async fn skip(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    uid: Result<Path<String>, PathRejection>,
    query: Result<Pairs, QueryRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let call = gateway.admit(SKIP, &headers)?;
    let query = pairs(query)?;
    known(&query, &["source", "id"])?;
    let Handle { event, source, id } = Handle::of(uid, &query)?;
    let body = read_body("request body", body, &headers, MAX_ACTION).await?;
    let given: control::SkipEventRequest = json::read("weir.gateway.v1.SkipEventRequest", &body)?;
    named_by_path([&given.event, &given.source, &given.id])?;
    let request = control::SkipEventRequest {
        event,
        source,
        id,
        ..given
    };
    let response = Control::new(gateway).skip(&call, request).await?;
    Ok(json::answer(
        StatusCode::OK,
        "weir.gateway.v1.SkipEventResponse",
        &response,
    ))
}

/// `POST /v1/events/{uid}/reroute` with `{"reason": …, "requestId": …}`.
pub(super) async fn reroute(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    uid: Result<Path<String>, PathRejection>,
    query: Result<Pairs, QueryRejection>,
    body: Body,
) -> Result<Response, Failure> {
    let call = gateway.admit(REROUTE, &headers)?;
    let query = pairs(query)?;
    known(&query, &["source", "id"])?;
    let Handle { event, source, id } = Handle::of(uid, &query)?;
    let body = read_body("request body", body, &headers, MAX_ACTION).await?;
    let given: control::RerouteEventRequest =
        json::read("weir.gateway.v1.RerouteEventRequest", &body)?;
    named_by_path([&given.event, &given.source, &given.id])?;
    let request = control::RerouteEventRequest {
        event,
        source,
        id,
        ..given
    };
    let response = Control::new(gateway).reroute(&call, request).await?;
    Ok(json::answer(
        StatusCode::OK,
        "weir.gateway.v1.RerouteEventResponse",
        &response,
    ))
}

/// The path names the event; a body that names one too could mean another.
fn named_by_path(handle: [&String; 3]) -> Result<(), Error> {
    if handle.iter().all(|part| part.is_empty()) {
        return Ok(());
    }
    Err(Error::field("body", "names an event; the path does that"))
}
