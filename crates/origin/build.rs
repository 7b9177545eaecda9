//! Rebuilds the crate when `make web` has built the player page, whose files are in the binary.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // Cargo treats a missing folder as changed on every build.
    fs::create_dir_all(&dist)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    Ok(())
}
