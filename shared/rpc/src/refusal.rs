//! What the layers themselves answer.

use std::time::Duration;

use weir_kernel::{Classify, ErrorKind};

/// A request that does not reach its handler, or whose handler does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The shared token is missing or wrong. Reason `INTERNAL_TOKEN_REFUSED`.
    #[error("this port is for the gateway and for services of this installation")]
    Token,
    /// No verified caller is named. Reason `CALLER_MISSING`.
    #[error("the request names no verified caller: `{0}` is missing or not valid")]
    Caller(&'static str),
    /// The deadline passed. What the handler did is unknown, as with every deadline. Reason
    /// `DEADLINE_EXCEEDED`.
    #[error("no answer within {}", humane(*.0))]
    Deadline(Duration),
    /// The handler panicked. Reason `INTERNAL`.
    #[error("the handler of `{0}` panicked")]
    Panic(String),
    /// The method is in the contract and comes with a later version. Reason `NOT_IMPLEMENTED`.
    #[error("`{method}` is not implemented in this version: {text}")]
    NotImplemented {
        /// The method's name.
        method: &'static str,
        /// What it waits for.
        text: &'static str,
    },
}

fn humane(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}

impl Classify for Refusal {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Token | Self::Caller(_) => ErrorKind::Unauthenticated,
            Self::Deadline(_) => ErrorKind::Timeout,
            Self::Panic(_) => ErrorKind::Internal,
            Self::NotImplemented { .. } => ErrorKind::Unimplemented,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Token => "INTERNAL_TOKEN_REFUSED",
            Self::Caller(_) => "CALLER_MISSING",
            Self::Deadline(_) => "DEADLINE_EXCEEDED",
            Self::Panic(_) => "INTERNAL",
            Self::NotImplemented { .. } => "NOT_IMPLEMENTED",
        }
    }
}
