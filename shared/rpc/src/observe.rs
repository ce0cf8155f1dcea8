//! One span, one log line and one count for each call.
//!
//! A call's code is known when its answer ends: in the headers of an answer that is an error from the
//! start, in the trailers of every other. So the body is watched until then, and a caller that goes
//! away before is counted as CANCELLED.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use metrics::{counter, histogram};
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Instrument, Span};

use crate::headers::REQUEST_ID;
use crate::methods::{self, Method};
use crate::problem::code_name;
use crate::request_id::{self, CURRENT};
use crate::{Refusal, status};

/// A layer that gives each call its request id and a span, and at its end a log line and
/// `weir_rpc_requests_total{service,method,code}` and `weir_rpc_duration_seconds`. Payloads and
/// metadata are in none of them. Faults of callers are no errors of ours: only INTERNAL, UNKNOWN and
/// DATA_LOSS are logged as errors.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observe;

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner }
    }
}

/// The service that [`Observe`] makes.
#[derive(Debug, Clone)]
pub struct Observed<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Observed<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
    S::Future: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<Watched<R>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let id = request_id::of(request.headers());
        request.headers_mut().insert(REQUEST_ID, id.clone());
        let method = methods::find(request.uri().path());
        let span = tracing::info_span!(
            "rpc",
            rpc.service = method.service,
            rpc.method = method.name,
            request.id = id.to_str().unwrap_or_default(),
        );
        let mut call = Call {
            method,
            span: span.clone(),
            began: Instant::now(),
            open: true,
        };
        let answer = CURRENT
            .scope(id.clone(), self.inner.call(request))
            .instrument(span);
        Box::pin(async move {
            let Ok(mut answer) = answer.await;
            answer.headers_mut().insert(REQUEST_ID, id.clone());
            if let Some(code) = grpc_code(answer.headers()) {
                call.end(code);
            } else if !is_grpc(answer.headers()) {
                call.end_http(answer.status().as_u16());
            }
            Ok(answer.map(|body| Watched {
                body,
                call,
                id,
                dead: false,
            }))
        })
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"))
}

fn grpc_code(headers: &HeaderMap) -> Option<Code> {
    headers
        .get(Status::GRPC_STATUS)
        .map(|code| Code::from_bytes(code.as_bytes()))
}

/// A call that has not ended; dropped, it was cancelled.
#[derive(Debug)]
struct Call {
    method: &'static Method,
    span: Span,
    began: Instant,
    open: bool,
}

impl Call {
    fn end(&mut self, code: Code) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let name = code_name(code);
        let duration_ms = self.count(name);
        let _entered = self.span.enter();
        match code {
            Code::Ok => tracing::debug!(code = name, duration_ms, "answered"),
            Code::Internal | Code::Unknown | Code::DataLoss => {
                tracing::error!(code = name, duration_ms, "answered a failure");
            }
            Code::Unavailable | Code::DeadlineExceeded => {
                tracing::warn!(code = name, duration_ms, "could not answer");
            }
            _ => tracing::debug!(code = name, duration_ms, "refused"),
        }
    }

    fn end_http(&mut self, status: u16) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        // Statuses are a bounded set, whatever a handler does.
        let class = match status {
            0..300 => "HTTP_2XX",
            300..400 => "HTTP_3XX",
            400..500 => "HTTP_4XX",
            _ => "HTTP_5XX",
        };
        let duration_ms = self.count(class);
        let _entered = self.span.enter();
        tracing::debug!(http.status = status, duration_ms, "answered");
    }

    fn count(&self, code: &'static str) -> u64 {
        let took = self.began.elapsed();
        let (service, method) = (self.method.service.as_str(), self.method.name.as_str());
        counter!("weir_rpc_requests_total", "service" => service, "method" => method, "code" => code)
            .increment(1);
        histogram!("weir_rpc_duration_seconds", "service" => service, "method" => method)
            .record(took);
        u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

/// An answer's body, watched to its end.
#[derive(Debug)]
pub struct Watched<R> {
    body: R,
    call: Call,
    id: HeaderValue,
    dead: bool,
}

impl<R> Body for Watched<R>
where
    R: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        let this = &mut *self;
        if this.dead {
            return Poll::Ready(None);
        }
        let _entered = this.call.span.clone().entered();
        let poll = AssertUnwindSafe(|| Pin::new(&mut this.body).poll_frame(context));
        let poll = || CURRENT.sync_scope(this.id.clone(), poll);
        let Ok(polled) = std::panic::catch_unwind(AssertUnwindSafe(poll)) else {
            // A stream that panics ends with a status, and its connection goes on.
            this.dead = true;
            this.call.end(Code::Internal);
            let label = format!("{}/{}", this.call.method.service, this.call.method.name);
            let mut trailers = HeaderMap::new();
            let refused = status(Refusal::Panic(label)).add_header(&mut trailers);
            return Poll::Ready(refused.is_ok().then(|| Ok(Frame::trailers(trailers))));
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    this.call.end(grpc_code(trailers).unwrap_or(Code::Unknown));
                }
            }
            Poll::Ready(Some(Err(_))) => this.call.end(Code::Unknown),
            Poll::Ready(None) => this.call.end(Code::Ok),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.dead || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
