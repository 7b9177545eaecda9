//! Compresses the files of the player page, which `make web` has built, for the binary.

use flate2::{Compression, write::GzEncoder};
use std::{
    env,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_128;

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
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    fs::write(out.join("page_files.rs"), table(&dist, &out)?)
}

/// Writes each file of the page compressed into `out`. Returns the source of the table of them.
fn table(dist: &Path, out: &Path) -> io::Result<String> {
    let paths = files_below(dist)?;
    let mut source = format!("static FILES: [File; {}] = [\n", paths.len());
    for (number, path) in paths.iter().enumerate() {
        let plain = fs::read(path)?;
        let gzip = out.join(format!("{number}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&gzip)?, Compression::best());
        encoder.write_all(&plain)?;
        encoder.finish()?;
        let name = path.strip_prefix(dist).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
        let digest = xxh3_128(&plain);
        writeln!(source, "    File::new({name:?}, {digest:#x}, include_bytes!({gzip:?})),")
            .map_err(io::Error::other)?;
    }
    Ok(source + "];\n")
}

/// Returns all files below a folder, in the same order everywhere.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { paths.extend(files_below(&path)?) } else { paths.push(path) }
    }
    paths.sort();
    Ok(paths)
}
