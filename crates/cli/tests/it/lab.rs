//! `latemux lab`: plans of experiments, and the documents of their cells.

use latemux_testmedia::process::tool;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latemux")).arg("lab").args(arguments).output().unwrap()
}

/// Returns the paths of all experiments of the project.
fn experiments() -> Vec<String> {
    let files = fs::read_dir(root().join("lab/experiments")).unwrap();
    let mut files: Vec<String> =
        files.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned()).collect();
    files.sort();
    files
}

#[test]
fn all_experiments_can_be_planned() {
    let mut arguments = vec!["plan".to_owned()];
    arguments.extend(experiments());
    let out = lab(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(
        text.contains("f-cold: How fast is each set-up if nothing is cached yet?\n192 cells, 3 times each"),
        "{text}"
    );
    assert!(text.contains("f-same: ") && text.contains("120 cells"), "{text}");
    assert!(text.contains("f-other: ") && text.contains("60 cells"), "{text}");
    assert!(text.lines().last().unwrap().contains("of disk"), "{text}");
}

#[test]
fn a_plan_with_a_mistake_fails_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    let cold = fs::read_to_string(root().join("lab/experiments/f-cold.toml")).unwrap();
    let library = root().join("lab");
    let library = library.to_str().unwrap();
    for (right, wrong, why) in [
        ("[matrix]", "[grid]", "unknown field `grid`"),
        ("\"ipp\"", "\"no-such-setup\"", "no-such-setup.toml: No such file"),
        ("100Mbit/s", "100Mb", "not a bit rate such as"),
    ] {
        fs::write(&path, cold.replace(right, wrong)).unwrap();
        let out = lab(&["plan", path.to_str().unwrap(), "--library", library]);
        let text = String::from_utf8(out.stderr).unwrap();
        assert!(!out.status.success() && text.lines().count() == 1 && text.contains(why), "{text}");
        assert!(out.stdout.is_empty());
    }
}

/// Types of another project decode the documents strictly, and the standard's schemas accept them.
#[test]
fn documents_are_those_that_others_read() {
    let Some(go) =
        tool("go").or_else(|| Some(PathBuf::from("/usr/local/go/bin/go")).filter(|go| go.exists()))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let documents = folder.path().to_str().unwrap();
    let cold = root().join("lab/experiments/f-cold.toml");
    let out = lab(&["plan", cold.to_str().unwrap(), "--documents", documents]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&go);
        command.args(arguments).current_dir(root().join("lab/nbmp"));
        // Modules are installed by `make tools`. Tests do not use a network.
        command.env("GOPROXY", "off").env("GOFLAGS", "-mod=readonly").env("LATEMUX_LAB_DOCUMENTS", documents);
        command.output().unwrap()
    };
    if !run(&["list", "-deps", "-test", "./..."]).status.success() {
        skip("the Go modules of lab/nbmp are not installed");
        return;
    }
    let out = run(&["test", "-count=1", "./..."]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(reason: &str) {
    assert!(std::env::var("LATEMUX_REQUIRE_TOOLS").as_deref() != Ok("1"), "{reason}");
    println!("SKIPPED: {reason}");
}
