//! Lists the migrations that this build knows, for the readiness of the services (rule m04).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script where to write by environment"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut known = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let file = entry?.file_name();
        let Some(stem) = file.to_str().and_then(|file| file.strip_suffix(".up.sql")) else {
            continue;
        };
        let (version, name) = stem
            .split_once('_')
            .ok_or_else(|| format!("`{stem}` is not NNNN_name"))?;
        known.push((version.parse::<i64>()?, name.to_owned()));
    }
    known.sort();
    let mut list = String::from("&[\n");
    for (version, name) in known {
        writeln!(list, "    ({version}, {name:?}),")?;
    }
    list.push(']');
    std::fs::write(
        PathBuf::from(std::env::var("OUT_DIR")?).join("migrations.rs"),
        list,
    )?;
    Ok(())
}
