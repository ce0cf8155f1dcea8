//! Opaque tokens: where a list or a stream goes on.
//!
//! A token is bound to its tenant, its method and its filter by a checksum over all of them, so that
//! one from elsewhere is refused instead of silently leaving events out. It is no secret and grants
//! nothing: whatever it says, only the caller's own tenant is read.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use weir_kernel::TenantId;

use super::Error;

const VERSION: u8 = 1;
const CHECKSUM: usize = 8;

/// What a token is bound to.
#[derive(Debug, Clone)]
pub struct Seal {
    /// The request's field, for errors.
    field: &'static str,
    bound: Sha256,
}

impl Seal {
    /// Binds tokens to a method, a tenant and a filter. `field` is the request's field that takes
    /// them.
    #[must_use]
    pub fn new(
        method: &'static str,
        field: &'static str,
        tenant: TenantId,
        filter: &[&str],
    ) -> Self {
        let mut bound = Sha256::new_with_prefix(b"weir.token.v1\0");
        bound.update(tenant.0.to_be_bytes());
        for part in std::iter::once(&method).chain(filter) {
            bound.update((part.len() as u64).to_be_bytes());
            bound.update(part.as_bytes());
        }
        Self { field, bound }
    }

    fn checksum(&self, body: &[u8]) -> [u8; CHECKSUM] {
        let digest = self.bound.clone().chain_update(body).finalize();
        let mut checksum = [0; CHECKSUM];
        checksum.copy_from_slice(&digest[..CHECKSUM]);
        checksum
    }

    pub(super) fn close(&self, body: &Writer) -> String {
        let checksum = self.checksum(&body.0);
        URL_SAFE_NO_PAD.encode([&[VERSION], checksum.as_slice(), &body.0].concat())
    }

    /// Opens a token and reads it to its end.
    pub(super) fn open<T>(
        &self,
        token: &str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let refuse = || Error::PageToken(self.field);
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
        let Some((&VERSION, rest)) = bytes.split_first() else {
            return Err(refuse());
        };
        let (checksum, body) = rest.split_at_checked(CHECKSUM).ok_or_else(refuse)?;
        if checksum != self.checksum(body) {
            return Err(refuse());
        }
        let mut reader = Reader {
            rest: body,
            field: self.field,
        };
        let value = read(&mut reader)?;
        if reader.rest.is_empty() {
            Ok(value)
        } else {
            Err(refuse())
        }
    }
}

/// The body of a token being written.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(super) fn uuid(&mut self, value: Uuid) {
        self.0.extend_from_slice(value.as_bytes());
    }
}

/// The body of a token being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    field: &'static str,
}

impl Reader<'_> {
    pub(super) fn refuse(&self) -> Error {
        Error::PageToken(self.field)
    }

    pub(super) fn number(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(|| self.refuse())?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.refuse())
    }

    pub(super) fn int8(&mut self) -> Result<i64, Error> {
        let value = self.number()?;
        i64::try_from(value).map_err(|_| self.refuse())
    }

    pub(super) fn int4(&mut self) -> Result<i32, Error> {
        let value = self.number()?;
        i32::try_from(value).map_err(|_| self.refuse())
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, Error> {
        let (bytes, rest) = self
            .rest
            .split_first_chunk::<16>()
            .ok_or_else(|| self.refuse())?;
        self.rest = rest;
        Ok(Uuid::from_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use weir_kernel::{Classify as _, ScopeId};

    use super::*;
    use crate::query::position::{Position, Vector};

    fn vector() -> Vector {
        let mut vector = Vector::default();
        for (scope, seq) in [(1, 7), (300, i64::MAX >> 8), (i32::MAX, 0)] {
            let at = DateTime::from_timestamp_micros(1_700_000_000_123_456).expect("an instant");
            vector.set(ScopeId(scope), Position { seq, at });
        }
        vector
    }

    #[test]
    fn r19_a_token_opens_only_for_its_tenant_method_and_filter() {
        let seal =
            |tenant, method, filter| Seal::new(method, "page_token", TenantId(tenant), &[filter]);
        let mut body = Writer::default();
        vector().write(&mut body);
        let token = seal(1, "list", "a").close(&body);
        assert_eq!(
            seal(1, "list", "a")
                .open(&token, Vector::read)
                .expect("its own"),
            vector()
        );
        for other in [
            seal(2, "list", "a"),
            seal(1, "watch", "a"),
            seal(1, "list", "b"),
        ] {
            let refused = other.open(&token, Vector::read).expect_err("not its own");
            assert_eq!(refused.reason(), "PAGE_TOKEN_INVALID");
        }
    }

    #[test]
    fn r19_what_is_no_token_is_refused() {
        let seal = Seal::new("list", "page_token", TenantId(1), &[]);
        let mut body = Writer::default();
        vector().write(&mut body);
        body.number(0);
        let longer = seal.close(&body);
        let short = seal.close(&Writer::default());
        for token in ["", "x", "====", "AQ", &longer, &short, &"A".repeat(5_000)] {
            assert!(seal.open(token, Vector::read).is_err(), "{token}");
        }
    }
}
