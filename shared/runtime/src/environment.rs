//! Where a process runs (rule o03).

use std::fmt;

/// The variable that names the environment.
pub(crate) const VARIABLE: &str = "WEIR_ENVIRONMENT";

/// Whether conveniences of development are allowed. Everything but the exact word `Development` is
/// production: a typing error never opens a door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Environment {
    /// Identity headers are believed, reflection is on, the drain does not wait for load balancers.
    Development,
    /// The default.
    #[default]
    Production,
}

impl Environment {
    /// Reads the value of `WEIR_ENVIRONMENT`.
    pub fn parse(value: Option<&str>) -> Self {
        if value == Some("Development") {
            Self::Development
        } else {
            Self::Production
        }
    }

    /// Returns the environment's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Development => "Development",
            Self::Production => "Production",
        }
    }

    /// Returns whether this is development.
    pub fn is_development(self) -> bool {
        self == Self::Development
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o03_only_the_exact_word_is_development() {
        assert_eq!(
            Environment::parse(Some("Development")),
            Environment::Development
        );
        for other in [
            "development",
            "DEVELOPMENT",
            " Development",
            "Dev",
            "",
            "Production",
        ] {
            assert_eq!(
                Environment::parse(Some(other)),
                Environment::Production,
                "{other}"
            );
        }
        assert_eq!(Environment::parse(None), Environment::Production);
    }
}
