//! The shared token: services answer the gateway and each other only.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::{Either, Ready, ready};
use http::{Request, Response};
use tower::{Layer, Service};

use crate::headers::INTERNAL_TOKEN;
use crate::{Refusal, Secret, status};

/// What may be asked without the token: it says nothing of any tenant (rule o01).
const OPEN: &str = "/grpc.health.v1.Health/";

/// A layer that refuses every call without one of the tokens, except health. UNAUTHENTICATED with
/// `INTERNAL_TOKEN_REFUSED`. The token is taken off the request, so that no handler can pass it on.
///
/// More than one token is for the time in which a token is exchanged: services first learn the new
/// one beside the old, then callers change, then the old one goes.
#[derive(Debug, Clone)]
pub struct InternalAuth {
    tokens: Arc<[Secret]>,
}

impl InternalAuth {
    /// Accepts any of these tokens. An empty one is ignored: it admits nobody.
    pub fn new(tokens: impl IntoIterator<Item = Secret>) -> Self {
        Self {
            tokens: tokens
                .into_iter()
                .filter(|token| !token.is_empty())
                .collect(),
        }
    }

    fn admits<B>(&self, request: &Request<B>) -> bool {
        if request.uri().path().starts_with(OPEN) {
            return true;
        }
        let mut given = request.headers().get_all(INTERNAL_TOKEN).iter();
        let (Some(token), None) = (given.next(), given.next()) else {
            return false;
        };
        // All are compared, so that the time does not tell which one came near.
        self.tokens
            .iter()
            .fold(false, |known, ours| known | ours.matches(token.as_bytes()))
    }
}

impl<S> Layer<S> for InternalAuth {
    type Service = Authenticated<S>;

    fn layer(&self, inner: S) -> Authenticated<S> {
        Authenticated {
            inner,
            auth: self.clone(),
        }
    }
}

/// The service that [`InternalAuth`] makes.
#[derive(Debug, Clone)]
pub struct Authenticated<S> {
    inner: S,
    auth: InternalAuth,
}

impl<S, B, R> Service<Request<B>> for Authenticated<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = Infallible>,
    R: Default,
{
    type Response = Response<R>;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response<R>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if !self.auth.admits(&request) {
            return Either::Left(ready(Ok(status(Refusal::Token).into_http())));
        }
        request.headers_mut().remove(INTERNAL_TOKEN);
        Either::Right(self.inner.call(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;
    use http::HeaderValue;
    use tonic::Status;
    use tonic::body::Body;
    use tower::{ServiceExt, service_fn};

    async fn ask(path: &str, tokens: &[&'static str]) -> Response<Body> {
        let auth = InternalAuth::new([Secret::new("new"), Secret::new("old"), Secret::default()]);
        let service = auth.layer(service_fn(async |request: Request<Body>| {
            assert!(
                !request.headers().contains_key(INTERNAL_TOKEN),
                "the token stays outside"
            );
            Ok::<_, Infallible>(Response::new(Body::default()))
        }));
        let mut request = Request::builder()
            .uri(path)
            .body(Body::default())
            .expect("a request");
        for token in tokens {
            request
                .headers_mut()
                .append(INTERNAL_TOKEN, HeaderValue::from_static(token));
        }
        service.oneshot(request).await.expect("infallible")
    }

    #[tokio::test]
    async fn o03_only_who_knows_a_token_is_answered() {
        for tokens in [&["new"][..], &["old"]] {
            let answer = ask("/weir.routing.v1.EventService/Publish", tokens).await;
            assert!(Status::from_header_map(answer.headers()).is_none());
        }
        for tokens in [&[][..], &[""], &["nope"], &["new", "new"]] {
            let answer = ask("/weir.routing.v1.EventService/Publish", tokens).await;
            let status = Status::from_header_map(answer.headers()).expect("refused");
            assert_eq!(status.code(), tonic::Code::Unauthenticated);
            assert_eq!(Problem::from(status).reason, "INTERNAL_TOKEN_REFUSED");
        }
    }

    #[tokio::test]
    async fn o01_health_needs_no_token() {
        let answer = ask("/grpc.health.v1.Health/Check", &[]).await;
        assert!(Status::from_header_map(answer.headers()).is_none());
    }
}
