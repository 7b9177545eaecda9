//! The live page's built files are part of the binary: they are embedded anew whenever `make web`
//! has made them anew.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist-load");
    // A missing folder would count as changed on every build.
    fs::create_dir_all(&dist)?;
    println!("cargo::rerun-if-changed={}", dist.display());
    Ok(())
}
