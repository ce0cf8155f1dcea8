//! Who calls, as the gateway verified it.

use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Request, Status};
use weir_kernel::limits::{MAX_IDENTIFIER, identifier};

use crate::headers::{ACTOR, TENANT};
use crate::{Refusal, status};

/// A verified caller. Only meaningful behind [`crate::InternalAuth`]: whoever knows the token is
/// believed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The tenant's name.
    pub tenant: String,
    /// Who acts, for records and audit.
    pub actor: String,
}

impl Caller {
    /// Names a caller.
    pub fn new(tenant: impl Into<String>, actor: impl Into<String>) -> Self {
        Self {
            tenant: tenant.into(),
            actor: actor.into(),
        }
    }

    /// Reads the caller of a request.
    ///
    /// # Errors
    ///
    /// UNAUTHENTICATED with `CALLER_MISSING` when a name is absent, given twice or breaks the rule
    /// for identifiers (rule a05).
    pub fn from_request<T>(request: &Request<T>) -> Result<Self, Status> {
        Self::from_metadata(request.metadata())
    }

    /// Reads the caller from metadata.
    ///
    /// # Errors
    ///
    /// As [`Caller::from_request`].
    pub fn from_metadata(metadata: &MetadataMap) -> Result<Self, Status> {
        Ok(Self {
            tenant: name(metadata, TENANT)?,
            actor: name(metadata, ACTOR)?,
        })
    }

    /// Puts the caller into a request's metadata, over whatever is there.
    ///
    /// # Errors
    ///
    /// UNAUTHENTICATED with `CALLER_MISSING` when a name cannot be sent: it has a control character.
    pub fn attach(&self, metadata: &mut MetadataMap) -> Result<(), Status> {
        for (key, text) in [(TENANT, &self.tenant), (ACTOR, &self.actor)] {
            let value = MetadataValue::<Ascii>::try_from(text.as_bytes())
                .map_err(|_| status(Refusal::Caller(key)))?;
            metadata.insert(key, value);
        }
        Ok(())
    }

    /// Wraps a message in a request of this caller.
    ///
    /// # Errors
    ///
    /// As [`Caller::attach`].
    pub fn request<T>(&self, message: T) -> Result<Request<T>, Status> {
        let mut request = Request::new(message);
        self.attach(request.metadata_mut())?;
        Ok(request)
    }
}

/// Reads one identifier. Two values are refused: which of them counts must not be a matter of who
/// reads first. Identifiers are UTF-8, so the bytes are read and not the ASCII text.
fn name(metadata: &MetadataMap, key: &'static str) -> Result<String, Status> {
    let refuse = || status(Refusal::Caller(key));
    let mut values = metadata.get_all(key).iter();
    let value = values.next().ok_or_else(refuse)?;
    if values.next().is_some() {
        return Err(refuse());
    }
    let text = std::str::from_utf8(value.as_encoded_bytes()).map_err(|_| refuse())?;
    identifier(key, text, MAX_IDENTIFIER).map_err(|_| refuse())?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;

    #[test]
    fn o03_a_caller_travels_as_it_is() {
        let caller = Caller::new("demo", "zoë 100%");
        let request = caller.request(()).expect("both can be sent");
        assert_eq!(
            Caller::from_request(&request).expect("both are there"),
            caller
        );
    }

    #[test]
    fn o03_nobody_is_refused() {
        let refused = Caller::from_request(&Request::new(())).expect_err("nobody");
        assert_eq!(Problem::from(&refused).reason, "CALLER_MISSING");
        let mut twice = Caller::new("a", "b").request(()).expect("can be sent");
        twice
            .metadata_mut()
            .append(TENANT, MetadataValue::from_static("c"));
        assert!(Caller::from_request(&twice).is_err());
        assert!(Caller::new("a\n", "b").request(()).is_err());
    }
}
