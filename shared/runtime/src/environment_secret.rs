//! Secrets whose names are not known before they are needed, as those of webhook sources.

use weir_rpc::Secret;

/// Reads a secret from the environment: the variable itself, or the file that the variable with `_FILE`
/// behind names. None where neither is set, the file cannot be read, or the text is empty. Read anew
/// each time, so that an exchanged file counts at once.
pub fn environment_secret(name: &str) -> Option<Secret> {
    let text = match variable(name) {
        Some(text) => text,
        None => {
            let path = variable(&format!("{name}_FILE"))?;
            match std::fs::read_to_string(&path) {
                Ok(text) => text.trim_end_matches(['\r', '\n']).to_owned(),
                Err(error) => {
                    tracing::warn!(variable = name, %error, "the file of a secret cannot be read");
                    return None;
                }
            }
        }
    };
    (!text.is_empty()).then(|| Secret::new(text))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the runtime is what reads the environment"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
