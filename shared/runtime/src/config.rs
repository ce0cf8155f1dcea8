//! Configuration: one value per service, loaded and checked once, from the environment.
//!
//! `WEIR_ROUTING__DATABASE__MAX_CONNECTIONS=8` sets `database.max_connections` of the service
//! `routing`: two underscores go one level down. A variable of the service that nobody knows is an
//! error and lists the known ones, because a setting with a typing error would silently do nothing.
//! A variable may name a file instead (`WEIR_ROUTING__DATABASE__URL_FILE`), for mounted secrets.
//!
//! What every process has ([`ServerConfig`]) and what a service adds stand side by side under the one
//! prefix. Both tell which settings they know by serializing their default.

mod server;
mod tree;

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use server::{Process, ServerConfig};
pub use tree::ConfigError;
use tree::Node;

use crate::{Environment, environment};

/// Settings that many services share under one name: used where the service's own is not set.
/// A service without the setting ignores the variable.
const SHARED: [(&str, &str); 3] = [
    ("DATABASE_URL", "database.url"),
    ("DATABASE_DIRECT_URL", "direct_url"),
    ("WEIR_INTERNAL_TOKEN", "internal_token"),
];

/// A service's configuration. `#[serde(deny_unknown_fields, default)]` on the type and on every
/// section; durations by `humantime_serde`; secrets as [`crate::Secret`].
pub trait Validate {
    /// Checks what types cannot say.
    ///
    /// # Errors
    ///
    /// One line that names the setting.
    fn validate(&self, environment: Environment) -> Result<(), String> {
        let _ = environment;
        Ok(())
    }
}

/// What was loaded.
#[derive(Debug, Clone)]
pub struct Settings<C> {
    /// What every process has.
    pub process: Process,
    /// The service's own.
    pub service: C,
}

/// Loads the configuration of a service from an environment.
///
/// # Errors
///
/// The first fault, in one line that names the variable and shows no secret.
pub fn load<C>(
    service: &'static str,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<Settings<C>, ConfigError>
where
    C: Default + Serialize + DeserializeOwned + Validate,
{
    let env: BTreeMap<String, String> = env.into_iter().collect();
    let environment = Environment::parse(env.get(environment::VARIABLE).map(String::as_str));
    let known = Known::of::<C>();
    let mut root = Node::root();
    for (name, text) in &env {
        let Some(path) = name.strip_prefix(&prefix(service)) else {
            continue;
        };
        let path: Vec<String> = path.split("__").map(str::to_ascii_lowercase).collect();
        known
            .put(&mut root, name, path, text)?
            .ok_or_else(|| ConfigError::Unknown {
                name: name.clone(),
                known: known.variables(service).join(", "),
            })?;
    }
    for (name, path) in SHARED {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        if root.has(&path) {
            continue;
        }
        let file = format!("{name}_FILE");
        if let Some(text) = env.get(name) {
            known.put(&mut root, name, path, text)?;
        } else if let Some(text) = env.get(&file) {
            let mut path = path;
            path.last_mut()
                .expect("a path has a last part")
                .push_str("_file");
            known.put(&mut root, &file, path, text)?;
        }
    }
    let (server, service_node) = root.split(|key| known.server.get(key).is_some());
    let mut server: ServerConfig = server.read()?;
    server.place(service, |key| {
        let name = format!("{}{key}", prefix(service));
        env.contains_key(&name) || env.contains_key(&format!("{name}_FILE"))
    });
    let config: C = service_node.read()?;
    server.validate(environment).map_err(ConfigError::Invalid)?;
    config.validate(environment).map_err(ConfigError::Invalid)?;
    Ok(Settings {
        process: Process {
            service,
            environment,
            server,
        },
        service: config,
    })
}

fn prefix(service: &str) -> String {
    format!("WEIR_{}__", service.to_ascii_uppercase().replace('-', "_"))
}

/// The settings that exist, as the defaults serialize.
pub(crate) struct Known {
    server: Value,
    service: Value,
}

impl Known {
    pub(crate) fn of<C: Default + Serialize>() -> Self {
        let value = |value: serde_json::Result<Value>| {
            value.expect("a configuration is made of maps with names, texts and numbers")
        };
        Self {
            server: value(serde_json::to_value(ServerConfig::default())),
            service: value(serde_json::to_value(C::default())),
        }
    }

    /// Puts a text at a path, or the content of the file it names; none when there is no such path.
    fn put(
        &self,
        root: &mut Node,
        name: &str,
        mut path: Vec<String>,
        text: &str,
    ) -> Result<Option<()>, ConfigError> {
        if self.has(&path) {
            return root.put(name, &path, text.to_owned()).map(Some);
        }
        let Some(last) = path.last_mut() else {
            return Ok(None);
        };
        let Some(stem) = last.strip_suffix("_file") else {
            return Ok(None);
        };
        *last = stem.to_owned();
        if !self.has(&path) {
            return Ok(None);
        }
        let content = std::fs::read_to_string(text).map_err(|source| ConfigError::File {
            name: name.to_owned(),
            path: text.to_owned(),
            source,
        })?;
        root.put(
            name,
            &path,
            content.trim_end_matches(['\r', '\n']).to_owned(),
        )
        .map(Some)
    }

    fn has(&self, path: &[String]) -> bool {
        [&self.server, &self.service].into_iter().any(|known| {
            let mut at = known;
            for (depth, part) in path.iter().enumerate() {
                match at {
                    Value::Object(fields) if fields.is_empty() && depth > 0 => return true,
                    Value::Object(fields) => match fields.get(part) {
                        Some(field) => at = field,
                        None => return false,
                    },
                    // An absent section: its type decides when it is read.
                    Value::Null => return true,
                    _ => return false,
                }
            }
            !matches!(at, Value::Object(fields) if !fields.is_empty())
        })
    }

    /// Lists the variables, each with its default.
    pub(crate) fn with_defaults(&self, service: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for value in [&self.server, &self.service] {
            leaves(value, prefix(service).trim_end_matches('_'), &mut all);
        }
        all
    }

    fn variables(&self, service: &str) -> Vec<String> {
        self.with_defaults(service)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }
}

fn leaves(value: &Value, name: &str, all: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, field) in fields {
                leaves(field, &format!("{name}__{}", key.to_ascii_uppercase()), all);
            }
        }
        Value::String(text) => all.push((name.to_owned(), text.clone())),
        Value::Null => all.push((name.to_owned(), String::new())),
        other => all.push((name.to_owned(), other.to_string())),
    }
}

#[cfg(test)]
mod tests;
