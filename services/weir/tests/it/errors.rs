//! Every reason that the code can answer is documented, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The text literals of each `fn reason` of a file, outside its tests.
fn reasons(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    for body in text.split("fn reason(&self) -> &'static str {").skip(1) {
        let mut depth = 1;
        let end = body.char_indices().find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let body = &body[..end.map_or(body.len(), |(at, _)| at)];
        found.extend(body.split('"').skip(1).step_by(2).map(str::to_owned));
    }
    found
}

/// The first cells of the table under a heading.
fn documented(text: &str, heading: &str) -> Vec<String> {
    let section = text.split(heading).nth(1).expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        line.strip_prefix("| `")
            .and_then(|rest| rest.split('`').next())
            .map(str::to_owned)
    };
    section.lines().filter_map(row).collect()
}

#[test]
fn every_reason_is_documented_and_every_documented_reason_is_answered() {
    let mut files = Vec::new();
    for folder in ["shared", "services"] {
        for entry in fs::read_dir(root().join(folder)).expect("a folder") {
            let source = entry.expect("an entry").path().join("src");
            if source.is_dir() {
                sources(&source, &mut files);
            }
        }
    }
    let mut answered: BTreeMap<String, PathBuf> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("text");
        for reason in reasons(&text) {
            let good = !reason.is_empty()
                && reason
                    .bytes()
                    .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            assert!(good, "`{reason}` in {} is not UPPER_SNAKE", file.display());
            answered.entry(reason).or_insert_with(|| file.clone());
        }
    }
    assert!(answered.len() > 50, "{answered:?}");
    let text = fs::read_to_string(root().join("docs/ERRORS.md")).expect("the page is there");
    let listed = documented(&text, "\n## Reasons\n");
    let known: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(known.len(), listed.len(), "each is listed once");
    assert!(listed.is_sorted(), "they are in order");
    let missing: Vec<_> = answered
        .iter()
        .filter(|(reason, _)| !known.contains(reason))
        .collect();
    assert!(missing.is_empty(), "not documented: {missing:?}");
    let stale: Vec<_> = known
        .iter()
        .filter(|reason| !answered.contains_key(**reason))
        .collect();
    assert!(stale.is_empty(), "documented and never answered: {stale:?}");
}

#[test]
fn the_vocabularies_of_records_are_documented() {
    let text = fs::read_to_string(root().join("docs/ERRORS.md")).expect("the page is there");
    let dispositions: Vec<_> = weir_kernel::Disposition::ALL
        .iter()
        .map(|d| d.as_str().to_owned())
        .collect();
    assert_eq!(documented(&text, "\n## Dispositions\n"), dispositions);
    let states: Vec<_> = weir_kernel::PendingState::ALL
        .iter()
        .map(|s| s.as_str().to_owned())
        .collect();
    assert_eq!(documented(&text, "\n## Pending states\n"), states);
    let codes: Vec<_> = weir_kernel::FailureCode::ALL
        .iter()
        .map(|c| c.as_str().to_owned())
        .collect();
    assert_eq!(documented(&text, "\n## Failure codes\n"), codes);
}
