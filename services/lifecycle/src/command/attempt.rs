//! What the commands of an attempt share: find the live lease, or answer the repeat.

use uuid::Uuid;
use weir_kernel::content::ContentDigest;
use weir_kernel::{AttemptOutcome, TenantId};
use weir_pg::Tx;
use weir_work::{Held, Lease, check_lease, lock_one};

use super::{Ended, repeat};
use crate::Error;

/// What a request to end an attempt finds.
pub(super) enum Found {
    /// The live lease, under the Work lock.
    Live(Box<Held>),
    /// The attempt was ended by this very request: its answer.
    Ended(Ended),
}

/// Locks the Work and checks the lease (rule l02).
///
/// # Errors
/// `WORK_NOT_FOUND`, `LEASE_LOST`, `REQUEST_CONFLICT`.
pub(super) async fn find(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    lease: Lease,
    content: Uuid,
    outcomes: &[AttemptOutcome],
) -> Result<Found, Error> {
    match check_lease(lock_one(tx, tenant, lease.work).await?, lease) {
        Ok(held) => Ok(Found::Live(Box::new(held))),
        Err(_) => repeat::answer(tx, tenant, lease, content, outcomes)
            .await
            .map(Found::Ended),
    }
}

/// Digests the content of an ending request.
pub(super) fn content(method: &str, fields: &[(&str, &[u8])]) -> Uuid {
    let mut digest = ContentDigest::default();
    digest.field("method", method.as_bytes());
    for (name, value) in fields {
        digest.field(name, value);
    }
    digest.finish()
}
