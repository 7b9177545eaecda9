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
        text.contains(
            "f-cold: How fast is each set-up if nothing is cached yet?\n192 cells, 3 to 10 times each"
        ),
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

/// Each mistake is reported in one line before the folder of the run is made.
#[test]
fn a_run_with_a_mistake_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for copied in ["lab/setups/ipp.toml", "lab/titles/quick.toml", "examples/setups/ipp.toml"] {
        let path = folder.path().join(copied);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(root().join(copied), path).unwrap();
    }
    let numbers: Vec<String> = (1..=100_000).map(|number| number.to_string()).collect();
    let setup = fs::read_to_string(root().join("lab/setups/ipp.toml")).unwrap();
    let title = fs::read_to_string(root().join("lab/titles/quick.toml")).unwrap();
    let experiment = "description = 'x'\ncontent = { title = 'quick', layout = 'mp4' }\n\
                      load = { kind = 'list', connections = '$n' }\n[matrix]\nsetup = ['ipp']\nformat = ['dash']\nn = [1]\n";
    let large =
        title.replace("seconds = 24", "seconds = 21600").replace("[\"800kbit/s\"]", "[\"999Gbit/s\"]");
    let looped =
        setup.replace("host = \"edge\", config", "host = \"edge\", from = [\"wan\", \"front\"], config");
    let looped = looped.replace(
        "{ id = \"load\"",
        "{ id = \"front\", function = \"cache\", host = \"edge\", mode = \"off\" },\n  { id = \"load\"",
    );
    let setup = setup.as_str();
    let title = title.as_str();
    for (case, setup, title, experiment, why) in [
        ("only", setup, title, experiment, "no cell has the chosen values of axes"),
        ("loop", &looped, title, experiment, "form a loop"),
        (
            "function",
            &setup.replace("function = \"link\"", "function = \"wire\""),
            title,
            experiment,
            "unknown function 'wire'",
        ),
        (
            "key",
            &setup.replace("config =", "colour = 1, config ="),
            title,
            experiment,
            "origin has no parameter 'colour'",
        ),
        (
            "cells",
            setup,
            title,
            &experiment.replace("[1]", &format!("[{}]", numbers.join(","))),
            "100000 cells, more than 10000",
        ),
        ("disk", setup, &large, experiment, "GB of disk, but"),
    ] {
        fs::write(folder.path().join("lab/setups/ipp.toml"), setup).unwrap();
        fs::write(folder.path().join("lab/titles/quick.toml"), title).unwrap();
        fs::create_dir_all(folder.path().join("lab/experiments")).unwrap();
        let path = folder.path().join("lab/experiments/x.toml");
        fs::write(&path, experiment).unwrap();
        let out = folder.path().join("run");
        let mut arguments = vec!["run", path.to_str().unwrap(), "--out", out.to_str().unwrap()];
        if case == "only" {
            arguments.extend(["--only", "n=2"]);
        } else {
            arguments.extend(["--net", "loopback"]);
        }
        let output = lab(&arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && text.lines().count() == 1 && text.contains(why),
            "{case}: {text}"
        );
        assert!(!out.exists() && output.stdout.is_empty(), "{case}");
    }
}

#[test]
fn a_document_that_is_not_ours_is_not_submitted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.wdd");
    fs::write(&path, "{}").unwrap();
    let out = lab(&["submit", path.to_str().unwrap(), "--engine", "http://127.0.0.1:1/"]);
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && text.lines().count() == 1 && text.contains("x.wdd"), "{text}");
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
    let mut arguments = vec!["plan".to_owned(), "--documents".to_owned(), documents.to_owned()];
    arguments.extend(experiments());
    let out = lab(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    check_variety(folder.path());
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

/// Checks that the task documents in a folder have each function, an origin that reads from two
/// functions, and copies of a title.
fn check_variety(folder: &Path) {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let tasks = files.filter(|path| path.extension().is_some_and(|extension| extension == "tdd"));
    let tasks: Vec<serde_json::Value> =
        tasks.map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap()).collect();
    let is_any = |is: &dyn Fn(&str, &serde_json::Value) -> bool| {
        tasks.iter().any(|task| is(task["general"]["name"].as_str().unwrap(), task))
    };
    for function in latemux_lab::function::Function::ALL {
        assert!(is_any(&|name, _| name == function.name()), "{function}");
    }
    let inputs = |task: &serde_json::Value| task["input"]["media-parameters"].as_array().unwrap().len();
    assert!(is_any(&|name, task| name == "origin" && inputs(task) == 2));
    let has = |task: &serde_json::Value, wanted: &str| {
        let parameters = task["configuration"]["parameters"].as_array().unwrap();
        parameters.iter().any(|parameter| parameter["name"] == wanted)
    };
    for function in ["storage", "load"] {
        assert!(is_any(&|name, task| name == function && has(task, "copies")), "{function}");
    }
}

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(reason: &str) {
    assert!(std::env::var("LATEMUX_REQUIRE_TOOLS").as_deref() != Ok("1"), "{reason}");
    println!("SKIPPED: {reason}");
}
