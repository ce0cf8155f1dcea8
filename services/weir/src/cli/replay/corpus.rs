//! A file of webhooks, or a folder of such files.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::super::error::Failure;

/// The files to send, read once for their digests.
pub(super) struct Corpus {
    files: Vec<Source>,
    lines: u64,
}

struct Source {
    path: PathBuf,
    /// Namespace of the file's delivery ids: the first half of its SHA-256.
    namespace: Uuid,
}

/// One webhook.
pub(super) struct Entry {
    file: String,
    line: u64,
    /// What `X-GitHub-Event` says.
    pub(super) event: String,
    /// The payload's bytes.
    pub(super) payload: String,
    /// What `X-GitHub-Delivery` says.
    pub(super) delivery: Uuid,
}

impl Entry {
    /// Where it stands.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// A line that is no webhook.
pub(super) struct Unreadable {
    pub(super) place: String,
    pub(super) why: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

impl Corpus {
    /// Looks at a file or a folder. At most `limit` lines are sent.
    pub(super) fn open(path: &Path, limit: Option<u64>) -> Result<Self, Failure> {
        let cannot = |path: &Path, error: std::io::Error| {
            Failure::failed(format!("cannot read `{}`: {error}", path.display()))
        };
        let paths = if std::fs::metadata(path)
            .map_err(|error| cannot(path, error))?
            .is_dir()
        {
            let mut paths = Vec::new();
            for entry in std::fs::read_dir(path).map_err(|error| cannot(path, error))? {
                let found = entry.map_err(|error| cannot(path, error))?.path();
                if found
                    .extension()
                    .is_some_and(|extension| extension == "jsonl")
                {
                    paths.push(found);
                }
            }
            paths.sort();
            paths
        } else {
            vec![path.to_owned()]
        };
        if paths.is_empty() {
            return Err(Failure::failed(format!(
                "`{}` holds no *.jsonl",
                path.display()
            )));
        }
        let mut files = Vec::with_capacity(paths.len());
        let mut lines = 0;
        for path in paths {
            let (digest, count) = digest(&path).map_err(|error| cannot(&path, error))?;
            lines += count;
            files.push(Source {
                path,
                namespace: Uuid::from_bytes(digest),
            });
        }
        Ok(Self {
            files,
            lines: lines.min(limit.unwrap_or(u64::MAX)),
        })
    }

    /// How many lines are sent.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Reads the lines in order. Blank lines are not sent, and counted in line numbers.
    pub(super) fn entries(self) -> impl Iterator<Item = Result<Entry, Unreadable>> + Send {
        let most = usize::try_from(self.lines).unwrap_or(usize::MAX);
        self.files.into_iter().flat_map(Source::entries).take(most)
    }
}

impl Source {
    fn entries(self) -> Box<dyn Iterator<Item = Result<Entry, Unreadable>> + Send> {
        let name = self.path.display().to_string();
        let unreadable = |name: &str, line: u64, why: String| Unreadable {
            place: format!("{name}:{line}"),
            why,
        };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) => {
                return Box::new(std::iter::once(Err(unreadable(
                    &name,
                    0,
                    error.to_string(),
                ))));
            }
        };
        let namespace = self.namespace;
        Box::new(
            BufReader::new(file)
                .lines()
                .zip(1_u64..)
                .filter_map(move |(text, line)| {
                    let text = match text {
                        Ok(text) if text.trim().is_empty() => return None,
                        Ok(text) => text,
                        Err(error) => return Some(Err(unreadable(&name, line, error.to_string()))),
                    };
                    Some(match serde_json::from_str::<Line<'_>>(&text) {
                        Ok(parsed) => Ok(Entry {
                            file: name.clone(),
                            line,
                            event: parsed.event,
                            payload: parsed.payload.get().to_owned(),
                            delivery: Uuid::new_v5(&namespace, line.to_string().as_bytes()),
                        }),
                        Err(error) => Err(unreadable(
                            &name,
                            line,
                            format!("not {{\"event\", \"payload\"}}: {error}"),
                        )),
                    })
                }),
        )
    }
}

/// Half of the SHA-256 of a file, which is what a UUID holds, and how many lines it has that are
/// not blank.
fn digest(path: &Path) -> std::io::Result<([u8; 16], u64)> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut hash = Sha256::new();
    let mut buffer = [0; 64 << 10];
    let (mut lines, mut blank) = (0, true);
    loop {
        let read = reader.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        for byte in &buffer[..read] {
            if *byte == b'\n' {
                lines += u64::from(!blank);
                blank = true;
            } else if !byte.is_ascii_whitespace() {
                blank = false;
            }
        }
    }
    lines += u64::from(!blank);
    let mut half = [0; 16];
    half.copy_from_slice(&hash.finalize()[..16]);
    Ok((half, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWICE: &str = "{\"event\":\"issues\",\"payload\":{\"n\": 1.0, \"n\":2}}\n\n{\"event\":\"issues\",\"payload\":{\"n\": 1.0, \"n\":2}}\n";

    fn corpus(files: &[(&str, &str)], limit: Option<u64>) -> (tempfile::TempDir, Corpus) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let corpus = Corpus::open(folder.path(), limit).expect("readable");
        (folder, corpus)
    }

    #[test]
    fn equal_lines_are_separate_events_and_a_second_run_is_the_same() {
        let (_folder, first) = corpus(&[("a.jsonl", TWICE)], None);
        assert_eq!(first.lines(), 2);
        let first: Vec<Entry> = first.entries().flatten().collect();
        assert_eq!(
            first[0].payload, r#"{"n": 1.0, "n":2}"#,
            "bytes stay as they stand in the line"
        );
        assert_eq!((first[0].line, first[1].line), (1, 3));
        assert_ne!(first[0].delivery, first[1].delivery);
        assert_eq!(first[0].delivery.get_version_num(), 5);
        let (_folder, second) = corpus(&[("renamed.jsonl", TWICE)], None);
        let second: Vec<Uuid> = second
            .entries()
            .flatten()
            .map(|entry| entry.delivery)
            .collect();
        assert_eq!(second, [first[0].delivery, first[1].delivery]);
    }

    #[test]
    fn a_folder_is_read_in_order_and_bad_lines_are_named() {
        let files = [
            ("b.jsonl", "nonsense\n"),
            ("a.jsonl", TWICE),
            ("c.txt", "ignored"),
        ];
        let (_folder, all) = corpus(&files, None);
        assert_eq!(all.lines(), 3);
        let all: Vec<Result<Entry, Unreadable>> = all.entries().collect();
        assert!(all[0].is_ok() && all[1].is_ok());
        let bad = all[2].as_ref().err().expect("nonsense is no webhook");
        assert!(bad.place.ends_with("b.jsonl:1"), "{}", bad.place);
        let (_folder, some) = corpus(&files, Some(1));
        assert_eq!(some.entries().count(), 1);
    }

    #[test]
    fn a_missing_path_is_named() {
        let failure = Corpus::open(Path::new("no/such"), None)
            .err()
            .expect("missing");
        assert!(failure.lines()[0].contains("cannot read `no/such`"));
    }
}
