//! The canonical form of documents and bindings, and their digests.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::model::{Binding, Document};

impl Document {
    /// Writes the document as JSON in one line: fields in a fixed order, defaults written out,
    /// bindings sorted by name. [`Document::parse`] reads it back to an equal document, and two
    /// documents are equal exactly when this text is.
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        json(self)
    }

    /// The SHA-256 of the canonical form.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_canonical_json()).into()
    }
}

/// The digest that an attempt pins of its binding (rule l01): executor, the revision of its
/// registration, settings. The first 16 bytes of a SHA-256 over canonical JSON, so it is the same
/// in every process and version that knows the same settings.
#[must_use]
pub fn binding_digest(
    executor: Option<&str>,
    registration_revision: i64,
    settings: &Binding,
) -> [u8; 16] {
    #[derive(Serialize)]
    struct Pinned<'a> {
        executor: Option<&'a str>,
        registration_revision: i64,
        settings: &'a Binding,
    }
    let digest = Sha256::digest(json(&Pinned {
        executor,
        registration_revision,
        settings,
    }));
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    short
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value)
        .expect("the model has text keys and finite numbers only, which JSON can always say")
}
