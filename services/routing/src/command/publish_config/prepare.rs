//! Checking a document before any transaction.

use std::collections::{BTreeMap, HashMap};

use weir_kernel::TenantId;
use weir_pg::Tx;

use super::Error;
use crate::generation::{Registration, bit, registrations};
use crate::tenant::{Binding, Compiled, Document, Problem, Severity};

/// Reason of a warning: the executor never registered.
pub(super) const NO_EXECUTOR: &str = "executor_not_registered";
/// Reason of a warning: the executor registered without a capability that the binding claims.
pub(super) const NO_CAPABILITY: &str = "capability_not_registered";

/// A document that may be published.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// As its author wrote it.
    pub text: String,
    /// SHA-256 of the canonical form.
    pub digest: [u8; 32],
    /// Compiled.
    pub compiled: Compiled,
    /// What will likely not work as meant, as far as the document alone says.
    pub warnings: Vec<Problem>,
}

/// Checks and compiles a document. A large one takes a while, so this runs apart from the threads
/// that serve others.
///
/// # Errors
/// CONFIG_INVALID with every problem.
pub async fn prepare(text: String) -> Result<Prepared, Error> {
    tokio::task::spawn_blocking(move || read(text))
        .await
        .unwrap_or_else(|_| {
            // The compiler panicked; the hook has logged where.
            Err(Error::Invalid(vec![whole(
                "the document brings the compiler down",
                "compiler_failed",
            )]))
        })
}

fn read(text: String) -> Result<Prepared, Error> {
    // The store keeps text, and text has no NUL.
    if text.contains('\0') {
        return Err(Error::Invalid(vec![whole(
            "the document has a NUL character",
            "not_readable",
        )]));
    }
    let (document, warnings) = Document::read(&text).map_err(Error::Invalid)?;
    let digest = document.digest();
    let compiled = Compiled::new(document).map_err(Error::Invalid)?;
    Ok(Prepared {
        text,
        digest,
        compiled,
        warnings,
    })
}

fn whole(message: &str, reason: &'static str) -> Problem {
    Problem {
        severity: Severity::Error,
        path: String::new(),
        line: 0,
        column: 0,
        message: message.to_owned(),
        reason,
    }
}

/// Warns of bindings whose executor is not registered, or not for all that the binding claims (rule
/// r11): a flag in the configuration proves nothing. A tenant that does not exist yet has no
/// registrations.
///
/// # Errors
/// The database's.
pub async fn registration_warnings(
    tx: &mut Tx<'_>,
    tenant: Option<TenantId>,
    compiled: &Compiled,
) -> Result<Vec<Problem>, weir_pg::Error> {
    let document = compiled.document();
    let mut bindings: BTreeMap<String, &Binding> = BTreeMap::new();
    let mut executors: Vec<&str> = Vec::new();
    for (at, scope) in document.scopes.iter().enumerate() {
        for (name, binding) in &scope.bindings {
            executors.extend(binding.executor.as_deref());
            bindings.insert(format!("scopes[{at}].bindings.{name}"), binding);
        }
    }
    executors.sort_unstable();
    executors.dedup();
    let registered = match tenant {
        Some(tenant) => registrations(tx, tenant, &executors).await?,
        None => HashMap::new(),
    };
    let mut warnings: Vec<Problem> = bindings
        .into_iter()
        .filter_map(|(path, binding)| warning(document, &registered, &path, binding))
        .collect();
    warnings.sort_by_key(|warning| (warning.line, warning.column));
    Ok(warnings)
}

fn warning(
    document: &Document,
    registered: &HashMap<String, Registration>,
    path: &str,
    binding: &Binding,
) -> Option<Problem> {
    let executor = binding.executor.as_deref()?;
    let (field, message, reason) = match registered.get(executor) {
        None => (
            "executor",
            format!(
                "the executor `{executor}` is not registered; Work of this binding waits until it is"
            ),
            NO_EXECUTOR,
        ),
        Some(registration) => {
            let missing: Vec<&str> = binding
                .capabilities
                .iter()
                .filter(|c| registration.capabilities & bit(**c) == 0)
                .map(|c| match c {
                    crate::tenant::Capability::Inject => "`inject`",
                    crate::tenant::Capability::Interrupt => "`interrupt`",
                })
                .collect();
            if missing.is_empty() {
                return None;
            }
            (
                "capabilities",
                format!(
                    "the executor `{executor}` is not registered for {}",
                    missing.join(" and ")
                ),
                NO_CAPABILITY,
            )
        }
    };
    let path = format!("{path}.{field}");
    let (line, column) = document.place(&path);
    Some(Problem {
        severity: Severity::Warning,
        path,
        line,
        column,
        message,
        reason,
    })
}
