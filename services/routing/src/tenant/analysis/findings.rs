//! Collecting warnings: one for each thing that was written, however many scopes inherit it.

use std::collections::{HashMap, HashSet};

use super::super::{
    model::Document,
    problem::{Problem, Severity},
    resolve::Resolved,
};

/// Most warnings of one analysis.
pub(super) const MAX_WARNINGS: usize = 100;
/// Most scopes that one warning names.
const MAX_NAMED: usize = 5;
/// Most warnings that are kept to choose the listed ones from; further ones are only counted.
const MAX_KEPT: usize = 10_000;

/// The warnings of an analysis.
#[derive(Debug)]
pub(crate) struct Warnings {
    /// In the order of the document, at most 100.
    pub(crate) listed: Vec<Problem>,
    /// How many more there are.
    pub(crate) left_out: usize,
}

/// What is said of a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Text {
    /// Where.
    pub(super) path: String,
    /// What kind.
    pub(super) reason: &'static str,
    /// What is said before the scopes.
    pub(super) before: String,
    /// What is said behind them.
    pub(super) after: String,
    /// Says the limits of those scopes at the very end.
    pub(super) limits: Option<Limit>,
}

impl Text {
    pub(super) fn new(path: String, reason: &'static str, before: String) -> Self {
        Self {
            path,
            reason,
            before,
            after: String::new(),
            limits: None,
        }
    }

    pub(super) fn after(mut self, after: impl Into<String>) -> Self {
        self.after = after.into();
        self
    }
}

/// Which of the causal limits is in question (rule c02).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Limit {
    /// Both, which alone end a cycle.
    Cycle,
    /// `depth`.
    Depth,
    /// `derived_per_minute`.
    Rate,
}

/// The causal limits of several scopes, from the least to the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    depth: (u16, u16),
    rate: (u32, u32),
}

impl Range {
    fn say(&self, limit: Limit) -> String {
        let depth = span(self.depth.0, self.depth.1);
        let rate = span(self.rate.0, self.rate.1);
        match limit {
            Limit::Cycle => format!(
                "; only the causal limits stop it, at depth {depth} and after {rate} derived events of a root and minute"
            ),
            Limit::Depth => format!("; the limit is depth {depth}, deeper ones are refused"),
            Limit::Rate => {
                format!("; the limit is {rate} of a root and minute, more are refused")
            }
        }
    }
}

fn span<T: std::fmt::Display + PartialEq>(from: T, to: T) -> String {
    if from == to {
        from.to_string()
    } else {
        format!("{from} to {to}")
    }
}

/// The limits of a scope (rule c02), defaults filled in.
pub(super) fn limits(scope: &Resolved<'_>) -> (u16, u32) {
    use super::super::model::{DEFAULT_DEPTH, DEFAULT_DERIVED_PER_MINUTE};
    let limits = scope.limits;
    (
        limits.depth.unwrap_or(DEFAULT_DEPTH),
        limits
            .derived_per_minute
            .unwrap_or(DEFAULT_DERIVED_PER_MINUTE),
    )
}

#[derive(Debug)]
struct Scopes {
    named: Vec<usize>,
    count: usize,
    range: Range,
}

/// What was found so far.
#[derive(Debug)]
pub(super) struct Findings<'d> {
    document: &'d Document,
    texts: Vec<(Text, Option<Scopes>)>,
    places: HashMap<Text, usize>,
    past: usize,
    incomplete: bool,
}

impl<'d> Findings<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self {
            document,
            texts: Vec::new(),
            places: HashMap::new(),
            past: 0,
            incomplete: false,
        }
    }

    pub(super) fn document(&self) -> &'d Document {
        self.document
    }

    /// Says something of a place alone.
    pub(super) fn add(&mut self, text: Text) {
        self.keep(text);
    }

    fn keep(&mut self, text: Text) -> Option<usize> {
        if let Some(at) = self.places.get(&text) {
            return Some(*at);
        }
        if self.texts.len() == MAX_KEPT {
            self.past += 1;
            return None;
        }
        self.places.insert(text.clone(), self.texts.len());
        self.texts.push((text, None));
        Some(self.texts.len() - 1)
    }

    /// Says something of a place as it works in these scopes.
    pub(super) fn add_in(&mut self, text: Text, scopes: &[&Resolved<'_>]) {
        let Some(at) = self.keep(text) else { return };
        for scope in scopes {
            let (depth, rate) = limits(scope);
            let all = self.texts[at].1.get_or_insert(Scopes {
                named: Vec::new(),
                count: 0,
                range: Range {
                    depth: (depth, depth),
                    rate: (rate, rate),
                },
            });
            all.count += 1;
            if all.named.len() < MAX_NAMED {
                all.named.push(scope.index);
            }
            let range = &mut all.range;
            range.depth = (range.depth.0.min(depth), range.depth.1.max(depth));
            range.rate = (range.rate.0.min(rate), range.rate.1.max(rate));
        }
    }

    /// Says that not all was looked at.
    pub(super) fn incomplete(&mut self) {
        self.incomplete = true;
    }

    pub(super) fn finish(self) -> Warnings {
        let mut listed: Vec<Problem> = self
            .texts
            .iter()
            .map(|(text, scopes)| self.problem(text, scopes.as_ref()))
            .collect();
        listed.sort_by(|a, b| {
            (a.line, a.column, &a.path, a.reason).cmp(&(b.line, b.column, &b.path, b.reason))
        });
        let left_out = self.past + listed.len().saturating_sub(MAX_WARNINGS);
        listed.truncate(MAX_WARNINGS);
        if self.incomplete {
            let message = "the document is too large to be looked at to the end; what is said of routes and `emits` is not all there is to say";
            let text = Text::new(
                "scopes".to_owned(),
                "analysis_incomplete",
                message.to_owned(),
            );
            listed.push(self.problem(&text, None));
        }
        Warnings { listed, left_out }
    }

    fn problem(&self, text: &Text, scopes: Option<&Scopes>) -> Problem {
        let (line, column) = self.document.place(&text.path);
        let mut message = text.before.clone();
        if let Some(scopes) = scopes {
            message.push(' ');
            message.push_str(&self.sentence(scopes));
        }
        message.push_str(&text.after);
        if let (Some(limit), Some(scopes)) = (text.limits, scopes) {
            message.push_str(&scopes.range.say(limit));
        }
        Problem {
            severity: Severity::Warning,
            path: text.path.clone(),
            line,
            column,
            message,
            reason: text.reason,
        }
    }

    fn sentence(&self, scopes: &Scopes) -> String {
        let names: Vec<String> = scopes
            .named
            .iter()
            .map(|at| format!("`{}`", self.document.scopes[*at].name))
            .collect();
        let names = names.join(", ");
        match scopes.count - scopes.named.len() {
            0 if scopes.count == 1 => format!("in scope {names}"),
            0 => format!("in scopes {names}"),
            more => format!("in scopes {names} and {more} more"),
        }
    }
}

/// Names in the order given, each once: "slot `a`" or "slots `a`, `b`".
pub(super) fn slots<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut seen = HashSet::new();
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| seen.insert(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    match names.as_slice() {
        [only] => format!("slot {only}"),
        names if names.len() <= MAX_NAMED => format!("slots {}", names.join(", ")),
        names => format!(
            "slots {} and {} more",
            names[..MAX_NAMED].join(", "),
            names.len() - MAX_NAMED
        ),
    }
}
