//! The pool.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres, Transaction};
use tokio::sync::Mutex;

use crate::{Error, Tx};

/// A connection that lay idle for longer is tested before it is used. Younger ones are not: the
/// test is a round trip, and a busy pool would pay it with every transaction.
const TEST_AFTER_IDLE: Duration = Duration::from_secs(1);

/// How many prepared statements a connection keeps. A service has fewer.
const STATEMENT_CACHE: usize = 256;

/// The same through a pooler: less than the 200 that PgBouncer keeps by default, so that what this
/// side thinks is prepared is so on the other side too.
const STATEMENT_CACHE_POOLED: usize = 150;

/// A connection of the pool; dropping it gives it back.
pub type Conn = PoolConnection<Postgres>;

/// Where the database is and how it is used.
#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host:port/database`. Its `Debug` is redacted.
    pub url: String,
    /// The most connections of this process, besides one for the readiness probe. Default: 16.
    pub max_connections: u32,
    /// How long to wait for a connection. Default: 5 s, shorter than any deadline that a caller
    /// would set, so that the answer says what is wrong.
    pub acquire_timeout: Duration,
    /// Whether a transaction pooler stands before the server. It must keep track of prepared
    /// statements, as PgBouncer does since 1.21 with `max_prepared_statements` (on since 1.24): the
    /// driver names every statement that it prepares, also when told to keep none, and then never
    /// closes them. Default: false.
    pub transaction_pooler: bool,
    /// Shown in `pg_stat_activity`: which service it is.
    pub application_name: String,
}

impl Options {
    /// Makes the default options for a database and the name a service has there.
    pub fn new(url: impl Into<String>, application_name: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            max_connections: 16,
            acquire_timeout: Duration::from_secs(5),
            transaction_pooler: false,
            application_name: application_name.into(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &"redacted")
            .field("max_connections", &self.max_connections)
            .field("acquire_timeout", &self.acquire_timeout)
            .field("transaction_pooler", &self.transaction_pooler)
            .field("application_name", &self.application_name)
            .finish()
    }
}

/// A database, through a pool of connections. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    pub(crate) pool: PgPool,
    pub(crate) options: PgConnectOptions,
    /// The readiness probe's own connection: a busy pool is not an absent database.
    pub(crate) probe: Arc<Mutex<Option<PgConnection>>>,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Makes the pool without connecting: a service starts while its database is away, and says so
    /// by its readiness. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Only for a URL that is none; the error does not show the URL.
    pub fn open(wanted: &Options) -> Result<Self, Error> {
        let cache = if wanted.transaction_pooler {
            STATEMENT_CACHE_POOLED
        } else {
            STATEMENT_CACHE
        };
        let options = PgConnectOptions::from_str(&wanted.url)
            .map_err(Error::Query)?
            .application_name(&wanted.application_name)
            // Floats travel in binary; poolers refuse start-up parameters that they do not know.
            .extra_float_digits(None)
            .statement_cache_capacity(cache);
        let pool = PgPoolOptions::new()
            .max_connections(wanted.max_connections)
            .acquire_timeout(wanted.acquire_timeout)
            .idle_timeout(Duration::from_secs(300))
            .max_lifetime(Duration::from_secs(1800))
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > TEST_AFTER_IDLE {
                        return Ok(connection.ping().await.is_ok());
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(options.clone());
        Ok(Self {
            pool,
            options,
            probe: Arc::default(),
        })
    }

    /// Takes over a pool that a test's harness made.
    pub fn from_pool(pool: PgPool) -> Self {
        let options = pool.connect_options().as_ref().clone();
        Self {
            pool,
            options,
            probe: Arc::default(),
        }
    }

    /// Returns the pool, for what is no use case: maintenance and tests.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Takes a connection for one query or a few independent ones. Writes belong in a command.
    ///
    /// # Errors
    ///
    /// `DATABASE_UNAVAILABLE`.
    pub async fn acquire(&self) -> Result<Conn, Error> {
        self.pool.acquire().await.map_err(Error::at_begin)
    }

    /// Begins a read-only transaction on one snapshot, for queries that must agree with each other.
    /// Dropping it ends it.
    ///
    /// # Errors
    ///
    /// `DATABASE_UNAVAILABLE`.
    pub async fn snapshot(&self) -> Result<Tx<'static>, Error> {
        self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await
            .map(Tx::from)
    }

    /// Begins a transaction. Connections that the server closed since their last use are passed
    /// over: nothing has happened on them yet.
    pub(crate) async fn begin(
        &self,
        statement: &'static str,
    ) -> Result<Transaction<'static, Postgres>, Error> {
        let mut stale = self.pool.size();
        loop {
            match self.pool.begin_with(statement).await {
                Err(error) if stale > 0 && Error::is_connection_lost(&error) => stale -= 1,
                result => return result.map_err(Error::at_begin),
            }
        }
    }

    /// Closes the pool and waits until its connections are closed.
    pub async fn close(&self) {
        self.pool.close().await;
        if let Some(connection) = self.probe.lock().await.take() {
            // It goes away either way; a polite goodbye only spares the server's log a line.
            let _ = connection.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_never_shown() {
        let options = Options::new("postgres://u:hunter2@h/d", "weir");
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
