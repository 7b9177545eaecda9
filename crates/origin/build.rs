//! Rebuilds the crate when `make web` has built the player page, whose files are in the binary.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // Cargo treats a missing folder as changed on every build.
    fs::create_dir_all(&dist)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    // A release without its pages is a mistake. Other builds are useful without them.
    println!("cargo::rerun-if-env-changed=LATEMUX_REQUIRE_PAGES");
    if env::var_os("LATEMUX_REQUIRE_PAGES").is_some() && !dist.join("index.html").exists() {
        return Err(io::Error::other(format!("{} is not built: run `make web`", dist.display())));
    }
    Ok(())
}
