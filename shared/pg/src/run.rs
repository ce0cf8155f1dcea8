//! The runner: a command, its transaction and the repeats of lost races.

use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use tracing::Instrument;

use crate::{Db, Error, Tx};

/// How often a command is tried before its caller is told of the contention. With the backoff below
/// that is about a second, well inside a caller's deadline.
pub const MAX_ATTEMPTS: u32 = 8;

/// The first pause; each further one is twice as long, up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_millis(320);

/// One use case as one transaction.
///
/// Its fields are valid domain values; `execute` reads like the sentence that describes it. It may
/// run more than once, so it touches nothing but `tx`: no call, no file, no channel.
pub trait Command: Sync {
    /// `context.verb_noun`: the span's name and the metrics' label.
    const NAME: &'static str;
    /// The isolation level. Guarded statements make the default enough.
    const ISOLATION: Isolation = Isolation::ReadCommitted;
    /// What the caller learns after the commit. A refusal that must leave a record is part of it: an
    /// `Err` rolls back.
    type Output: Send;
    /// The crate's error.
    type Error: TxError + Send;

    /// Does the work. Everything it did is rolled back when it returns an error.
    fn execute(
        &self,
        tx: &mut Tx<'_>,
    ) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// The isolation levels in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// The whole transaction sees one snapshot; a lost race is repeated by the runner.
    RepeatableRead,
}

impl Isolation {
    /// The bounds ride along in the same round trip and end with the transaction, so that a pooler does no harm: a
    /// process that is stopped in the middle of one must not hold a scope's lock for as long as it is stopped.
    fn begin(self) -> &'static str {
        match self {
            Self::ReadCommitted => {
                "BEGIN ISOLATION LEVEL READ COMMITTED; \
                 SET LOCAL idle_in_transaction_session_timeout = '5s'; SET LOCAL statement_timeout = '30s'"
            }
            Self::RepeatableRead => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ; \
                 SET LOCAL idle_in_transaction_session_timeout = '5s'; SET LOCAL statement_timeout = '30s'"
            }
        }
    }
}

/// An error of a command: it can hold the database's, which the runner has to see.
pub trait TxError: From<Error> {
    /// Returns the database's error inside, if there is one.
    fn db(&self) -> Option<&Error>;
}

impl TxError for Error {
    fn db(&self) -> Option<&Error> {
        Some(self)
    }
}

impl Db {
    /// Runs the command in a transaction and commits it.
    ///
    /// A serialization failure, a deadlock and [`Error::Again`] are repeated from the start, at most
    /// [`MAX_ATTEMPTS`] times in all. A connection lost during COMMIT is not: the error says
    /// `COMMIT_UNKNOWN`.
    ///
    /// # Errors
    ///
    /// The command's own, and those of [`Error`].
    ///
    /// # Cancel safety
    ///
    /// Dropped before the COMMIT was sent, everything is rolled back; dropped during it, the outcome
    /// is unknown.
    pub async fn run<C: Command>(&self, command: &C) -> Result<C::Output, C::Error> {
        let started = Instant::now();
        let mut attempt = 1;
        let result = loop {
            let span = tracing::debug_span!("transaction", command = C::NAME, attempt);
            let result = self.run_once(command).instrument(span).await;
            let Err(error) = &result else { break result };
            let Some(lost) = error.db().filter(|error| error.is_retryable()) else {
                break result;
            };
            if attempt == MAX_ATTEMPTS {
                break result;
            }
            counter!("weir_pg_transaction_retries_total", "command" => C::NAME).increment(1);
            tracing::debug!(
                command = C::NAME,
                attempt,
                "repeating a transaction that lost a race"
            );
            let pause = backoff(attempt, lost);
            drop(result);
            tokio::time::sleep(pause).await;
            attempt += 1;
        };
        let outcome = outcome(&result);
        counter!("weir_pg_transactions_total", "command" => C::NAME, "outcome" => outcome)
            .increment(1);
        histogram!("weir_pg_transaction_duration_seconds", "command" => C::NAME)
            .record(started.elapsed());
        result
    }

    async fn run_once<C: Command>(&self, command: &C) -> Result<C::Output, C::Error> {
        let mut tx = Tx::from(self.begin(C::ISOLATION.begin()).await?);
        // On an error, or when the caller goes away, dropping `tx` rolls back.
        let output = command.execute(&mut tx).await?;
        tx.commit().await?;
        Ok(output)
    }
}

fn outcome<T, E: TxError>(result: &Result<T, E>) -> &'static str {
    match result {
        Ok(_) => "committed",
        Err(error) => match error.db() {
            None => "refused",
            Some(Error::Unavailable(_) | Error::ReadOnly) => "unavailable",
            Some(Error::CommitUnknown(_)) => "unknown",
            Some(Error::Contention(_) | Error::Again) => "contention",
            Some(Error::Role { .. } | Error::Query(_)) => "failed",
        },
    }
}

/// Half fixed, half random, so that those who collided do not meet again. A command that saw newer
/// data looks again at once the first time: whoever was faster has committed already.
fn backoff(attempt: u32, lost: &Error) -> Duration {
    if attempt == 1 && matches!(lost, Error::Again) {
        return Duration::ZERO;
    }
    let full = BACKOFF_MIN
        .saturating_mul(1 << (attempt - 1).min(16))
        .min(BACKOFF_MAX);
    full.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let lost = Error::Contention(sqlx::Error::RowNotFound);
        assert_eq!(backoff(1, &Error::Again), Duration::ZERO);
        for attempt in 1..MAX_ATTEMPTS {
            let pause = backoff(attempt, &lost);
            assert!(
                pause >= BACKOFF_MIN / 2 && pause <= BACKOFF_MAX,
                "{attempt}: {pause:?}"
            );
        }
        assert!(backoff(MAX_ATTEMPTS, &lost) >= BACKOFF_MAX / 2);
    }
}
