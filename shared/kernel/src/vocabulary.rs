//! The closed vocabularies of `domain.md`, with their column codes and their spelling.
//!
//! A code that is not listed is an error wherever it is read: an unknown value never becomes a
//! default.

/// A number or word outside its vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not a {what}")]
pub struct UnknownCode {
    what: &'static str,
    value: String,
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $code:literal $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of its column codes.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the column code.
            #[must_use]
            pub const fn code(self) -> i16 {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns the lower_snake word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Reads a column code.
            ///
            /// # Errors
            /// A code outside the vocabulary.
            pub fn from_code(code: i16) -> Result<Self, UnknownCode> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(UnknownCode { what: $what, value: code.to_string() }),
                }
            }

            /// Reads a word.
            ///
            /// # Errors
            /// A word outside the vocabulary.
            pub fn from_word(word: &str) -> Result<Self, UnknownCode> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(UnknownCode { what: $what, value: word.chars().filter(|c| !c.is_control()).take(64).collect() }),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

vocabulary!(
    /// What routing did with an event.
    Disposition, "disposition" {
        /// It started a Work.
        Start = 1 "start",
        /// It was queued as input.
        Queue = 2 "queue",
        /// It was queued, and a running attempt is asked to take it now.
        Inject = 3 "inject",
        /// It was queued, and a running attempt is interrupted.
        Interrupt = 4 "interrupt",
        /// It woke its own Work's wait.
        Wake = 5 "wake",
        /// A policy dropped it, or it is a control event.
        Drop = 6 "drop",
        /// No route selected it.
        Unmatched = 7 "unmatched",
        /// Its Work had ended.
        Terminal = 8 "terminal",
        /// An operator skipped it.
        Skipped = 9 "skipped",
        /// Routing gave up on it.
        Failed = 10 "failed",
    }
);

vocabulary!(
    /// What a route does with an event for a running attempt.
    Policy, "policy" {
        /// Queue it.
        Queue = 1 "queue",
        /// Offer it to the running attempt.
        Inject = 2 "inject",
        /// Interrupt the running attempt.
        Interrupt = 3 "interrupt",
        /// Drop it.
        Drop = 4 "drop",
    }
);

vocabulary!(
    /// Where a Work stands, as it is stored. `running` is derived: a live lease on a ready Work.
    WorkState, "work state" {
        /// Claimable, or claimable once input is queued.
        Ready = 1 "ready",
        /// An attempt holds a live lease. Never stored.
        Running = 2 "running",
        /// Parked until a wait is won.
        Waiting = 3 "waiting",
        /// Needs an operator; the reason says why.
        Held = 4 "held",
        /// Ended well.
        Completed = 5 "completed",
        /// Ended by a permanent failure.
        Failed = 6 "failed",
        /// Ended by an operator.
        Cancelled = 7 "cancelled",
    }
);

impl WorkState {
    /// Says whether the Work has ended; a terminal record is immutable.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

vocabulary!(
    /// How an attempt ended.
    AttemptOutcome, "attempt outcome" {
        /// Complete was accepted.
        Completed = 1 "completed",
        /// A retryable failure.
        FailedRetryable = 2 "failed_retryable",
        /// A permanent failure.
        FailedPermanent = 3 "failed_permanent",
        /// The lease ran out; somebody else took over, or nobody.
        LeaseLost = 4 "lease_lost",
        /// Given back uncounted.
        Released = 5 "released",
        /// Parked on a wait.
        Parked = 6 "parked",
        /// Its Work was cancelled.
        Cancelled = 7 "cancelled",
    }
);

vocabulary!(
    /// Why an event is still unrouted.
    PendingState, "pending state" {
        /// Nobody decided it yet.
        Due = 1 "due",
        /// A retryable failure backs off.
        Backoff = 2 "backoff",
        /// A running attempt cannot take it; it waits for the attempt's end (rule r10).
        Deferred = 3 "deferred",
        /// It belongs to more than one Work (rule r05).
        Conflict = 4 "conflict",
        /// Its causal root is braked (rule c10).
        Braked = 5 "braked",
    }
);

vocabulary!(
    /// What a running attempt is asked to do with an input before it ends.
    IntentKind, "intent kind" {
        /// Take the input now.
        Inject = 1 "inject",
        /// Stop what it does for the input.
        Interrupt = 2 "interrupt",
    }
);

vocabulary!(
    /// Why routing could not decide an event.
    FailureCode, "failure code" {
        /// The route's handler is not registered with any live replica.
        HandlerMissing = 1 "handler_missing",
        /// The binding is gone or cannot take the policy.
        BindingInvalid = 2 "binding_invalid",
        /// The policy is unknown, or unsupported by the binding without a fallback.
        PolicyInvalid = 3 "policy_invalid",
        /// The handler said the input is malformed.
        HandlerInvalid = 4 "handler_invalid",
        /// The handler returned another error.
        HandlerFailed = 5 "handler_failed",
        /// No decision within the route's timeout.
        HandlerTimeout = 6 "handler_timeout",
        /// The handler panicked.
        HandlerPanic = 7 "handler_panic",
        /// Deciding this event took the process down.
        HandlerCrashed = 8 "handler_crashed",
    }
);

impl FailureCode {
    /// Says whether trying again may help (the table before rule r20).
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::HandlerFailed | Self::HandlerTimeout | Self::HandlerCrashed
        )
    }
}

vocabulary!(
    /// Why the causal limits refused a derived event.
    RefusalCode, "causal refusal" {
        /// The tree is too deep.
        Depth = 1 "depth",
        /// The minute's quota of the root is spent.
        Rate = 2 "rate",
        /// The parent is not there.
        MissingParent = 3 "missing_parent",
        /// The root is braked.
        Braked = 4 "braked",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_word_reads_back_and_nothing_else_does() {
        for value in Disposition::ALL {
            assert_eq!(Disposition::from_code(value.code()), Ok(*value));
            assert_eq!(Disposition::from_word(value.as_str()), Ok(*value));
        }
        assert!(Disposition::from_code(0).is_err());
        assert!(Disposition::from_code(11).is_err());
        assert_eq!(
            Policy::from_word("Queue")
                .expect_err("case counts")
                .to_string(),
            "`Queue` is not a policy"
        );
    }
}
