//! Reads: what a root may and did spend, and what was refused.

mod diagnostic;
mod root;
mod token;

pub(crate) use diagnostic::{DiagnosticView, list_diagnostics};
pub(crate) use root::{RootView, read_root};
