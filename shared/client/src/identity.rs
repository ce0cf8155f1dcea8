//! Who is calling.

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};
use weir_rpc::headers::{ACTOR, TENANT};

/// Who calls, as it is attached to every call.
///
/// With a token, the gateway takes tenant and actor from it and the other two are not sent: a
/// production gateway replaces what a caller claims of itself (rule o03). `Debug` hides the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the tenant, for a gateway in development.
    pub tenant: String,
    /// Who acts, for a gateway in development.
    pub actor: String,
    /// Bearer token, for every other gateway.
    pub token: Option<String>,
}

impl Identity {
    /// Names tenant and actor to a gateway in development.
    pub fn development(tenant: impl Into<String>, actor: impl Into<String>) -> Self {
        Self {
            tenant: tenant.into(),
            actor: actor.into(),
            token: None,
        }
    }

    /// Presents a token, which names tenant and actor.
    pub fn token(token: impl Into<String>) -> Self {
        Self {
            tenant: String::new(),
            actor: String::new(),
            token: Some(token.into()),
        }
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("tenant", &self.tenant)
            .field("actor", &self.actor)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}

/// An identity that cannot travel as metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {part} has characters that a header cannot carry: only printable ASCII is possible")]
pub struct InvalidIdentity {
    part: &'static str,
}

/// The interceptor that attaches an identity.
#[derive(Clone)]
pub struct Attach {
    headers: Vec<(&'static str, MetadataValue<Ascii>)>,
}

impl Attach {
    pub(crate) fn new(identity: &Identity) -> Result<Self, InvalidIdentity> {
        let value = |part: &'static str, text: &str| {
            MetadataValue::try_from(text).map_err(|_| InvalidIdentity { part })
        };
        let headers = match &identity.token {
            Some(token) => {
                let mut header = value("token", &format!("Bearer {token}"))?;
                header.set_sensitive(true);
                vec![("authorization", header)]
            }
            None => vec![
                (TENANT, value("tenant", &identity.tenant)?),
                (ACTOR, value("actor", &identity.actor)?),
            ],
        };
        Ok(Self { headers })
    }
}

impl Interceptor for Attach {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in &self.headers {
            request.metadata_mut().insert(*name, value.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(identity: &Identity) -> Request<()> {
        let mut attach = Attach::new(identity).expect("a plain identity");
        attach
            .call(Request::new(()))
            .expect("attaching cannot fail")
    }

    #[test]
    fn o03_a_token_replaces_the_development_headers() {
        let request = attached(&Identity::development("demo", "me"));
        assert_eq!(request.metadata().get(TENANT).expect("a tenant"), "demo");
        assert_eq!(request.metadata().get(ACTOR).expect("an actor"), "me");

        let mut identity = Identity::development("demo", "me");
        identity.token = Some("abc".to_owned());
        let request = attached(&identity);
        assert_eq!(
            request.metadata().get("authorization").expect("a token"),
            "Bearer abc"
        );
        assert!(request.metadata().get(TENANT).is_none());
    }

    #[test]
    fn o05_debug_hides_the_token() {
        assert!(!format!("{:?}", Identity::token("s3cret")).contains("s3cret"));
    }

    #[test]
    fn an_identity_that_no_header_can_carry_is_refused() {
        let error = Attach::new(&Identity::development("demo", "zoë\n"))
            .err()
            .expect("a line break");
        assert!(error.to_string().starts_with("the actor has"), "{error}");
    }
}
