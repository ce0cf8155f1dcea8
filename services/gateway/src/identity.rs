//! Who calls (rule o03).
//!
//! An identity kind reads the caller from a request's headers and nothing else. What a caller claims
//! about itself in `x-weir-*` metadata never travels on: it is removed, and what was verified is put
//! in its place.

use crate::Error;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use weir_kernel::Violation;
use weir_kernel::limits::{MAX_IDENTIFIER, identifier};
use weir_rpc::headers::{ACTOR, PERMISSIONS, TENANT};
use weir_runtime::Environment;

/// Actor of a development call that names none.
const DEVELOPER: &str = "developer";

/// How callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// Headers are believed: `x-weir-tenant` is required, `x-weir-actor` defaults to `developer`, and
    /// all permissions are held unless `x-weir-permissions` lists some. Only for development.
    Development,
}

/// An identity kind that the environment does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "identity `development` is only allowed with WEIR_ENVIRONMENT=Development; JWT identity comes \
     with a later version, so this version does not start in Production"
)]
pub struct IdentityNotAllowed;

impl Identity {
    /// Checks the kind against the environment.
    ///
    /// # Errors
    /// Development headers outside of development.
    pub fn allowed_in(self, environment: Environment) -> Result<(), IdentityNotAllowed> {
        match self {
            Self::Development if environment.is_development() => Ok(()),
            Self::Development => Err(IdentityNotAllowed),
        }
    }

    /// Reads the caller.
    ///
    /// # Errors
    /// Nobody is named, or a name breaks the rule for identifiers (rule a05).
    pub fn caller(self, headers: &HeaderMap) -> Result<Caller, Error> {
        match self {
            Self::Development => {
                let tenant = header(headers, TENANT)?.ok_or(Error::IdentityMissing(TENANT))?;
                let actor = header(headers, ACTOR)?.unwrap_or(DEVELOPER).to_owned();
                let permissions = match list(headers, PERMISSIONS)? {
                    Some(listed) => Permissions::Listed(listed),
                    None => Permissions::All,
                };
                Ok(Caller {
                    tenant: tenant.to_owned(),
                    actor,
                    permissions,
                })
            }
        }
    }
}

/// A verified caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Tenant, the first part of every key.
    pub tenant: String,
    /// Who acts, for records and audit.
    pub actor: String,
    /// What it may do.
    pub permissions: Permissions,
}

/// What a caller may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permissions {
    /// Everything.
    All,
    /// These, by name.
    Listed(BTreeSet<String>),
}

impl Permissions {
    /// Says whether a permission is held.
    #[must_use]
    pub fn hold(&self, permission: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(listed) => listed.contains(permission),
        }
    }

    /// Writes them as one header value: `*`, or names with commas between.
    #[must_use]
    pub fn to_list(&self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Listed(listed) => listed
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(","),
        }
    }
}

/// Reads one identifier from a header, refusing two: which of them counts must not be a matter of
/// who reads first.
fn header<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Error> {
    let invalid = |description: &str| Error::IdentityInvalid(Violation::new(name, description));
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(invalid("is given more than once"));
    }
    let value = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid("is not UTF-8"))?;
    identifier(name, value, MAX_IDENTIFIER).map_err(Error::IdentityInvalid)?;
    Ok(Some(value))
}

fn list(headers: &HeaderMap, name: &'static str) -> Result<Option<BTreeSet<String>>, Error> {
    let mut values = headers.get_all(name).iter().peekable();
    if values.peek().is_none() {
        return Ok(None);
    }
    let mut listed = BTreeSet::new();
    for value in values {
        let value = value
            .to_str()
            .map_err(|_| Error::IdentityInvalid(Violation::new(name, "is not plain ASCII")))?;
        listed.extend(
            value
                .split(',')
                .map(str::trim)
                .filter(|p| !p.is_empty())
                .map(str::to_owned),
        );
    }
    Ok(Some(listed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(pairs: &[(&'static str, &'static [u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value).expect("a value"));
        }
        map
    }

    #[test]
    fn o03_development_identity_is_for_exactly_development() {
        assert_eq!(
            Identity::Development.allowed_in(Environment::Development),
            Ok(())
        );
        for environment in [
            Environment::parse(None),
            Environment::parse(Some("development")),
        ] {
            let refused = Identity::Development
                .allowed_in(environment)
                .expect_err("refused");
            assert!(refused.to_string().contains("WEIR_ENVIRONMENT=Development"));
            assert!(!refused.to_string().contains('\n'));
        }
    }

    #[test]
    fn o03_a_call_without_tenant_is_nobodys() {
        let refused = Identity::Development
            .caller(&HeaderMap::new())
            .expect_err("nobody");
        assert_eq!(refused, Error::IdentityMissing("x-weir-tenant"));
        assert!(refused.to_string().contains("`x-weir-tenant`"));
    }

    #[test]
    fn a05_identity_headers_keep_the_rule_for_identifiers() {
        let long = Box::leak(vec![b'x'; 256].into_boxed_slice());
        for (bad, says) in [
            (vec![(TENANT, &b""[..])], "is required"),
            (vec![(TENANT, &long[..])], "is 256 bytes, the limit is 255"),
            (
                vec![(TENANT, b"a"), (TENANT, b"b")],
                "is given more than once",
            ),
            (vec![(TENANT, b"\xff")], "is not UTF-8"),
            (vec![(TENANT, b"a"), (ACTOR, b"a\tb")], "control character"),
        ] {
            let refused = Identity::Development
                .caller(&headers(&bad))
                .expect_err("refused");
            assert!(refused.to_string().contains(says), "{refused}");
        }
    }

    #[test]
    fn development_calls_hold_all_permissions_unless_some_are_listed() {
        let all = Identity::Development
            .caller(&headers(&[(TENANT, b"demo")]))
            .expect("known");
        assert_eq!(
            (all.actor.as_str(), all.permissions.to_list().as_str()),
            ("developer", "*")
        );
        let some = headers(&[
            (TENANT, b"demo"),
            (ACTOR, b"me"),
            (PERMISSIONS, b"work.read, events.read"),
        ]);
        let some = Identity::Development.caller(&some).expect("known");
        assert!(some.permissions.hold("work.read"));
        assert!(!some.permissions.hold("work.operate"));
        assert_eq!(some.permissions.to_list(), "events.read,work.read");
        let none = headers(&[(TENANT, b"demo"), (PERMISSIONS, b"")]);
        let none = Identity::Development.caller(&none).expect("known");
        assert!(!none.permissions.hold("work.read"));
    }
}
