//! Opaque page tokens.
//!
//! A token is bound to its tenant, its list and its filter by a checksum, so that one from elsewhere is
//! refused instead of silently leaving rows out. It is no secret and grants nothing: whatever it says, only
//! the caller's own tenant is read.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use weir_kernel::{EventUid, TenantId};

use crate::Error;

const CHECKSUM: usize = 8;
const BODY: usize = 8 + 16 + 2;

/// The last row of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) minute: DateTime<Utc>,
    pub(super) root: Uuid,
    pub(super) code: i16,
}

/// Writes where a page ended.
pub(super) fn close(tenant: TenantId, filter: Option<EventUid>, at: Position) -> String {
    let mut body = Vec::with_capacity(BODY);
    body.extend_from_slice(&at.minute.timestamp_micros().to_be_bytes());
    body.extend_from_slice(at.root.as_bytes());
    body.extend_from_slice(&at.code.to_be_bytes());
    let sum = checksum(tenant, filter, &body);
    URL_SAFE_NO_PAD.encode([sum.as_slice(), &body].concat())
}

/// Reads where a page starts.
///
/// # Errors
/// `page_token` is not one that a page of this list answered.
pub(super) fn open(
    tenant: TenantId,
    filter: Option<EventUid>,
    token: &str,
) -> Result<Position, Error> {
    read(tenant, filter, token)
        .ok_or_else(|| Error::field("page_token", "is not one that a page of this list answered"))
}

fn read(tenant: TenantId, filter: Option<EventUid>, token: &str) -> Option<Position> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (sum, body) = bytes.split_first_chunk::<CHECKSUM>()?;
    if *sum != checksum(tenant, filter, body) {
        return None;
    }
    let (minute, rest) = body.split_first_chunk::<8>()?;
    let (root, code) = rest.split_first_chunk::<16>()?;
    Some(Position {
        minute: DateTime::from_timestamp_micros(i64::from_be_bytes(*minute))?,
        root: Uuid::from_bytes(*root),
        code: i16::from_be_bytes(code.try_into().ok()?),
    })
}

fn checksum(tenant: TenantId, filter: Option<EventUid>, body: &[u8]) -> [u8; CHECKSUM] {
    let filter = filter.map(|root| root.0).unwrap_or_default();
    let digest = Sha256::new_with_prefix(b"weir.causal.list_diagnostics.v1\0")
        .chain_update(tenant.0.to_be_bytes())
        .chain_update(filter.as_bytes())
        .chain_update(body)
        .finalize();
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&digest[..CHECKSUM]);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_only_for_its_tenant_and_filter() {
        let at = Position {
            minute: DateTime::from_timestamp(1_700_000_040, 0).expect("an instant"),
            root: Uuid::from_u128(7),
            code: 2,
        };
        let root = Some(EventUid(at.root));
        let token = close(TenantId(1), root, at);
        assert_eq!(open(TenantId(1), root, &token).expect("its own"), at);
        assert!(open(TenantId(2), root, &token).is_err());
        assert!(open(TenantId(1), None, &token).is_err());
        for wrong in ["x", "====", "AAAA", &token[1..]] {
            assert!(open(TenantId(1), root, wrong).is_err(), "{wrong}");
        }
    }
}
