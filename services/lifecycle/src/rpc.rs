//! The services: decode, run one command or query, encode.

mod claiming;
pub(crate) mod convert;
mod decode;
mod executor;
mod inspect;
mod park;
mod work;

pub(crate) use claiming::Claimer;
pub(crate) use executor::Executors;
pub(crate) use inspect::Inspect;
pub(crate) use work::Works;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use prost::Message;
use tonic::{Request, Status};
use weir_kernel::TenantId;
use weir_kernel::content::ContentDigest;
use weir_kernel::limits::{MAX_IDENTIFIER, optional_identifier};
use weir_ledger::request::RequestKey;
use weir_pg::Db;
use weir_rpc::Caller;

use crate::Error;

/// What every handler needs: the database, and the numbers of the tenants seen so far.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) db: Db,
    /// A tenant's number never changes, and only tenants that exist are kept.
    tenants: Arc<RwLock<HashMap<String, TenantId>>>,
}

impl Context {
    pub(crate) fn new(db: Db) -> Self {
        Self {
            db,
            tenants: Arc::default(),
        }
    }

    /// Resolves the verified caller of a request.
    ///
    /// # Errors
    /// `CALLER_MISSING`, `TENANT_NOT_FOUND`.
    pub(crate) async fn caller<T>(
        &self,
        request: Request<T>,
    ) -> Result<(TenantId, String, T), Status> {
        let caller = Caller::from_request(&request)?;
        let tenant = self
            .tenant(&caller.tenant)
            .await
            .map_err(weir_rpc::status)?;
        Ok((tenant, caller.actor, request.into_inner()))
    }

    async fn tenant(&self, name: &str) -> Result<TenantId, Error> {
        let known = self
            .tenants
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .copied();
        if let Some(tenant) = known {
            return Ok(tenant);
        }
        let (tenant, _) = weir_ledger::tenant::resolve(&self.db, name).await?;
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        tenants.insert(name.to_owned(), tenant);
        Ok(tenant)
    }
}

/// Makes the identity of a mutating request (rule o08). `request_id` is taken out of the message, so that
/// the digest covers everything else.
fn request_key(
    tenant: TenantId,
    actor: &str,
    method: &'static str,
    request_id: String,
    rest: &impl Message,
) -> Result<RequestKey, Error> {
    optional_identifier("request_id", &request_id, MAX_IDENTIFIER)?;
    let mut digest = ContentDigest::default();
    digest.field("request", &rest.encode_to_vec());
    let actor = actor.to_owned();
    Ok(RequestKey {
        tenant,
        actor,
        method,
        request_id,
        content: digest.finish(),
    })
}
