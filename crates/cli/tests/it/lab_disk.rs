//! `latemux lab run` on disks that are too small.

use crate::{full_disk::may_mount, lab_run::Lab};
use latemux_testmedia::recipe;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

/// Runs the lab with a small file system at a folder.
fn run(lab: &Lab, small: &Path, size: &str, script: &str, arguments: &[&Path]) -> std::process::Output {
    fs::create_dir_all(small).unwrap();
    let mount = format!("mount -t tmpfs -o size={size} tmpfs \"$1\" && {{ {script}\n}}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &mount, env!("CARGO_BIN_EXE_latemux")]).arg(small);
    command.arg(lab.folder.path().join("lab/experiments/counts.toml")).args(arguments).output().unwrap()
}

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn lab() -> Option<Lab> {
    let lab = Lab::new("loopback")?;
    if !may_mount(lab.folder.path().to_str().unwrap()) {
        println!("SKIPPED: no file system may be mounted here");
        return None;
    }
    let path = lab.folder.path().join("lab/experiments/counts.toml");
    let text = fs::read_to_string(&path).unwrap();
    let one =
        text.replace("['ipp', 'n-single']", "['lt-single']").replace("['none', 'same', 'hls']", "['none']");
    fs::write(path, one).unwrap();
    Some(lab)
}

/// The start of each command. The small file system is `$1`.
const RUN: &str = "\"$0\" lab run \"$2\" --net loopback";

/// nginx goes on without its cache, and clients without a response.
#[test]
fn a_cell_on_a_disk_that_became_full_was_recorded() {
    let Some(lab) = lab() else { return };
    let small = lab.folder.path().join("small");
    let records = lab.folder.path().join("cells.jsonl");
    // Leaves room for configurations and logs, but not for a segment with its source ranges.
    let script = format!(
        "{RUN} --out \"$1/run\" --content \"$3\" &
         until [ -e \"$1/run/machine.json\" ]; do :; done
         head -c $(((2048 - 150) * 1024)) /dev/zero >\"$1/ballast\"
         wait $!; status=$?; cp \"$1/run/cells.jsonl\" \"$4\"; exit $status"
    );
    let content = recipe::folder().join("lab");
    let out = run(&lab, &small, "2m", &script, &[&content, &records]);
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(error.starts_with("latemux: 1 measurements failed, for the reasons in "), "{error}");
    let record: Value = serde_json::from_slice(&fs::read(records).unwrap()).unwrap();
    let reason = record["error"].as_str().unwrap_or_default();
    // nginx reports the number of bytes if a part of a write still fits.
    let is_full = reason.contains("No space left on device") || reason.contains("has written only");
    assert!(record["measured"].is_null() && is_full, "{record}");
}

#[test]
fn the_disk_of_titles_was_not_checked() {
    let Some(lab) = lab() else { return };
    let small = lab.folder.path().join("small");
    for (flags, other) in
        [("--content \"$1\" --out \"$3\"", "run"), ("--out \"$1\" --content \"$3\"", "titles")]
    {
        let out = run(&lab, &small, "64k", &format!("{RUN} {flags}"), &[&lab.folder.path().join(other)]);
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && error.lines().count() == 1, "{error}");
        let start = format!("latemux: {}: needs 0.", small.display());
        assert!(error.starts_with(&start) && error.contains("MB of disk, but 0.1 MB are free: "), "{error}");
        assert!(!lab.folder.path().join(other).exists());
    }
}
