//! What the gateway itself refuses. What a service refused passes through untouched.

use crate::access::Owner;
use std::time::Duration;
use weir_kernel::{Classify, ErrorKind, Violation};

/// How long a caller waits before it tries an unreachable service again. One second: longer than a
/// restart of a replica's connection, shorter than anybody's patience.
pub const UPSTREAM_RETRY: Duration = Duration::from_secs(1);

/// A refusal of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody is known to be calling.
    #[error("the header `{0}` is missing, so it is not known who calls")]
    IdentityMissing(&'static str),
    /// An identity header breaks the rule for identifiers.
    #[error("the header `{}` {}", .0.field, .0.description)]
    IdentityInvalid(Violation),
    /// The caller lacks the method's permission.
    #[error("`{actor}` lacks the permission `{permission}`")]
    PermissionDenied {
        /// Who calls.
        actor: String,
        /// What the method needs.
        permission: String,
    },
    /// The method does not exist or its contract names no permission.
    #[error("method `{0}` is not exposed")]
    NotExposed(String),
    /// The service behind cannot be reached.
    #[error("the {0} service cannot be reached")]
    UpstreamUnavailable(Owner),
    /// The caller's deadline passed while the service worked.
    #[error("the deadline passed before the {0} service answered")]
    UpstreamTimeout(Owner),
    /// The gateway leaves; another replica, or the next one, goes on.
    #[error("the gateway is shutting down, so the stream ends here")]
    Draining,
    /// One message of a request is too large.
    #[error("a request message is {size} bytes, the limit is {limit}")]
    MessageTooLarge {
        /// Size that the message announces, in bytes.
        size: u64,
        /// Limit, in bytes.
        limit: u64,
    },
    /// A payload or an HTTP body is too large.
    #[error("the {what} is {}, the limit is {limit} bytes", sized(.size))]
    PayloadTooLarge {
        /// `payload` or `request body`.
        what: &'static str,
        /// Size in bytes, where it was announced.
        size: Option<u64>,
        /// Limit, in bytes.
        limit: u64,
    },
    /// The HTTP body could not be read to its end.
    #[error("the request body ended early")]
    BodyIncomplete,
    /// Fields of an HTTP request are wrong.
    #[error("{}", first(.0))]
    Invalid(Vec<Violation>),
    /// The body is of a media type that the path does not take.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// Nothing is at this path.
    #[error("nothing is at `{0}`")]
    PathNotFound(String),
    /// The path takes another HTTP method.
    #[error("`{path}` does not take {method}")]
    HttpMethodNotAllowed {
        /// The path.
        path: String,
        /// The HTTP method that was used.
        method: String,
    },
    /// An unknown webhook source, or a signature that does not fit: told apart for nobody.
    #[error("the webhook source is unknown or the signature does not fit")]
    WebhookRefused,
}

fn sized(size: &Option<u64>) -> String {
    size.map_or_else(
        || "larger than allowed".to_owned(),
        |size| format!("{size} bytes"),
    )
}

/// One line for all violations: the first, and how many more.
fn first(violations: &[Violation]) -> String {
    match violations {
        [] => "the request is invalid".to_owned(),
        [one] => format!("`{}` {}", one.field, one.description),
        [one, rest @ ..] => {
            format!(
                "`{}` {} (and {} more)",
                one.field,
                one.description,
                rest.len()
            )
        }
    }
}

impl Error {
    /// A wrong field of an HTTP request.
    #[must_use]
    pub fn field(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, description)])
    }
}

impl Classify for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::IdentityMissing(_) | Self::IdentityInvalid(_) | Self::WebhookRefused => {
                ErrorKind::Unauthenticated
            }
            Self::PermissionDenied { .. } => ErrorKind::Forbidden,
            Self::NotExposed(_) | Self::HttpMethodNotAllowed { .. } => ErrorKind::Unimplemented,
            Self::UpstreamUnavailable(_) | Self::Draining => ErrorKind::Unavailable,
            Self::UpstreamTimeout(_) => ErrorKind::Timeout,
            Self::MessageTooLarge { .. }
            | Self::PayloadTooLarge { .. }
            | Self::BodyIncomplete
            | Self::Invalid(_)
            | Self::UnsupportedMediaType(_) => ErrorKind::InvalidArgument,
            Self::PathNotFound(_) => ErrorKind::NotFound,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::IdentityMissing(_) => "IDENTITY_MISSING",
            Self::IdentityInvalid(_) => "IDENTITY_INVALID",
            Self::PermissionDenied { .. } => "PERMISSION_DENIED",
            Self::NotExposed(_) => "METHOD_NOT_EXPOSED",
            Self::UpstreamUnavailable(_) => "UPSTREAM_UNAVAILABLE",
            Self::UpstreamTimeout(_) => "DEADLINE_EXCEEDED",
            Self::Draining => "DRAINING",
            Self::MessageTooLarge { .. } => "MESSAGE_TOO_LARGE",
            Self::PayloadTooLarge { .. } => "PAYLOAD_TOO_LARGE",
            Self::BodyIncomplete => "BODY_INCOMPLETE",
            Self::Invalid(_) => "INVALID_ARGUMENT",
            Self::UnsupportedMediaType(_) => "UNSUPPORTED_MEDIA_TYPE",
            Self::PathNotFound(_) => "PATH_NOT_FOUND",
            Self::HttpMethodNotAllowed { .. } => "HTTP_METHOD_NOT_ALLOWED",
            Self::WebhookRefused => "WEBHOOK_REFUSED",
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        matches!(self, Self::UpstreamUnavailable(_) | Self::Draining).then_some(UPSTREAM_RETRY)
    }

    fn violations(&self) -> Vec<Violation> {
        match self {
            Self::Invalid(violations) => violations.clone(),
            _ => Vec::new(),
        }
    }
}
