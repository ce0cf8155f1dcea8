//! A configuration that is not published, for traces (rule r45).
//!
//! What the tenant's configurations have named before keeps its number, so that the candidate decides on the state
//! that is there. A new name gets a provisional one, below zero, which no row has: a scope that only the candidate
//! has reads as empty. Nothing is written.

use std::collections::{HashMap, HashSet};

use weir_kernel::{BindingId, RouteId, ScopeId, TenantId};
use weir_pg::Tx;

use super::{Error, Generation, Names, load};
use crate::tenant::Compiled;

/// Number of a generation that is not published; publications count from 1.
pub const UNPUBLISHED: i64 = 0;
/// The tenant of a caller who has published nothing yet. No row has it: identities count from 1.
const NOBODY: TenantId = TenantId(0);

/// Makes a generation of a document that is not published. `tenant` is `None` before the first publication: then
/// there is no state.
///
/// # Errors
/// The database's.
pub async fn candidate(
    tx: &mut Tx<'_>,
    tenant: Option<TenantId>,
    tenant_name: &str,
    compiled: Compiled,
) -> Result<Generation, Error> {
    let mut names = match tenant {
        Some(tenant) => load::names(tx, tenant).await?,
        None => Names::default(),
    };
    let (tenant, tenant_name) = (tenant.unwrap_or(NOBODY), tenant_name.to_owned());
    // A large document has many effective entries, so this runs apart from the threads that serve others.
    let made = tokio::task::spawn_blocking(move || {
        number(&compiled, &mut names);
        load::place(tenant, tenant_name, UNPUBLISHED, compiled, names)
    });
    made.await.unwrap_or_else(|_| {
        Err(Error::Unusable {
            generation: UNPUBLISHED,
            problem: "the compiler failed".to_owned(),
        })
    })
}

/// Gives every scope, effective binding and effective route that has no number a provisional one.
fn number(compiled: &Compiled, names: &mut Names) {
    let mut free = (i32::MIN..0).rev();
    let mut next = || {
        free.next()
            .expect("the check of a document bounds its entries to some 100,000")
    };
    let scopes: HashMap<String, ScopeId> = names
        .scopes
        .iter()
        .map(|(id, name)| (name.clone(), *id))
        .collect();
    let bindings: HashSet<(ScopeId, String)> = names.bindings.values().cloned().collect();
    let routes: HashSet<(ScopeId, String)> = names.routes.values().cloned().collect();
    for scope in compiled.scopes() {
        let id = scopes.get(&scope.name).copied();
        let id = id.unwrap_or_else(|| ScopeId(next()));
        names.scopes.insert(id, scope.name.clone());
        for name in scope.bindings.keys() {
            let named = (id, name.clone());
            if !bindings.contains(&named) {
                names.bindings.insert(BindingId(next()), named);
            }
        }
        for route in &scope.routes {
            let named = (id, route.slot.clone());
            if !routes.contains(&named) {
                names.routes.insert(RouteId(next()), named);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::Document;

    const DOCUMENT: &str = r#"
scopes:
  - name: root
    bindings: { b: {}, new: {} }
    routes:
      - { slot: old, when: 'true', binding: b }
  - name: leaf
    parent: root
    routes:
      - { slot: added, when: 'true', binding: new }
"#;

    #[test]
    fn r45_known_names_keep_their_numbers_and_new_ones_get_numbers_that_no_row_has() {
        let document = Document::parse(DOCUMENT).expect("it reads");
        let compiled = Compiled::new(document).expect("it compiles");
        let mut names = Names::default();
        names.scopes.insert(ScopeId(7), "root".to_owned());
        names.scopes.insert(ScopeId(8), "gone".to_owned());
        names
            .bindings
            .insert(BindingId(3), (ScopeId(7), "b".to_owned()));
        names
            .routes
            .insert(RouteId(5), (ScopeId(7), "old".to_owned()));
        number(&compiled, &mut names);
        let made = load::place(NOBODY, "demo".to_owned(), UNPUBLISHED, compiled, names);
        let made = made.expect("every name has a number");
        let root = made.scope_id("root").expect("it is there");
        let leaf = made.scope_id("leaf").expect("it is there");
        assert_eq!(root, ScopeId(7));
        assert_eq!(made.binding_id(root, "b"), Some(BindingId(3)));
        assert_eq!(made.route_id(root, "old"), Some(RouteId(5)));
        assert_eq!(made.scope_name(ScopeId(8)), Some("gone"));
        assert_eq!(made.scope_id("gone"), None);
        let mut provisional = vec![
            made.binding_id(root, "new").expect("numbered").0,
            made.binding_id(leaf, "b").expect("numbered").0,
            made.binding_id(leaf, "new").expect("numbered").0,
        ];
        assert!(leaf.0 < 0 && provisional.iter().all(|n| *n < 0));
        provisional.sort_unstable();
        provisional.dedup();
        assert_eq!(provisional.len(), 3, "each has its own");
    }
}
