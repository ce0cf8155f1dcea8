//! What can go wrong with an expression, and what that means for a route.

/// An expression that does not compile (rule r50: it refuses the configuration).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line}, column {column} of the expression)")]
pub struct CompileError {
    /// What is wrong, one line.
    pub message: String,
    /// Line inside the expression, from 1.
    pub line: usize,
    /// Column inside the expression in characters, from 1.
    pub column: usize,
}

/// An expression that compiled but has no value for this event and Work. No text here carries
/// payload: paths are as the expression wrote them, types are type names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A field, map key or list index is not there.
    #[error("no such field {path}")]
    Missing {
        /// The path as the expression has it, up to what is missing.
        path: String,
    },
    /// The expression asked for `event.data`, which is there but is not readable JSON.
    #[error("data_unreadable")]
    DataUnreadable,
    /// An operator or function met types or values it does not take.
    #[error("{0}")]
    Type(String),
    /// The evaluation passed a limit on steps, memory or depth.
    #[error("{0}")]
    Limit(String),
    /// Division by zero or an overflow.
    #[error("{0}")]
    Arithmetic(String),
}

/// What an expression says about an event as a route's condition (rule r50).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The route takes the event.
    Match,
    /// The route declines it, for the reason given.
    Skip {
        /// One line: `condition is false`, `no such field …` or `data_unreadable`.
        reason: String,
    },
    /// The route cannot say: failure code `handler_invalid`, not retried.
    Invalid {
        /// One line, without payload.
        error: String,
    },
}
