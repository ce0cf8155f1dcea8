//! Publishing a configuration: the next generation of a tenant, in one transaction.
//!
//! The caller says which generation it believes to be current, and the publication counts only if
//! it is (compare-and-set), so that nobody overwrites what he has not seen. Under the tenant's
//! configuration lock, held exclusively to commit, no event is accepted and none decided; so a
//! decision is made by one generation and never by two halves.
//!
//! A document that equals the current one makes a new generation all the same: publishing is also
//! how an operator has failed and conflicting events tried again (rules r05, r22). Only a repeat with
//! the same request id answers the first result.
//!
//! # Interleavings considered
//! - *Two publishers, one expectation*: the second waits for the lock and then, in a statement of its
//!   own, reads the first one's number: GENERATION_CONFLICT.
//! - *Two first publications of one tenant*: the second waits for the first one's tenant row, finds
//!   it, takes the lock and sees that generation 1 is there.
//! - *The same request twice at once*: the second waits for the lock and finds the answer.

mod answer;
mod error;
mod numbers;
mod prepare;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use chrono::{DateTime, Utc};
use weir_kernel::TenantId;
use weir_kernel::content::ContentDigest;
use weir_kernel::limits::{MAX_IDENTIFIER, optional_identifier};
use weir_ledger::request::{self, RequestKey};
use weir_pg::locks::{Mode, lock_config};
use weir_pg::{Command, Tx};

use crate::tenant::Problem;

pub use error::Error;
pub use prepare::{Prepared, prepare, registration_warnings};

/// The method, as request ids are kept by.
const METHOD: &str = "weir.routing.v1.ConfigService/PublishConfig";

/// Publishes a prepared document.
#[derive(Debug)]
pub struct PublishConfig {
    tenant: String,
    actor: String,
    prepared: Prepared,
    expected: Option<i64>,
    request_id: String,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Its number.
    pub generation: i64,
    /// SHA-256 of the canonical document.
    pub digest: Vec<u8>,
    /// Who published it.
    pub actor: String,
    /// Database time.
    pub created_at: DateTime<Utc>,
    /// What will likely not work as meant.
    pub warnings: Vec<Problem>,
}

impl PublishConfig {
    /// Takes a document that [`prepare`] has found good. `expected` is the generation that is to be
    /// current, 0 for a tenant's first.
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a request id that breaks the rule for identifiers (rule a05) or a
    /// negative expectation.
    pub fn new(
        tenant: String,
        actor: String,
        prepared: Prepared,
        expected: Option<i64>,
        request_id: String,
    ) -> Result<Self, Error> {
        optional_identifier("request_id", &request_id, MAX_IDENTIFIER).map_err(Error::Field)?;
        if expected.is_some_and(|number| number < 0) {
            let text = "is negative; generations count from 1, and 0 means that there is none yet";
            return Err(Error::Field(weir_kernel::Violation::new(
                "expected_generation",
                text,
            )));
        }
        Ok(Self {
            tenant,
            actor,
            prepared,
            expected,
            request_id,
        })
    }

    fn request_key(&self, tenant: TenantId) -> RequestKey {
        let mut content = ContentDigest::default();
        content.field("document", self.prepared.text.as_bytes());
        if let Some(expected) = self.expected {
            content.field("expected_generation", &expected.to_be_bytes());
        }
        RequestKey {
            tenant,
            actor: self.actor.clone(),
            method: METHOD,
            request_id: self.request_id.clone(),
            content: content.finish(),
        }
    }
}

impl Command for PublishConfig {
    const NAME: &'static str = "routing.publish_config";
    type Output = Published;
    type Error = Error;

    async fn execute(&self, tx: &mut Tx<'_>) -> Result<Published, Error> {
        let tenant = match store::find_tenant(tx, &self.tenant).await? {
            Some(tenant) => tenant,
            // A tenant exists from its first publication. What cannot succeed makes no row.
            None => match self.expected {
                Some(0) => store::create_tenant(tx, &self.tenant).await?,
                Some(expected) => {
                    return Err(Error::Conflict {
                        expected,
                        current: 0,
                    });
                }
                None => return Err(Error::Expectation { current: 0 }),
            },
        };
        lock_config(tx, tenant, Mode::Exclusive).await?;
        let key = self.request_key(tenant);
        if let Some(stored) = request::find(tx, &key).await? {
            return answer::decode(&stored, &self.prepared.warnings);
        }
        let current = weir_ledger::tenant::generation(tx, tenant).await?;
        match self.expected {
            Some(expected) if expected == current => {}
            Some(expected) => return Err(Error::Conflict { expected, current }),
            None => return Err(Error::Expectation { current }),
        }
        let generation = current + 1;
        let created_at =
            store::insert_generation(tx, tenant, generation, &self.prepared, &self.actor).await?;
        let scopes = numbers::assign(tx, tenant, generation, &self.prepared.compiled).await?;
        store::insert_limits(tx, tenant, generation, &scopes).await?;
        store::insert_settings(tx, tenant, generation, &scopes).await?;
        store::advance(tx, tenant, generation).await?;
        let registration = registration_warnings(tx, Some(tenant), &self.prepared.compiled).await?;
        let warnings = self
            .prepared
            .warnings
            .iter()
            .chain(&registration)
            .cloned()
            .collect();
        let published = Published {
            generation,
            digest: self.prepared.digest.to_vec(),
            actor: self.actor.clone(),
            created_at,
            warnings,
        };
        request::remember(tx, &key, &answer::encode(&published, &registration)).await?;
        Ok(published)
    }
}
