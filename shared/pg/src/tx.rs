//! The transaction a command runs in.

use sqlx::postgres::PgConnection;
use sqlx::{Postgres, Transaction};

use crate::Error;

/// An open transaction. Dropped, it rolls back; only [`crate::Db::run`] commits one.
///
/// After a statement failed, the transaction is dead and every further statement fails, so a
/// command that meets an error returns it. A store that expects a failure writes a statement that
/// does not fail (`ON CONFLICT DO NOTHING`) instead of catching one.
#[derive(Debug)]
pub struct Tx<'c> {
    inner: Transaction<'c, Postgres>,
}

impl Tx<'_> {
    /// Returns the connection, to run a statement on.
    pub fn conn(&mut self) -> &mut PgConnection {
        &mut self.inner
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.inner.commit().await.map_err(Error::at_commit)
    }
}

impl<'c> From<Transaction<'c, Postgres>> for Tx<'c> {
    /// Takes over a transaction begun elsewhere, which is for tests: they hold two at a time.
    fn from(inner: Transaction<'c, Postgres>) -> Self {
        Self { inner }
    }
}
