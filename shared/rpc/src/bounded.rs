//! Every call ends: by its deadline, and also when its handler panics.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response};
use tower::{Layer, Service};

use crate::{Refusal, http_status, methods, status};

/// How long a unary call may take whose caller set no deadline.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);

/// A layer that answers DEADLINE_EXCEEDED for a unary call that takes longer than its caller allows
/// (`grpc-timeout`), or than 30 s, and INTERNAL for a handler that panics. Streams end by their
/// caller or by the drain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounded;

impl<S> Layer<S> for Bounded {
    type Service = BoundedService<S>;

    fn layer(&self, inner: S) -> BoundedService<S> {
        BoundedService { inner }
    }
}

/// The service that [`Bounded`] makes.
#[derive(Debug, Clone)]
pub struct BoundedService<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for BoundedService<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
    S::Future: Send + 'static,
    R: Default + 'static,
{
    type Response = Response<R>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<R>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let method = methods::find(path);
        let deadline =
            (!method.streams).then(|| timeout(request.headers()).unwrap_or(DEFAULT_DEADLINE));
        let is_grpc = is_grpc(request.headers());
        let label = format!("{}/{}", method.service, method.name);
        // A handler may panic before its first await, so the call itself is inside too.
        let call = std::panic::catch_unwind(AssertUnwindSafe(|| self.inner.call(request)));
        Box::pin(async move {
            let refusal = match call {
                Err(_) => Refusal::Panic(label),
                Ok(call) => match within(deadline, AssertUnwindSafe(call).catch_unwind()).await {
                    Some(Ok(answer)) => return answer,
                    Some(Err(_)) => Refusal::Panic(label),
                    None => Refusal::Deadline(deadline.unwrap_or_default()),
                },
            };
            let status = status(refusal);
            let mut answer = Response::new(R::default());
            if is_grpc {
                answer = status.into_http();
            } else {
                *answer.status_mut() = http_status(status.code());
            }
            Ok(answer)
        })
    }
}

async fn within<F: Future>(deadline: Option<Duration>, future: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"))
}

/// Reads `grpc-timeout`: up to eight digits and a unit. One that cannot be read is no deadline.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(value * 3600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use tonic::body::Body;
    use tonic::{Code, Status};
    use tower::{ServiceExt, service_fn};

    const UNARY: &str = "/weir.routing.v1.EventService/Publish";

    fn request(timeout: Option<&'static str>) -> Request<Body> {
        let mut request = Request::builder()
            .uri(UNARY)
            .body(Body::default())
            .expect("a request");
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        if let Some(timeout) = timeout {
            request
                .headers_mut()
                .insert("grpc-timeout", HeaderValue::from_static(timeout));
        }
        request
    }

    async fn never(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_by_its_deadline() {
        for (timeout, expected) in [(Some("1500m"), 1500), (Some("60S"), 60_000), (None, 30_000)] {
            let began = tokio::time::Instant::now();
            let answer = Bounded
                .layer(service_fn(never))
                .oneshot(request(timeout))
                .await;
            let answer = answer.expect("infallible");
            let status = Status::from_header_map(answer.headers()).expect("an error");
            assert_eq!(status.code(), Code::DeadlineExceeded);
            assert_eq!(began.elapsed().as_millis() / 10, expected / 10);
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        let service = service_fn(
            async |_: Request<Body>| -> Result<Response<Body>, Infallible> { panic!("on purpose") },
        );
        let answer = Bounded
            .layer(service)
            .oneshot(request(None))
            .await
            .expect("infallible");
        let status = Status::from_header_map(answer.headers()).expect("an error");
        assert_eq!(status.code(), Code::Internal);
        assert!(!status.message().contains("on purpose"));
    }

    #[test]
    fn odd_timeouts_are_none() {
        let mut headers = HeaderMap::new();
        for bad in ["", "S", "1", "123456789S", "-1S", "1x"] {
            headers.insert("grpc-timeout", HeaderValue::from_static(bad));
            assert_eq!(timeout(&headers), None, "{bad}");
        }
    }
}
