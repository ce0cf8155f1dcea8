//! Where webhook secrets come from. Never from configuration: that is stored, shown and audited.

use weir_rpc::Secret;

/// Development's secret for a source whose own is not set.
pub const DEVELOPMENT_SECRET: &str = "weir-development";

/// Gives the value of a secret by its name in the environment, or nothing where it is not set.
///
/// The runtime gives one that reads the variable, or the file that the variable with `_FILE` behind
/// names. Tests give a closure.
pub trait Secrets: Send + Sync {
    /// Returns the secret of this name.
    fn secret(&self, name: &str) -> Option<Secret>;
}

impl<F: Fn(&str) -> Option<Secret> + Send + Sync> Secrets for F {
    fn secret(&self, name: &str) -> Option<Secret> {
        self(name)
    }
}

/// Returns the variable that holds a source's secret: `WEIR_WEBHOOK_SECRET_<TENANT>_<NAME>` in upper
/// case, with `_` for everything but ASCII letters and digits.
pub(crate) fn variable(tenant: &str, name: &str) -> String {
    let mut variable = String::from("WEIR_WEBHOOK_SECRET_");
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    variable.extend(tenant.chars().map(plain));
    variable.push('_');
    variable.extend(name.chars().map(plain));
    variable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_looked_up_by_tenant_and_name() {
        assert_eq!(variable("demo", "main"), "WEIR_WEBHOOK_SECRET_DEMO_MAIN");
        assert_eq!(
            variable("acme-eu.1", "gît"),
            "WEIR_WEBHOOK_SECRET_ACME_EU_1_G_T"
        );
    }
}
