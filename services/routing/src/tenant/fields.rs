//! Taking typed fields out of a tree, with every problem reported and none fatal to the rest.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use serde_saphyr::Spanned;

use super::{
    problem::{Problem, Report, Severity},
    tree::{Located, Tree, place},
};

/// What reading a document leaves besides the model.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) report: Report,
    pub(super) places: BTreeMap<String, (u32, u32)>,
}

impl Reading {
    pub(super) fn error(
        &mut self,
        path: &str,
        at: (u32, u32),
        reason: &'static str,
        message: String,
    ) {
        self.report.push(Problem {
            severity: Severity::Error,
            path: path.to_owned(),
            line: at.0,
            column: at.1,
            message,
            reason,
        });
    }

    fn wrong(&mut self, node: &Located, path: &str, expected: &str) {
        let message = format!("expected {expected}, found {}", node.value.kind());
        self.error(path, place(node), "wrong_type", message);
    }

    /// The fields of a map.
    pub(super) fn fields<'t>(&mut self, node: &'t Located, path: &str) -> Option<Fields<'t>> {
        self.places.insert(path.to_owned(), place(node));
        let Tree::Map(pairs) = &node.value else {
            self.wrong(node, path, "a map");
            return None;
        };
        let pairs = pairs.iter().map(|(key, value)| (key, value)).collect();
        Some(Fields {
            path: path.to_owned(),
            at: place(node),
            pairs,
            known: Vec::new(),
        })
    }

    /// The items of a list, with their paths. Absent and empty are the same.
    pub(super) fn items<'t>(
        &mut self,
        node: Option<&'t Located>,
        path: &str,
    ) -> Vec<(String, &'t Located)> {
        let Some(node) = node else { return Vec::new() };
        let Tree::List(items) = &node.value else {
            self.wrong(node, path, "a list");
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(at, item)| (format!("{path}[{at}]"), item))
            .collect()
    }

    /// The pairs of a map whose keys are names, with their paths.
    pub(super) fn named<'t>(
        &mut self,
        node: Option<&'t Located>,
        path: &str,
    ) -> Vec<(String, &'t str, &'t Located)> {
        let Some(node) = node else { return Vec::new() };
        let Tree::Map(pairs) = &node.value else {
            self.wrong(node, path, "a map");
            return Vec::new();
        };
        pairs
            .iter()
            .map(|(key, item)| (format!("{path}.{}", key.value), key.value.as_str(), item))
            .collect()
    }

    pub(super) fn text(&mut self, node: &Located, path: &str) -> Option<String> {
        self.places.insert(path.to_owned(), place(node));
        match &node.value {
            Tree::Text(text) => Some(text.clone()),
            _ => {
                self.wrong(
                    node,
                    path,
                    "text (quote it if it looks like something else)",
                );
                None
            }
        }
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, node: Option<&Located>, path: &str) -> Vec<String> {
        self.items(node, path)
            .into_iter()
            .filter_map(|(path, item)| self.text(item, &path))
            .collect()
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        node: &Located,
        path: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node, path)?;
        let found = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.error(
                path,
                place(node),
                "unknown_value",
                format!("expected one of: {}", words.join(", ")),
            );
        }
        found
    }
}

/// The fields of one map; each is taken once and what is left is unknown.
pub(super) struct Fields<'t> {
    pub(super) path: String,
    pub(super) at: (u32, u32),
    pairs: Vec<(&'t Spanned<String>, &'t Located)>,
    known: Vec<&'static str>,
}

impl<'t> Fields<'t> {
    /// The path of a field here.
    pub(super) fn sub(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    /// Takes a field. `null` counts as absent.
    pub(super) fn take(
        &mut self,
        reading: &mut Reading,
        name: &'static str,
    ) -> Option<&'t Located> {
        self.known.push(name);
        let at = self.pairs.iter().position(|(key, _)| key.value == name)?;
        let (_, value) = self.pairs.swap_remove(at);
        reading.places.insert(self.sub(name), place(value));
        (value.value != Tree::Null).then_some(value)
    }

    /// Takes a field that must be there.
    pub(super) fn require(
        &mut self,
        reading: &mut Reading,
        name: &'static str,
    ) -> Option<&'t Located> {
        let found = self.take(reading, name);
        if found.is_none() {
            reading.error(
                &self.sub(name),
                self.at,
                "required",
                "is required".to_owned(),
            );
        }
        found
    }

    pub(super) fn text(&mut self, reading: &mut Reading, name: &'static str) -> Option<String> {
        let node = self.take(reading, name)?;
        reading.text(node, &self.sub(name))
    }

    /// Text that must be there; empty when it is not, which was reported.
    pub(super) fn required_text(&mut self, reading: &mut Reading, name: &'static str) -> String {
        let path = self.sub(name);
        self.require(reading, name)
            .and_then(|node| reading.text(node, &path))
            .unwrap_or_default()
    }

    /// An integer within `range`.
    pub(super) fn integer<N: TryFrom<i64>>(
        &mut self,
        reading: &mut Reading,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<N> {
        let node = self.take(reading, name)?;
        self.integer_at(reading, node, name, range)
    }

    /// An integer within `range` that must be there.
    pub(super) fn required_integer<N: TryFrom<i64>>(
        &mut self,
        reading: &mut Reading,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Option<N> {
        let node = self.require(reading, name)?;
        self.integer_at(reading, node, name, range)
    }

    fn integer_at<N: TryFrom<i64>>(
        &self,
        reading: &mut Reading,
        node: &Located,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Option<N> {
        let path = self.sub(name);
        let Tree::Integer(value) = node.value else {
            reading.wrong(node, &path, "an integer");
            return None;
        };
        let fits = range
            .contains(&value)
            .then(|| N::try_from(value).ok())
            .flatten();
        if fits.is_none() {
            let message = format!("is {value}, must be {} to {}", range.start(), range.end());
            reading.error(&path, place(node), "out_of_range", message);
        }
        fits
    }

    pub(super) fn boolean(&mut self, reading: &mut Reading, name: &'static str) -> Option<bool> {
        let node = self.take(reading, name)?;
        match node.value {
            Tree::Bool(value) => Some(value),
            _ => {
                reading.wrong(node, &self.sub(name), "true or false");
                None
            }
        }
    }

    /// A length of time like `30s`, within `range`.
    pub(super) fn duration(
        &mut self,
        reading: &mut Reading,
        name: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let node = self.take(reading, name)?;
        let path = self.sub(name);
        let parsed = match &node.value {
            Tree::Text(text) => humantime::parse_duration(text).ok(),
            _ => None,
        };
        let Some(value) = parsed else {
            reading.wrong(node, &path, "a duration like 500ms, 30s or 5m");
            return None;
        };
        if !range.contains(&value) {
            let show = |d: &Duration| humantime::format_duration(*d).to_string();
            let message = format!(
                "is {}, must be {} to {}",
                show(&value),
                show(range.start()),
                show(range.end())
            );
            reading.error(&path, place(node), "out_of_range", message);
            return None;
        }
        Some(value)
    }

    /// Reports what was not taken.
    pub(super) fn finish(self, reading: &mut Reading) {
        for (key, _) in &self.pairs {
            let path = self.sub(&key.value);
            let message = format!(
                "unknown field; the fields here are {}",
                self.known.join(", ")
            );
            reading.error(&path, place(key), "unknown_field", message);
        }
    }
}
