//! The connection of a look-up during evaluation.

use sqlx::PgConnection;
use weir_pg::{Conn, Error, Tx};

use crate::route::evaluate::Context;

/// A connection to look something up on while a group is evaluated. Keep it for the look-up only.
#[derive(Debug)]
pub enum Lookup {
    /// Routing's: any connection of the pool.
    Any(Conn),
    /// A trace's: it cannot write (rule r40).
    ReadOnly(Tx<'static>),
}

impl Lookup {
    /// Returns the connection, to run a statement on.
    pub fn conn(&mut self) -> &mut PgConnection {
        match self {
            Self::Any(conn) => conn,
            Self::ReadOnly(tx) => tx.conn(),
        }
    }
}

impl Context {
    /// Takes a connection for a look-up. With `dry_run`, for a trace, it is a transaction that cannot write.
    ///
    /// # Errors
    /// `DATABASE_UNAVAILABLE`; with `dry_run` also `READ_ROLE_UNUSABLE`.
    pub async fn look_up(&self, dry_run: bool) -> Result<Lookup, Error> {
        if dry_run {
            return self.reader.begin().await.map(Lookup::ReadOnly);
        }
        self.db.acquire().await.map(Lookup::Any)
    }
}
