//! A transaction that stands still.

use sqlx::{Connection as _, PgConnection, SqlSafeStr};
use weir_kernel::{ScopeId, TenantId};
use weir_pg::locks::{config_key, scope_key};

/// An open transaction on a session of its own, which keeps the locks that it takes. Dropping it
/// ends the session, and the server rolls back soon after; [`Hold::release`] waits for that.
#[derive(Debug)]
pub struct Hold {
    connection: PgConnection,
}

impl Hold {
    pub(crate) async fn begin(mut connection: PgConnection) -> Hold {
        sqlx::raw_sql("BEGIN")
            .execute(&mut connection)
            .await
            .expect("the test server answers");
        Hold { connection }
    }

    /// The session, inside its transaction.
    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Runs a statement, for the locks that it takes.
    ///
    /// # Panics
    /// When the statement fails.
    pub async fn run(&mut self, statement: impl SqlSafeStr) -> &mut Self {
        sqlx::raw_sql(statement)
            .execute(&mut self.connection)
            .await
            .expect("the statement is right");
        self
    }

    /// Takes a scope's order lock, so that nobody appends to the scope or attaches a key in it.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn hold_scope_order(&mut self, tenant: TenantId, scope: ScopeId) -> &mut Self {
        self.advisory(scope_key(tenant, scope)).await
    }

    /// Takes a tenant's configuration lock, so that nobody accepts, decides or publishes for it.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn hold_config(&mut self, tenant: TenantId) -> &mut Self {
        self.advisory(config_key(tenant)).await
    }

    async fn advisory(&mut self, key: i64) -> &mut Self {
        let lock = sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(key)
            .execute(&mut self.connection);
        lock.await.expect("the test server answers");
        self
    }

    /// Rolls back, which frees the locks, and returns when that is done.
    ///
    /// # Panics
    /// When the session was ended meanwhile.
    pub async fn release(self) {
        self.end("ROLLBACK").await;
    }

    /// Commits, which frees the locks, and returns when that is done.
    ///
    /// # Panics
    /// When the session was ended meanwhile or the commit fails.
    pub async fn commit(self) {
        self.end("COMMIT").await;
    }

    async fn end(mut self, statement: &'static str) {
        sqlx::raw_sql(statement)
            .execute(&mut self.connection)
            .await
            .expect("the session is still there");
        self.connection
            .close()
            .await
            .expect("the session is still there");
    }
}
