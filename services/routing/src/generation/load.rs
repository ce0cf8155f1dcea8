//! From stored rows to a generation ready for use.

use std::collections::HashMap;

use sqlx::Row as _;
use weir_kernel::{BindingId, RouteId, ScopeId, TenantId};
use weir_pg::{Db, Tx};

use super::{BindingSettings, Error, Generation, Names, ScopeEntry};
use crate::tenant::{Compiled, Document};

/// What is read of a tenant: one document and all names that ever had a number.
struct Stored {
    document: String,
    names: Names,
}

/// Reads and compiles one generation of a tenant. Compiling may take long for a large document, so
/// it does not run on a thread that serves others.
pub(super) async fn load(
    db: &Db,
    tenant: TenantId,
    name: &str,
    number: i64,
) -> Result<Generation, Error> {
    // One snapshot: a publication while this reads brings either all of its names or none.
    let mut tx = db.snapshot().await?;
    let stored = read(&mut tx, tenant, number).await?;
    drop(tx);
    compile(tenant, name, number, stored).await
}

/// The same in a transaction that is open already, which sees one snapshot.
pub(super) async fn load_in(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    name: &str,
    number: i64,
) -> Result<Generation, Error> {
    let stored = read(tx, tenant, number).await?;
    compile(tenant, name, number, stored).await
}

async fn read(tx: &mut Tx<'_>, tenant: TenantId, number: i64) -> Result<Stored, Error> {
    let document: String = sqlx::query_scalar(
        "SELECT document FROM weir.generation WHERE tenant_id = $1 AND generation = $2",
    )
    .bind(tenant.0)
    .bind(number)
    .fetch_one(tx.conn())
    .await?;
    Ok(Stored {
        document,
        names: names(tx, tenant).await?,
    })
}

async fn compile(
    tenant: TenantId,
    name: &str,
    number: i64,
    stored: Stored,
) -> Result<Generation, Error> {
    let name = name.to_owned();
    tokio::task::spawn_blocking(move || assemble(tenant, name, number, stored))
        .await
        .unwrap_or_else(|_| {
            // The compiler panicked; the hook has logged where. The document counts as unusable.
            Err(Error::Unusable {
                generation: number,
                problem: "the compiler failed".to_owned(),
            })
        })
}

pub(super) async fn names(tx: &mut Tx<'_>, tenant: TenantId) -> Result<Names, Error> {
    let mut names = Names::default();
    let rows = sqlx::query("SELECT scope_id, name FROM weir.scope WHERE tenant_id = $1")
        .bind(tenant.0)
        .fetch_all(tx.conn())
        .await?;
    for row in rows {
        names
            .scopes
            .insert(ScopeId(row.try_get(0)?), row.try_get(1)?);
    }
    let rows =
        sqlx::query("SELECT binding_id, scope_id, name FROM weir.binding WHERE tenant_id = $1")
            .bind(tenant.0)
            .fetch_all(tx.conn())
            .await?;
    for row in rows {
        names.bindings.insert(
            BindingId(row.try_get(0)?),
            (ScopeId(row.try_get(1)?), row.try_get(2)?),
        );
    }
    let rows = sqlx::query("SELECT route_id, scope_id, slot FROM weir.route WHERE tenant_id = $1")
        .bind(tenant.0)
        .fetch_all(tx.conn())
        .await?;
    for row in rows {
        names.routes.insert(
            RouteId(row.try_get(0)?),
            (ScopeId(row.try_get(1)?), row.try_get(2)?),
        );
    }
    Ok(names)
}

fn assemble(
    tenant: TenantId,
    tenant_name: String,
    number: i64,
    stored: Stored,
) -> Result<Generation, Error> {
    let compiled = Document::parse(&stored.document)
        .and_then(Compiled::new)
        .map_err(|problems| {
            let first = problems.iter().find(|p| p.is_error());
            Error::Unusable {
                generation: number,
                problem: first.map(ToString::to_string).unwrap_or_default(),
            }
        })?;
    place(tenant, tenant_name, number, compiled, stored.names)
}

/// Puts the numbers of names to a compiled document.
pub(super) fn place(
    tenant: TenantId,
    tenant_name: String,
    number: i64,
    compiled: Compiled,
    names: Names,
) -> Result<Generation, Error> {
    let numberless = |what, name: &str| Error::Numberless {
        generation: number,
        what,
        name: name.to_owned(),
    };
    let all_scopes: HashMap<&str, ScopeId> = names
        .scopes
        .iter()
        .map(|(id, name)| (name.as_str(), *id))
        .collect();
    let all_bindings: HashMap<(ScopeId, &str), BindingId> = names
        .bindings
        .iter()
        .map(|(id, (scope, name))| ((*scope, name.as_str()), *id))
        .collect();
    let all_routes: HashMap<(ScopeId, &str), RouteId> = names
        .routes
        .iter()
        .map(|(id, (scope, slot))| ((*scope, slot.as_str()), *id))
        .collect();
    let (mut scopes, mut scope_ids) = (HashMap::new(), HashMap::new());
    for scope in compiled.scopes() {
        let id = *all_scopes
            .get(scope.name.as_str())
            .ok_or_else(|| numberless("scope", &scope.name))?;
        let mut entry = ScopeEntry::default();
        for (name, binding) in &scope.bindings {
            let number = all_bindings
                .get(&(id, name.as_str()))
                .ok_or_else(|| numberless("binding", name))?;
            entry
                .bindings
                .insert(name.clone(), (*number, BindingSettings::of(binding)));
        }
        for route in &scope.routes {
            let number = all_routes
                .get(&(id, route.slot.as_str()))
                .ok_or_else(|| numberless("route", &route.slot))?;
            entry.routes.insert(route.slot.clone(), *number);
        }
        scope_ids.insert(scope.name.clone(), id);
        scopes.insert(id, entry);
    }
    Ok(Generation {
        tenant,
        tenant_name,
        number,
        compiled,
        scopes,
        scope_ids,
        names,
    })
}
