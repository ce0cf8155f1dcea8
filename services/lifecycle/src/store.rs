//! SQL of this service, one statement a function. It decides nothing.
//!
//! What changes a Work in one commit with other contexts stands in `weir_work`.

mod claim;
mod control;
mod event;

pub(crate) use claim::{ClaimedRow, Lane, LaneQuota, claim_works, list_queued_lanes, read_lanes};
pub(crate) use control::{
    find_binding, find_owned_key, find_wait_of, read_place, read_scope_of, require_works,
};
pub(crate) use event::{StoredEvent, read_events, read_keys};
