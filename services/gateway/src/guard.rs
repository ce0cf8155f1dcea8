//! The way to a service behind the gateway.
//!
//! Whatever goes wrong on the way becomes an ordinary gRPC answer, at any point of a call: no
//! connection, a deadline that passed, an answer that is not gRPC, a stream that breaks off. Callers of
//! generated clients and callers that are forwarded read the same status with the same details.

use crate::Error;
use crate::access::Owner;
use crate::messages::Oversize;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::{Status, TimeoutExpired};
use tower::{BoxError, Service, ServiceExt as _};
use weir_rpc::Upstream;
use weir_runtime::CancellationToken;

/// A service behind the gateway, which answers every call.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    owner: Owner,
    upstream: Upstream,
}

impl Guard {
    pub(crate) fn new(owner: Owner, upstream: Upstream) -> Self {
        Self { owner, upstream }
    }

    /// Calls the service and turns every failure on the way into an answer. `oversize` tells whether
    /// the request was cut because a message was too large.
    /// `stop` ends an answer that could go on for ever.
    pub(crate) async fn send(
        self,
        request: Request<Body>,
        oversize: Oversize,
        stop: Option<CancellationToken>,
    ) -> Response<Body> {
        let owner = self.owner;
        let method = request.uri().path().to_owned();
        let outcome = self.upstream.oneshot(request).await;
        if let Some(refusal) = oversize.refusal() {
            return weir_rpc::status(refusal).into_http();
        }
        let response = match outcome {
            Ok(response) => response,
            Err(error) => return failed(owner, &method, error.as_ref()).into_http(),
        };
        if !is_grpc(response.headers()) {
            let status = response.status().as_u16();
            tracing::warn!(upstream = %owner, method, status, "an answer was not gRPC");
            return weir_rpc::status(Error::UpstreamUnavailable(owner)).into_http();
        }
        // An answer that is an error from the start has its status in the headers and no trailers.
        let ended = response.headers().contains_key(Status::GRPC_STATUS);
        let stop = stop.map(|stop| Box::pin(stop.cancelled_owned()) as Stop);
        response.map(|body| {
            Body::new(Answer {
                owner,
                method,
                body,
                oversize,
                ended,
                stop,
            })
        })
    }
}

impl Service<Request<Body>> for Guard {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Readiness is awaited inside the call, where a failure has an answer to become.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let guard = self.clone();
        Box::pin(async move { Ok(guard.send(request, Oversize::default(), None).await) })
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"))
}

/// Names a failure on the way: a deadline, or a service that cannot be reached.
fn failed(owner: Owner, method: &str, error: &(dyn StdError + 'static)) -> Status {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<TimeoutExpired>() {
            return weir_rpc::status(Error::UpstreamTimeout(owner));
        }
        cause = error.source();
    }
    tracing::warn!(upstream = %owner, method, error = %weir_rpc::chain(error), "could not reach a service");
    weir_rpc::status(Error::UpstreamUnavailable(owner))
}

/// An answer on its way out. Ends with trailers in every case: where the service's are missing, they
/// say that it broke off.
struct Answer {
    owner: Owner,
    method: String,
    body: Body,
    oversize: Oversize,
    ended: bool,
    stop: Option<Stop>,
}

type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Answer {
    fn end(&mut self, status: &Status) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.ended = true;
        // The rest would have nobody to go to.
        self.body = Body::empty();
        let mut trailers = HeaderMap::new();
        match status.add_header(&mut trailers) {
            Ok(()) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Err(status) => Poll::Ready(Some(Err(status.into()))),
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(stop) = self.stop.as_mut()
            && stop.as_mut().poll(context).is_ready()
        {
            self.stop = None;
            if !self.ended {
                return self.end(&weir_rpc::status(Error::Draining));
            }
        }
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        match frame {
            Some(Ok(frame)) if frame.is_trailers() => {
                if let Some(refusal) = self.oversize.refusal() {
                    return self.end(&weir_rpc::status(refusal));
                }
                self.ended = true;
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            None if self.ended => Poll::Ready(None),
            None => {
                let status = match self.oversize.refusal() {
                    Some(refusal) => weir_rpc::status(refusal),
                    None => weir_rpc::status(Error::UpstreamUnavailable(self.owner)),
                };
                self.end(&status)
            }
            Some(Err(error)) => {
                let status = match self.oversize.refusal() {
                    Some(refusal) => weir_rpc::status(refusal),
                    None => failed(self.owner, &self.method, &error),
                };
                self.end(&status)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.body.is_end_stream()
    }
}
