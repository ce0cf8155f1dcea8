//! What a caller can do about an error: a closed set, mapped to the wire in one place.

use std::time::Duration;

/// What kind of failure it is, by who has to act. The mapping to gRPC codes is one table in `weir-rpc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong; the caller fixes it.
    InvalidArgument,
    /// The thing does not exist, or belongs to another tenant (rule o04).
    NotFound,
    /// The thing exists with other content.
    AlreadyExists,
    /// The state forbids it; the caller changes the state first.
    FailedPrecondition,
    /// A lost race or a lost lease; the caller reads again and starts over.
    Conflict,
    /// A quota is spent; the caller waits as told.
    RateExceeded,
    /// The causal tree is too deep; final for this branch (rule c05).
    DepthExceeded,
    /// The causal parent is not there; final (rule c05).
    MissingParent,
    /// Nobody is known to be calling.
    Unauthenticated,
    /// The caller is known and may not.
    Forbidden,
    /// Weir or its database cannot answer now; the caller tries again.
    Unavailable,
    /// The deadline passed; the caller tries again.
    Timeout,
    /// The method belongs to a later version.
    Unimplemented,
    /// Our fault. The text is logged and never shown.
    Internal,
}

/// A field of a request and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, as in the request's JSON (`event.id`).
    pub field: String,
    /// One line that says what is wrong and what would be right.
    pub description: String,
}

impl Violation {
    /// Names a field and its fault.
    pub fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            description: description.into(),
        }
    }
}

/// How an error is shown to a caller.
pub trait Classify: std::error::Error {
    /// Returns who must act.
    fn kind(&self) -> ErrorKind;
    /// Returns the stable UPPER_SNAKE reason, as `docs/ERRORS.md` lists it.
    fn reason(&self) -> &'static str;
    /// Returns how long to wait before trying again, where that is known.
    fn retry_after(&self) -> Option<Duration> {
        None
    }
    /// Returns the fields at fault, for an invalid request.
    fn violations(&self) -> Vec<Violation> {
        Vec::new()
    }
    /// Returns further facts for programs: never a payload, never a secret.
    fn metadata(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
