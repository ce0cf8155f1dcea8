//! The pool.

use std::fmt;
use std::ops::{Deref, DerefMut};
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

/// How many prepared statements a connection keeps. A service has fewer than a hundred.
const STATEMENT_CACHE: usize = 256;

/// Where the database is and how it is used.
#[derive(Clone)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`. Its `Debug` is redacted.
    pub url: String,
    /// The most connections of this process, besides one for the readiness probe. Default: 16.
    pub max_connections: u32,
    /// How long to wait for a connection. Default: 5 s, shorter than any deadline that a caller
    /// would set, so that the answer says what is wrong.
    pub acquire_timeout: Duration,
    /// Whether a transaction pooler (PgBouncer in transaction mode) stands before the server.
    /// Then no prepared statement outlives its transaction and [`Db::acquire`] opens a read-only
    /// transaction, because a statement and its execution could reach two servers otherwise.
    /// Default: false.
    pub transaction_pooler: bool,
    /// Shown in `pg_stat_activity`. Default: `weir`.
    pub application_name: String,
}

impl Settings {
    /// Makes the default settings for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            max_connections: 16,
            acquire_timeout: Duration::from_secs(5),
            transaction_pooler: false,
            application_name: "weir".to_owned(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
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
    transaction_pooler: bool,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl Db {
    /// Makes the pool without connecting: a service starts while its database is away, and says so
    /// by its readiness. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// Only for a URL that is none; the error does not show the URL.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let cache = if settings.transaction_pooler { 0 } else { STATEMENT_CACHE };
        let options = PgConnectOptions::from_str(&settings.url)
            .map_err(Error::Query)?
            .application_name(&settings.application_name)
            // Floats travel in binary; poolers refuse start-up parameters that they do not know.
            .extra_float_digits(None)
            .statement_cache_capacity(cache);
        let pool = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(settings.acquire_timeout)
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
        Ok(Self::assemble(pool, options, settings.transaction_pooler))
    }

    fn assemble(pool: PgPool, options: PgConnectOptions, transaction_pooler: bool) -> Self {
        Self { pool, options, probe: Arc::default(), transaction_pooler }
    }

    /// Takes over a pool that a test's harness made.
    pub fn from_pool(pool: PgPool) -> Self {
        let options = pool.connect_options().as_ref().clone();
        Self::assemble(pool, options, false)
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
        if self.transaction_pooler {
            return self.begin("BEGIN READ ONLY").await.map(|tx| Conn(Inner::Within(tx)));
        }
        let connection = self.pool.acquire().await.map_err(Error::at_begin)?;
        Ok(Conn(Inner::Bare(connection)))
    }

    /// Begins a read-only transaction on one snapshot, for queries that must agree with each other.
    /// Dropping it ends it.
    ///
    /// # Errors
    ///
    /// `DATABASE_UNAVAILABLE`.
    pub async fn snapshot(&self) -> Result<Tx<'static>, Error> {
        self.begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.map(Tx::from)
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

/// A connection of the pool; dropping it gives it back.
#[derive(Debug)]
pub struct Conn(Inner);

#[derive(Debug)]
enum Inner {
    Bare(PoolConnection<Postgres>),
    Within(Transaction<'static, Postgres>),
}

impl Deref for Conn {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match &self.0 {
            Inner::Bare(connection) => connection,
            Inner::Within(transaction) => transaction,
        }
    }
}

impl DerefMut for Conn {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match &mut self.0 {
            Inner::Bare(connection) => connection,
            Inner::Within(transaction) => transaction,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_never_shown() {
        let settings = Settings::new("postgres://u:hunter2@h/d");
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
