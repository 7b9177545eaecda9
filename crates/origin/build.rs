//! The page's built files are part of the binary. Where they have not been built (`npm run build` in `web/`), a
//! placeholder that says so takes their place.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
    let dist = web.join("dist");
    if !dist.join("index.html").exists() {
        fs::create_dir_all(&dist)?;
        fs::copy(web.join("placeholder.html"), dist.join("index.html"))?;
    }
    // Files that come and go, which the macro that embeds them does not see.
    println!("cargo::rerun-if-changed={}", dist.display());
    Ok(())
}
