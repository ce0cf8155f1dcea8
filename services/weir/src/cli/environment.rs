//! The variables that the command line reads besides those of its options.

use std::ffi::OsString;
use std::path::PathBuf;

/// Returns a variable's text; none when it is unset, empty or no text.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line is its own runtime"
)]
pub(crate) fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Returns a variable as it is.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line is its own runtime"
)]
pub(crate) fn raw(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|text| !text.is_empty())
}

/// Returns a variable that names a path.
pub(crate) fn path(name: &str) -> Option<PathBuf> {
    raw(name).map(PathBuf::from)
}

/// Returns every variable that is text.
pub(crate) fn all() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
}
