//! States the version, and in optimised builds the commit that was built.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=LATEMUX_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let named = env::var("LATEMUX_COMMIT").ok().filter(|commit| !commit.is_empty());
    // Other builds would be linked again after each commit.
    let is_optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = named.or_else(|| is_optimised.then(head).flatten());
    let version = commit.map_or(version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=LATEMUX_VERSION={version}");
}

/// Returns the commit of the source, or `None` if it is not a checkout of git.
fn head() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    // Each commit and each checkout adds a line to this file.
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}
