//! What a check of a document reports.

use std::fmt;

/// How much a problem weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document is accepted, but something will likely not work as meant.
    Warning,
}

/// One finding about a document, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether it refuses the document.
    pub severity: Severity,
    /// Path of the field, as in `scopes[1].routes[0].when`; empty for the document as a whole.
    pub path: String,
    /// Line in the document, from 1; 0 when the document was not read from text.
    pub line: u32,
    /// Column in the document in characters, from 1; 0 as for `line`.
    pub column: u32,
    /// One line that says what is wrong and what would be right.
    pub message: String,
    /// Stable lower_snake name of the kind of problem.
    pub reason: &'static str,
}

impl Problem {
    /// Whether it refuses the document.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: ")?;
        if self.line > 0 {
            write!(f, "line {} column {}: ", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Most problems of one report.
pub const MAX_PROBLEMS: usize = 200;

/// Collects problems up to a bound; what is past it is counted and said in one more line.
#[derive(Debug, Default)]
pub(super) struct Report {
    problems: Vec<Problem>,
    errors_dropped: usize,
    warnings_dropped: usize,
}

impl Report {
    pub(super) fn push(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else if problem.is_error() {
            self.errors_dropped += 1;
        } else {
            self.warnings_dropped += 1;
        }
    }

    /// Adds warnings that someone else has bounded, and how many he left out.
    pub(super) fn add(&mut self, warnings: Vec<Problem>, left_out: usize) {
        for warning in warnings {
            self.push(warning);
        }
        self.warnings_dropped += left_out;
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors_dropped > 0 || self.problems.iter().any(Problem::is_error)
    }

    /// The problems in the order of the document, errors before warnings at one place.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.problems
            .sort_by_key(|p| (p.line, p.column, p.severity));
        for (dropped, severity) in [
            (self.errors_dropped, Severity::Error),
            (self.warnings_dropped, Severity::Warning),
        ] {
            if dropped > 0 {
                self.problems.push(Problem {
                    severity,
                    path: String::new(),
                    line: 0,
                    column: 0,
                    message: format!("{dropped} more are not listed"),
                    reason: "more_problems",
                });
            }
        }
        self.problems
    }
}
