//! `latemux lab clean`: what is left of runs that were killed.

use crate::lab_run::{Lab, nets, signal};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

fn clean(run: &Path, content: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["lab", "clean"]).arg(run);
    if let Some(content) = content {
        command.arg("--content").arg(content);
    }
    command.output().unwrap()
}

/// Returns the standard output of a command that succeeds.
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the start time of a process, field 22 of proc_pid_stat(5).
fn start_time(id: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.to_owned())
}

/// Returns the processes that a run has recorded: the number and the start time of each.
fn recorded(lab: &Lab) -> Vec<(String, String)> {
    let text = fs::read_to_string(lab.out().join("work/pids")).unwrap_or_default();
    let parse = |line: &str| line.split_once('-').map(|(id, start)| (id.to_owned(), start.to_owned()));
    text.lines().filter_map(parse).collect()
}

/// Starts a run with a long load, and waits until its tasks and their servers are recorded.
fn start(lab: &Lab) -> Child {
    let path = lab.folder.path().join("lab/experiments/counts.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("before = '$before'", "duration = '120s', before = '$before'")).unwrap();
    let run = lab.start();
    // The run, three tasks, and the servers of two of them.
    lab.wait_until("six processes", |lab| recorded(lab).len() >= 6);
    run
}

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn what_a_killed_run_has_left_is_removed() {
    for lab in nets().into_iter().filter_map(Lab::new) {
        let mut run = start(&lab);
        signal(&run, "-KILL");
        run.wait().unwrap();
        lab.wait_until("processes are left", |lab| lab.processes().is_empty());
        let work = lab.out().join("work");
        assert!(work.exists());
        // One process that outlived the run, and another one that has got a number of the run.
        let [mut ours, mut other] = [sleeper(), sleeper()];
        let [own, foreign] = [&ours, &other].map(|child| child.id().to_string());
        let list = fs::read_to_string(work.join("pids")).unwrap();
        let lines = format!("{own}-{}\n{foreign}-1\n", start_time(&own).unwrap());
        fs::write(work.join("pids"), list + &lines).unwrap();
        let records = lab.records();
        let text = said(&clean(&lab.out(), None));
        assert_eq!(text, format!("processes ended: 1\nremoved: {}\n", work.display()));
        assert!(!ours.wait().unwrap().success() && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!work.exists() && lab.records() == records);
        assert_eq!(said(&clean(&lab.out(), None)), "nothing to remove\n");
    }
}

#[test]
fn a_run_that_goes_on_is_ended() {
    for lab in nets().into_iter().filter_map(Lab::new) {
        let mut run = start(&lab);
        for (id, start) in &recorded(&lab)[..6] {
            // Numbers in a namespace of processes are others.
            assert_eq!(start_time(id).as_ref(), Some(start), "{:?}", lab.processes());
        }
        let text = said(&clean(&lab.out(), None));
        assert!(text.starts_with("processes ended: "), "{text}");
        assert!(!run.wait().unwrap().success());
        lab.wait_until("processes are left", |lab| lab.processes().is_empty());
        assert!(!lab.out().join("work").exists());
    }
}

#[test]
fn a_title_that_was_not_completed_is_removed() {
    let Some(lab) = Lab::new("loopback") else { return };
    let title = "description = 'x'\nseconds = 24\nsize = [1920, 1080]\nframes = 24\ngop = 48\n\
                 video = ['8Mbit/s']\naudio = '64kbit/s'\n";
    fs::write(lab.folder.path().join("lab/titles/short.toml"), title).unwrap();
    let content = lab.folder.path().join("titles");
    let mut command = lab.command();
    // The last value of a flag would not replace the first one.
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let end = arguments.iter().position(|argument| argument == "--content").unwrap();
    command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(&arguments[..end]).arg("--content").arg(&content);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let parts = || -> Vec<_> {
        let entries = fs::read_dir(content.join("short")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    lab.wait_until("a title", |_| parts().iter().any(|part| part.join("video-0.part.mp4").exists()));
    // A living process still makes its title.
    assert_eq!(said(&clean(&lab.out(), Some(&content))), "nothing to remove\n");
    signal(&run, "-KILL");
    run.wait().unwrap();
    let [part] = &parts()[..] else { panic!("{:?}", parts()) };
    let text = said(&clean(&lab.out(), Some(&content)));
    assert_eq!(text, format!("removed: {}\n", part.display()));
    assert!(!part.exists());
}

#[test]
fn a_folder_of_something_else_is_not_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("work")).unwrap();
    let output = clean(folder.path(), None);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.lines().count() == 1, "{error}");
    assert!(error.ends_with("is not the folder of a run: it has no machine.json\n"), "{error}");
    assert!(folder.path().join("work").exists());
}
