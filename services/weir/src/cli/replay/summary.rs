//! What became of a replay.

use std::collections::BTreeMap;

use super::super::output::{Output, complain};
use super::send::{Delivery, Hook};

#[derive(Debug, Default)]
pub(super) struct Summary {
    accepted: u64,
    deduplicated: u64,
    /// By reason: how many, and where the first one stands.
    refused: BTreeMap<String, (u64, String)>,
}

impl Summary {
    /// Counts an answer. One that never came is not counted.
    pub(super) fn count(&mut self, place: String, delivery: Delivery) {
        match delivery {
            Delivery::Accepted => self.accepted += 1,
            Delivery::Deduplicated => self.deduplicated += 1,
            Delivery::Refused(why) => self.refused.entry(why).or_insert((0, place)).0 += 1,
            Delivery::Unreachable(_) => {}
        }
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.values().map(|(count, _)| count).sum()
    }

    pub(super) fn print(&self, out: Output, hook: &Hook) {
        if out.is_json() {
            let reasons: Vec<_> = self
                .refused
                .iter()
                .map(|(why, (count, first))| serde_json::json!({ "reason": why, "count": count, "first": first }))
                .collect();
            let summary = serde_json::json!({
                "hook": hook.to_string(),
                "accepted": self.accepted,
                "deduplicated": self.deduplicated,
                "refused": self.refused(),
                "reasons": reasons,
            });
            out.line(&summary.to_string());
            return;
        }
        out.line(&format!(
            "{hook}: {} accepted, {} accepted before, {} refused",
            self.accepted,
            self.deduplicated,
            self.refused()
        ));
        for (why, (count, first)) in &self.refused {
            complain(&format!("  {count} refused, the first at {first}: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_reason() {
        let mut summary = Summary::default();
        summary.count("a:1".to_owned(), Delivery::Accepted);
        summary.count("a:2".to_owned(), Delivery::Deduplicated);
        summary.count("a:3".to_owned(), Delivery::Refused("401".to_owned()));
        summary.count("a:4".to_owned(), Delivery::Refused("401".to_owned()));
        assert_eq!(
            (summary.accepted, summary.deduplicated, summary.refused()),
            (1, 1, 2)
        );
        assert_eq!(summary.refused["401"], (2, "a:3".to_owned()));
    }
}
