//! GitHub's signature: HMAC-SHA256 over the body as it came.

use hmac::{Hmac, Mac as _};
use sha2::Sha256;

/// Header that carries it.
pub(crate) const HEADER: &str = "x-hub-signature-256";

/// Says whether a signature like `sha256=<hex>` fits the body. The comparison takes the same time
/// wherever the first difference is.
pub(crate) fn fits(secret: &[u8], body: &[u8], signature: &[u8]) -> bool {
    let mut given = [0_u8; 32];
    let well_formed = signature
        .strip_prefix(b"sha256=")
        .is_some_and(|digits| hex::decode_to_slice(digits, &mut given).is_ok());
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
    mac.update(body);
    mac.verify_slice(&given).is_ok() && well_formed
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of GitHub's documentation.
    const SECRET: &[u8] = b"It's a Secret to Everybody";
    const BODY: &[u8] = b"Hello, World!";
    const SIGNATURE: &[u8] =
        b"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn a_signature_fits_only_its_body_and_secret() {
        assert!(fits(SECRET, BODY, SIGNATURE));
        assert!(!fits(SECRET, b"Hello, World", SIGNATURE));
        assert!(!fits(b"other", BODY, SIGNATURE));
        for broken in [
            &b""[..],
            b"sha256=",
            b"sha1=00",
            &SIGNATURE[7..],
            &SIGNATURE[..70],
        ] {
            assert!(!fits(SECRET, BODY, broken), "{broken:?}");
        }
    }
}
