//! The only place that prints: answers on standard output, everything else on standard error.
//!
//! A closed pipe (`weir events list | head`) ends the process quietly, as it does for other tools.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::presets;
use comfy_table::{ContentArrangement, Table};

use super::json::{self, WireName};

/// How answers are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether answers are printed as the RPC gave them.
    pub(crate) fn is_json(self) -> bool {
        self.json
    }

    /// Prints a line of an answer.
    pub(crate) fn line(self, text: &str) {
        write_out(text);
    }

    /// Prints a message in the proto JSON mapping, on one line.
    pub(crate) fn message<M: WireName>(self, message: &M) {
        write_out(&json::line(message));
    }

    /// Prints a table, or `none` when it has no rows.
    pub(crate) fn table(self, header: &[&str], rows: Vec<Vec<String>>, none: &str) {
        if rows.is_empty() {
            complain(none);
            return;
        }
        write_out(&render(header, rows, io::stdout().is_terminal()));
    }

    /// Prints names and values, without the empty ones.
    pub(crate) fn facts(self, facts: &[(&str, String)]) {
        let width = facts
            .iter()
            .map(|(name, _)| name.len())
            .max()
            .unwrap_or_default();
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            write_out(&format!("{name:width$}  {value}"));
        }
    }
}

/// Renders a table: no lines and no trailing spaces, so that `awk` and a person can both read it. A
/// terminal's width wraps it; a file gets each row on a line.
fn render(header: &[&str], rows: Vec<Vec<String>>, terminal: bool) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.to_vec());
    if terminal {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    for row in rows {
        table.add_row(row);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n")
}

fn write_out(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        complain(&format!("error: cannot write to standard output: {error}"));
        std::process::exit(1);
    }
}

/// Prints a line for the person in front of it, not part of the answer.
pub(crate) fn complain(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether a person watches standard error, so that a progress bar makes sense.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_row_and_no_decoration() {
        let rows = vec![
            vec!["a".to_owned(), "long value".to_owned()],
            vec!["bcd".to_owned(), String::new()],
        ];
        let text = render(&["ONE", "TWO"], rows, false);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("ONE") && lines[0].ends_with("TWO"));
        assert!(lines[1].starts_with("a ") && lines[1].ends_with("long value"));
        assert_eq!(lines[2], "bcd");
    }
}
