//! Renew: the lease is extended, and the attempt learns what it is asked.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;
use weir_kernel::{AttemptOutcome, EventUid, IntentKind, TenantId};
use weir_pg::{Command, Tx};
use weir_work::Lease;

use crate::Error;
use crate::store::{StoredEvent, read_events};

/// Extends a live lease (rule l03). Takes no Work lock: routing of the Work goes on meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Renew {
    /// Tenant.
    pub(crate) tenant: TenantId,
    /// The lease.
    pub(crate) lease: Lease,
    /// Duration from now; the claimed one when `None`.
    pub(crate) extend: Option<Duration>,
}

/// What a renewal answers.
#[derive(Debug)]
pub(crate) enum Renewal {
    /// The lease holds.
    Extended {
        /// Until when.
        until: DateTime<Utc>,
        /// Events to inject, in queue order.
        injects: Vec<StoredEvent>,
        /// Events that interrupt, in queue order.
        interrupts: Vec<StoredEvent>,
    },
    /// The Work was cancelled; the lease is gone.
    Cancelled,
}

impl Command for Renew {
    const NAME: &'static str = "lifecycle.renew";
    type Output = Renewal;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Renewal, Error> {
        let extend = self
            .extend
            .map(|extend| i64::try_from(extend.as_millis()).unwrap_or(i64::MAX));
        let found: Option<(Option<DateTime<Utc>>,)> =
            sqlx::query_as(include_str!("../store/renew_lease.sql"))
                .bind(self.tenant.0)
                .bind(self.lease.work.0)
                .bind(self.lease.attempt)
                .bind(self.lease.epoch)
                .bind(extend)
                .fetch_optional(tx.conn())
                .await?;
        let Some((until,)) = found else {
            return Err(weir_work::Error::WorkNotFound(self.lease.work).into());
        };
        let Some(until) = until else {
            return self.explain(tx).await;
        };
        let (injects, interrupts) = self.offers(tx).await?;
        Ok(Renewal::Extended {
            until,
            injects,
            interrupts,
        })
    }
}

impl Renew {
    /// Offers the open intents of this epoch (rule r09).
    async fn offers(&self, tx: &mut Tx<'_>) -> Result<(Vec<StoredEvent>, Vec<StoredEvent>), Error> {
        let rows: Vec<(Uuid, i16)> = sqlx::query_as(include_str!("../store/offer_intents.sql"))
            .bind(self.tenant.0)
            .bind(self.lease.work.0)
            .bind(self.lease.epoch)
            .fetch_all(tx.conn())
            .await?;
        if rows.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let uids: Vec<EventUid> = rows.iter().map(|(uid, _)| EventUid(*uid)).collect();
        let events: HashMap<EventUid, StoredEvent> =
            read_events(tx.conn(), self.tenant, &uids).await?;
        let of = |wanted: IntentKind| {
            rows.iter()
                .filter(|(_, kind)| *kind == wanted.code())
                .filter_map(|(uid, _)| events.get(&EventUid(*uid)).cloned())
                .collect()
        };
        Ok((of(IntentKind::Inject), of(IntentKind::Interrupt)))
    }

    /// Says why the lease does not hold.
    async fn explain(&self, tx: &mut Tx<'_>) -> Result<Renewal, Error> {
        let cancelled: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM weir.attempt WHERE tenant_id = $1 AND work_id = $2 \
                 AND number = $3 AND epoch = $4 AND outcome = $5)",
        )
        .bind(self.tenant.0)
        .bind(self.lease.work.0)
        .bind(self.lease.attempt)
        .bind(self.lease.epoch)
        .bind(AttemptOutcome::Cancelled.code())
        .fetch_one(tx.conn())
        .await?;
        if cancelled {
            return Ok(Renewal::Cancelled);
        }
        Err(weir_work::Error::LeaseLost(self.lease.work).into())
    }
}
