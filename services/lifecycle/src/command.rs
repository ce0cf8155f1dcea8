//! The use cases: one struct, one transaction, and what it decides in the order of the rules.
//!
//! Lock order, as everywhere: configuration lock (shared), scope order lock, Work rows, ready rows, the
//! control event's identity, keys, the request id's row. A claim takes ready rows with SKIP LOCKED only.

mod acknowledge;
mod attempt;
mod cancel_work;
mod claim;
mod complete;
mod create_work;
mod fail;
mod hold_exhausted;
mod housekeeping;
mod park;
mod register_executor;
mod release;
mod release_work;
mod renew;
mod repeat;
mod send_input;

pub(crate) use acknowledge::Acknowledge;
pub(crate) use cancel_work::CancelWork;
pub(crate) use claim::{Claim, ClaimSpec, Claimed};
pub(crate) use complete::Complete;
pub(crate) use create_work::CreateWork;
pub(crate) use fail::{Fail, Failure};
pub(crate) use hold_exhausted::HoldExhausted;
pub(crate) use housekeeping::{ForgetRequests, MakePartitions};
pub(crate) use park::{LONGEST_WAIT, Park, Parked};
pub(crate) use register_executor::RegisterExecutor;
pub(crate) use release::Release;
pub(crate) use release_work::ReleaseWork;
pub(crate) use renew::{Renew, Renewal};
pub(crate) use send_input::SendInput;

use chrono::{DateTime, Utc};
use weir_kernel::WorkState;
use weir_ledger::request::{self, RequestKey};
use weir_pg::Tx;

use crate::Error;

/// Returns the answer of an earlier request with this id (rule o08).
async fn answered<M: prost::Message + Default>(
    tx: &mut Tx<'_>,
    key: &RequestKey,
) -> Result<Option<M>, Error> {
    let stored = request::find(tx, key).await?;
    Ok(stored
        .map(|stored| M::decode(stored.as_slice()))
        .transpose()?)
}

/// What the end of an attempt is answered; a repeat is answered the same (rule o08).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Where the Work stands.
    pub(crate) state: WorkState,
    /// When it is tried next.
    pub(crate) at: Option<DateTime<Utc>>,
}
