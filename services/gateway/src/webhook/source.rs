//! Webhook sources as routing knows them, remembered for a moment.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer holds. A configuration's change takes effect on webhooks within it.
const KEPT: Duration = Duration::from_secs(5);

/// Most answers kept. Only sources that exist are, so that callers who guess cannot fill it.
const MOST: usize = 4_096;

/// What names a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SourceName {
    pub(crate) tenant: String,
    pub(crate) scope: String,
    pub(crate) source: String,
}

/// What routing answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) kind: String,
    pub(crate) secret: String,
}

/// Known sources.
#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<HashMap<SourceName, (Instant, Source)>>);

impl Sources {
    /// Returns a source that was asked for a moment ago.
    pub(crate) fn get(&self, name: &SourceName, now: Instant) -> Option<Source> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, source) = known.get(name)?;
        (now.duration_since(*since) < KEPT).then(|| source.clone())
    }

    /// Remembers a source.
    pub(crate) fn put(&self, name: SourceName, source: Source, now: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains_key(&name) {
            known.retain(|_, (since, _)| now.duration_since(*since) < KEPT);
            if known.len() >= MOST {
                // It is a cache: asking again is right, growing is not.
                return;
            }
        }
        known.insert(name, (now, source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_known_for_a_moment() {
        let sources = Sources::default();
        let name = SourceName {
            tenant: "t".into(),
            scope: "s".into(),
            source: "x".into(),
        };
        let source = Source {
            kind: "github".into(),
            secret: "main".into(),
        };
        let now = Instant::now();
        assert_eq!(sources.get(&name, now), None);
        sources.put(name.clone(), source.clone(), now);
        assert_eq!(sources.get(&name, now), Some(source));
        assert_eq!(sources.get(&name, now + KEPT), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let sources = Sources::default();
        let now = Instant::now();
        for n in 0..MOST + 10 {
            let name = SourceName {
                tenant: n.to_string(),
                scope: "s".into(),
                source: "x".into(),
            };
            sources.put(
                name,
                Source {
                    kind: "k".into(),
                    secret: "m".into(),
                },
                now,
            );
        }
        assert_eq!(
            sources.0.lock().expect("no panic under the lock").len(),
            MOST
        );
    }
}
