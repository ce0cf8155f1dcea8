//! One type per identifier.

use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// A string that is not the identifier it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct ParseIdError {
    what: &'static str,
    text: String,
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            /// Reads the hyphenated form only: an identifier has one spelling.
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let refuse = || ParseIdError {
                    what: $what,
                    text: text.chars().filter(|c| !c.is_control()).take(64).collect(),
                };
                let uuid = Uuid::try_parse(text).map_err(|_| refuse())?;
                if uuid.to_string() == text { Ok(Self(uuid)) } else { Err(refuse()) }
            }
        }
    };
}

number_id!(
    /// A tenant's internal number. Leads every key and every query.
    TenantId, i64
);
number_id!(
    /// A scope's number within its tenant; stays the same over generations.
    ScopeId, i32
);
number_id!(
    /// The number of one scope's binding of one name; stays the same over generations.
    BindingId, i32
);
number_id!(
    /// The number of one scope's route slot; stays the same over generations.
    RouteId, i32
);
uuid_id!(
    /// An accepted event: a UUIDv7 of the database's clock.
    EventUid, "an event uid (a lower-case hyphenated UUID)"
);
uuid_id!(
    /// A Work: a UUIDv7 of the database's clock.
    WorkId, "a work id (a lower-case hyphenated UUID)"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling() {
        let text = "0199c8a0-0000-7000-8000-000000000001";
        assert!(text.parse::<EventUid>().is_ok());
        assert!(
            "0199C8A0-0000-7000-8000-000000000001"
                .parse::<EventUid>()
                .is_err()
        );
        assert!(text.replace('-', "").parse::<WorkId>().is_err());
        assert!("".parse::<WorkId>().is_err());
    }
}
