//! Reading without being able to write.

use std::sync::Arc;

use crate::{Db, Error, Tx};

/// The role, and the bounds that [`crate::Db::run`] gives its transactions too, in one round trip. All of it ends
/// with the transaction, so that a transaction pooler does no harm; and the role's name is a parameter.
const BECOME: &str = "SELECT set_config('role', $1, true), \
     set_config('idle_in_transaction_session_timeout', '30s', true), \
     set_config('statement_timeout', '30s', true)";

/// Opens transactions that can read and cannot write: READ ONLY, on one snapshot, and, where a role is named, with
/// that role's rights alone (rule r40). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    db: Db,
    role: Option<Arc<str>>,
}

impl Reader {
    /// Makes a reader over a database. `role` has no right to write; the service's user must be a member of it. An
    /// empty one is none: then READ ONLY alone protects.
    #[must_use]
    pub fn new(db: Db, role: &str) -> Self {
        let role = (!role.is_empty()).then(|| Arc::from(role));
        Self { db, role }
    }

    /// Begins a transaction: REPEATABLE READ, READ ONLY, under the role. Dropping it ends it, and with it the role.
    /// Safe to repeat.
    ///
    /// # Errors
    ///
    /// `DATABASE_UNAVAILABLE`; `READ_ROLE_UNUSABLE` when the role is missing or not for this user.
    pub async fn begin(&self) -> Result<Tx<'static>, Error> {
        let mut tx = self.db.snapshot().await?;
        if let Some(role) = &self.role {
            // A statement of its own, not part of BEGIN: a BEGIN that fails half-way would leave the connection in a
            // transaction that the driver knows nothing of.
            sqlx::query(BECOME)
                .bind(&**role)
                .execute(tx.conn())
                .await
                .map_err(|error| Error::at_role(role, error))?;
        }
        Ok(tx)
    }
}
