//! The answer of a publication as it is kept for a repeat (rule o08). What the document alone warns
//! of is not kept, as a repeat has the same document.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::prepare::{NO_CAPABILITY, NO_EXECUTOR};
use super::{Error, Published};
use crate::tenant::{Problem, Severity};

#[derive(Serialize, Deserialize)]
struct Stored {
    generation: i64,
    digest: Vec<u8>,
    actor: String,
    created_at: DateTime<Utc>,
    warnings: Vec<Warning>,
}

#[derive(Serialize, Deserialize)]
struct Warning {
    path: String,
    line: u32,
    column: u32,
    message: String,
    reason: String,
}

pub(super) fn encode(published: &Published, registration: &[Problem]) -> Vec<u8> {
    let warnings = registration.iter().map(|w| Warning {
        path: w.path.clone(),
        line: w.line,
        column: w.column,
        message: w.message.clone(),
        reason: w.reason.to_owned(),
    });
    let stored = Stored {
        generation: published.generation,
        digest: published.digest.clone(),
        actor: published.actor.clone(),
        created_at: published.created_at,
        warnings: warnings.collect(),
    };
    serde_json::to_vec(&stored).expect("strings, numbers and times always serialize")
}

pub(super) fn decode(stored: &[u8], document: &[Problem]) -> Result<Published, Error> {
    let stored: Stored = serde_json::from_slice(stored)?;
    let registration = stored.warnings.into_iter().map(|w| Problem {
        severity: Severity::Warning,
        path: w.path,
        line: w.line,
        column: w.column,
        message: w.message,
        reason: reason(&w.reason),
    });
    let warnings = document.iter().cloned().chain(registration).collect();
    Ok(Published {
        generation: stored.generation,
        digest: stored.digest,
        actor: stored.actor,
        created_at: stored.created_at,
        warnings,
    })
}

/// Reasons are constants of the code. One that another version wrote and this one does not know is
/// answered as a warning of no special kind.
fn reason(word: &str) -> &'static str {
    [NO_EXECUTOR, NO_CAPABILITY]
        .iter()
        .find(|known| **known == word)
        .copied()
        .unwrap_or("warning")
}
