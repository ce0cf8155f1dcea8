//! The content digest of an event (rule a01): what makes two deliveries of one identity the same.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Builds the digest field by field. Every field is length-prefixed and tagged, so that no two
/// different contents can run into the same bytes.
#[derive(Clone)]
pub struct ContentDigest(Sha256);

impl Default for ContentDigest {
    fn default() -> Self {
        Self(Sha256::new_with_prefix(b"weir.content.v1\0"))
    }
}

impl ContentDigest {
    /// Adds a named field.
    pub fn field(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.0.update((name.len() as u64).to_be_bytes());
        self.0.update(name.as_bytes());
        self.0.update((value.len() as u64).to_be_bytes());
        self.0.update(value);
        self
    }

    /// Returns the first 128 bits of the SHA-256, in the sixteen bytes of a UUID column.
    #[must_use]
    pub fn finish(&self) -> Uuid {
        let digest = self.0.clone().finalize();
        let mut bytes = [0_u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        Uuid::from_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a01_fields_do_not_run_into_each_other() {
        let digest = |pairs: &[(&str, &str)]| {
            let mut d = ContentDigest::default();
            for (n, v) in pairs {
                d.field(n, v.as_bytes());
            }
            d.finish()
        };
        assert_ne!(digest(&[("a", "bc")]), digest(&[("ab", "c")]));
        assert_ne!(digest(&[("a", "b"), ("c", "d")]), digest(&[("a", "bcd")]));
        assert_eq!(digest(&[("a", "b")]), digest(&[("a", "b")]));
    }
}
