//! Numbers for names, the same ones over all generations.

use std::collections::HashMap;
use std::hash::Hash;

use sqlx::Row as _;
use weir_kernel::{BindingId, RouteId, ScopeId, TenantId};
use weir_pg::Tx;

use super::Error;
use crate::tenant::{Binding, Compiled, EffectiveScope};

/// A scope of the new generation with its numbers.
pub(super) struct Numbered<'a> {
    pub(super) id: ScopeId,
    pub(super) scope: &'a EffectiveScope,
    pub(super) bindings: Vec<(BindingId, &'a Binding)>,
}

/// Gives every scope, effective binding and effective route a number, the one it has or the next,
/// and marks the scopes as being in this generation. Scopes that are gone keep the mark of the last
/// generation that had them, and so accept nothing any more. The configuration lock makes the
/// highest number a safe place to go on from.
pub(super) async fn assign<'a>(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    generation: i64,
    compiled: &'a Compiled,
) -> Result<Vec<Numbered<'a>>, Error> {
    let names = compiled.scopes().map(|scope| scope.name.as_str());
    let mut scopes = Numbers::new(read_scopes(tx, tenant).await?);
    let ids: Vec<(ScopeId, &EffectiveScope)> = names
        .zip(compiled.scopes())
        .map(|(name, scope)| (ScopeId(scopes.of(name.to_owned())), scope))
        .collect();
    let (new_ids, new_names): (Vec<i32>, Vec<String>) = scopes.new.into_iter().unzip();
    sqlx::query(include_str!("sql/insert_scopes.sql"))
        .bind(tenant.0)
        .bind(generation)
        .bind(&new_ids)
        .bind(&new_names)
        .execute(tx.conn())
        .await?;
    let present: Vec<i32> = ids.iter().map(|(id, _)| id.0).collect();
    sqlx::query(include_str!("sql/mark_scopes.sql"))
        .bind(tenant.0)
        .bind(generation)
        .bind(&present)
        .execute(tx.conn())
        .await?;

    let read_bindings = "SELECT scope_id, name, binding_id FROM weir.binding WHERE tenant_id = $1";
    let mut bindings = Numbers::new(read_pairs(tx, tenant, read_bindings).await?);
    let read_routes = "SELECT scope_id, slot, route_id FROM weir.route WHERE tenant_id = $1";
    let mut routes = Numbers::new(read_pairs(tx, tenant, read_routes).await?);
    let mut numbered = Vec::with_capacity(ids.len());
    for (id, scope) in ids {
        let own = scope.bindings.iter();
        let own = own
            .map(|(name, binding)| (BindingId(bindings.of((id.0, name.clone()))), &**binding))
            .collect();
        for route in &scope.routes {
            // The record of an event names its route by this number.
            let _: RouteId = RouteId(routes.of((id.0, route.slot.clone())));
        }
        numbered.push(Numbered {
            id,
            scope,
            bindings: own,
        });
    }
    insert_pairs(
        tx,
        tenant,
        include_str!("sql/insert_bindings.sql"),
        bindings.new,
    )
    .await?;
    insert_pairs(
        tx,
        tenant,
        include_str!("sql/insert_routes.sql"),
        routes.new,
    )
    .await?;
    Ok(numbered)
}

/// What has a number, and what gets one.
struct Numbers<K> {
    known: HashMap<K, i32>,
    highest: i32,
    new: Vec<(i32, K)>,
}

impl<K: Hash + Eq + Clone> Numbers<K> {
    fn new(known: HashMap<K, i32>) -> Self {
        let highest = known.values().copied().max().unwrap_or(0);
        Self {
            known,
            highest,
            new: Vec::new(),
        }
    }

    fn of(&mut self, name: K) -> i32 {
        if let Some(number) = self.known.get(&name) {
            return *number;
        }
        self.highest += 1;
        self.known.insert(name.clone(), self.highest);
        self.new.push((self.highest, name));
        self.highest
    }
}

async fn read_scopes(tx: &mut Tx<'_>, tenant: TenantId) -> Result<HashMap<String, i32>, Error> {
    let rows = sqlx::query("SELECT name, scope_id FROM weir.scope WHERE tenant_id = $1")
        .bind(tenant.0)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
        .collect()
}

async fn read_pairs(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    statement: &'static str,
) -> Result<HashMap<(i32, String), i32>, Error> {
    let rows = sqlx::query(statement)
        .bind(tenant.0)
        .fetch_all(tx.conn())
        .await?;
    rows.into_iter()
        .map(|row| Ok(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?)))
        .collect()
}

async fn insert_pairs(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    statement: &'static str,
    new: Vec<(i32, (i32, String))>,
) -> Result<(), Error> {
    if new.is_empty() {
        return Ok(());
    }
    let ids: Vec<i32> = new.iter().map(|(id, _)| *id).collect();
    let (scopes, names): (Vec<i32>, Vec<String>) = new.into_iter().map(|(_, pair)| pair).unzip();
    sqlx::query(statement)
        .bind(tenant.0)
        .bind(&ids)
        .bind(&scopes)
        .bind(&names)
        .execute(tx.conn())
        .await?;
    Ok(())
}
