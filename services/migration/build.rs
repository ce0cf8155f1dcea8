//! The migrations are compiled in, so a changed file must be seen.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}
