//! `latemux lab run`: cells measured on this machine, and what is left of them.

use crate::lab_usage;
use latemux_link::network::Enclosure;
use latemux_testmedia::{process::tool, recipe};
use serde_json::Value;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const EXPERIMENT: &str = "
description = 'Requests and bytes of a short title.'
repeats = { min = 1 }
content = { title = 'short', layout = 'mp4' }
load = { kind = 'list', connections = 1, before = '$before' }
[matrix]
setup = ['ipp', 'n-single']
before = ['none', 'same', 'hls']
format = ['dash']
";

const TITLE: &str = "
description = 'Three segments.'
seconds = 12
size = [192, 108]
frames = 24
gop = 48
video = ['100kbit/s']
audio = '64kbit/s'
";

/// A library with one experiment, and the folder of a run.
pub(crate) struct Lab {
    pub(crate) folder: TempDir,
    pub(crate) net: &'static str,
}

/// Returns the ways in which functions can reach each other on this machine.
#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
pub(crate) fn nets() -> Vec<&'static str> {
    match Enclosure::check() {
        Ok(()) => vec!["loopback", "hosts"],
        Err(why) => {
            println!("SKIPPED: hosts: {why}");
            vec!["loopback"]
        }
    }
}

impl Lab {
    /// Makes the library, or returns `None` if nginx is not installed.
    pub(crate) fn new(net: &'static str) -> Option<Self> {
        tool("nginx")?;
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for sub in ["lab/experiments", "lab/setups", "lab/titles", "examples/setups"] {
            fs::create_dir_all(folder.path().join(sub)).unwrap();
        }
        for copied in [
            "lab/setups/ipp.toml",
            "lab/setups/n-single.toml",
            "lab/setups/c.toml",
            "lab/setups/d.toml",
            "lab/setups/lt-single.toml",
            "examples/setups/ipp.toml",
            "examples/setups/lt-single.toml",
        ] {
            fs::copy(root.join(copied), folder.path().join(copied)).unwrap();
        }
        fs::write(folder.path().join("lab/titles/short.toml"), TITLE).unwrap();
        fs::write(folder.path().join("lab/experiments/counts.toml"), EXPERIMENT).unwrap();
        Some(Self { folder, net })
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["lab", "run"]).arg(self.folder.path().join("lab/experiments/counts.toml"));
        command.args(["--net", self.net]);
        // Titles are made once for all tests.
        command.arg("--out").arg(self.out()).arg("--content").arg(recipe::folder().join("lab"));
        command
    }

    pub(crate) fn run(&self) -> Output {
        self.command().output().unwrap()
    }

    pub(crate) fn start(&self) -> Child {
        self.command().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.out().join("cells.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the processes that mention the folder of the run: their IDs and commands.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let out = self.out().to_str().unwrap().to_owned();
        let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let path = entry.unwrap().path();
            let id = path.file_name()?.to_str()?.parse().ok()?;
            let command = fs::read(path.join("cmdline")).ok()?;
            Some((id, String::from_utf8_lossy(&command).replace('\0', " ")))
        });
        processes.filter(|(_, command)| command.contains(&out)).collect()
    }

    pub(crate) fn wait_until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if is_true(self) {
                return;
            }
            thread::yield_now();
        }
        panic!("{what}: {:?}", self.processes());
    }
}

#[test]
fn a_cache_of_indexes_saves_their_reads() {
    let Some(lab) = Lab::new("loopback") else { return };
    let path = lab.folder.path().join("lab/experiments/counts.toml");
    let indexed = EXPERIMENT
        .replace("layout = 'mp4'", "layout = 'mp4-index'")
        .replace("['ipp', 'n-single']", "['c', 'd']")
        .replace("['none', 'same', 'hls']", "['same']");
    fs::write(path, indexed).unwrap();
    assert!(lab.run().status.success());
    for record in lab.records() {
        let measured = &record["measured"];
        // Server manifest, index MP4, the start of the media, media; the cache keeps the first two.
        let each = if record["point"]["setup"] == "c" { 4 } else { 2 };
        assert_eq!(
            measured["storage_requests"].as_u64().unwrap(),
            measured["requests"].as_u64().unwrap() * each,
            "{record}"
        );
    }
    assert_eq!(lab.records().len(), 2);
}

/// Returns the processors that a process may use, as a list such as `0-1`.
fn processors(id: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned())
}

#[test]
fn a_fixed_rate_is_offered_to_an_origin_with_few_processors_and_a_small_cache() {
    let Some(lab) = Lab::new("loopback") else { return };
    let path = lab.folder.path().join("lab/experiments/counts.toml");
    let offered = EXPERIMENT
        .replace("load", "origin = { segment-duration = '6s', cores = 1, cache-memory = '$cache' }\nload")
        .replace("before = '$before'", "rate = 40, duration = '1s'")
        .replace("before = ['none', 'same', 'hls']", "cache = ['20%', '1GiB']")
        .replace("'ipp', ", "")
        + "[[claims]]\ntext = 'x'\nvalue = 'MB/s'\nfit = 'R × S × B'\nat_least = 0.98\n";
    fs::write(path, offered).unwrap();
    let run = lab.start();
    lab.wait_until("an origin on one processor", |lab| {
        let origins = lab.processes().into_iter().filter(|(_, command)| command.contains("--cache-memory"));
        let mut processors = origins.filter_map(|(id, _)| processors(id));
        processors.any(|list| list.parse::<u32>().is_ok())
    });
    let out = run.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    let records = lab.records();
    assert_eq!(records.len(), 2);
    for record in &records {
        let measured = &record["measured"];
        assert_eq!((&measured["requests"], &measured["failures"]), (&40.into(), &0.into()), "{record}");
        // 40 requests for 6 s of 164 kbit/s.
        assert_eq!(record["offered"], serde_json::json!({ "requests": 40.0, "bytes": 4_920_000.0 }));
        let bytes = |name: &str| measured[name].as_u64().unwrap();
        // Two segments of video and two of audio: ten passes, of which all but the first one are
        // hits if the cache is large enough.
        match record["point"]["cache"].as_str().unwrap() {
            "1GiB" => assert!(5 * bytes("source_read") < bytes("source_used"), "{record}"),
            _ => assert!(2 * bytes("source_read") > bytes("source_used"), "{record}"),
        }
    }
    // Two cells are too few for a fit.
    let report =
        Command::new(env!("CARGO_BIN_EXE_latemux")).args(["lab", "report"]).arg(lab.out()).output().unwrap();
    assert!(String::from_utf8(report.stdout).unwrap().starts_with("counts: open: x\n"));
    assert!(!lab.out().join("fits.csv").exists());
}

pub(crate) fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn requests_and_bytes_of_each_cell_are_counted() {
    nets().into_iter().filter_map(Lab::new).for_each(|lab| count(&lab));
}

/// Returns the network interfaces of this machine.
fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/dev").unwrap();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

fn count(lab: &Lab) {
    let before = interfaces();
    let run = lab.start();
    lab.wait_until("an origin", |lab| {
        lab.processes().iter().any(|(_, command)| command.contains("--listen"))
    });
    assert_eq!(interfaces(), before, "the machine's own network has changed");
    let out = run.wait_with_output().unwrap();
    assert_eq!(interfaces(), before, "an interface is left");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8(out.stdout).unwrap().lines().count(), 6);
    assert!(lab.processes().is_empty() && !lab.out().join("work").exists());
    let paths = recipe::folder().join("lab/short/mp4/dash.json");
    let paths: Value = serde_json::from_slice(&fs::read(paths).unwrap()).unwrap();
    let segments = paths["segments"].as_array().unwrap().len();
    let records = lab.records();
    assert_eq!(records.len(), 6);
    for record in &records {
        let measured = &record["measured"];
        assert_eq!((&measured["requests"], &measured["failures"]), (&segments.into(), &0.into()), "{record}");
        assert_eq!(measured["bytes"], paths["bytes"], "{record}");
        let storage =
            (measured["storage_requests"].as_u64().unwrap(), measured["storage_bytes"].as_u64().unwrap());
        match (record["point"]["setup"].as_str().unwrap(), record["point"]["before"].as_str().unwrap()) {
            // Each segment reads the server manifest, both ends of the file, and its media.
            ("ipp", _) => assert_eq!(storage.0, segments as u64 * 4, "{record}"),
            ("n-single", "none") => assert!(storage.0 > 0 && storage.0 <= segments as u64, "{record}"),
            // Whatever the format was, every byte is cached.
            _ => assert_eq!(storage, (0, 0), "{record}"),
        }
        // So do its counters, and its cache keeps the file, or nothing.
        let origin = &measured["origin"];
        // Errors of the requests that find out if the origin answers may be among its bytes.
        let excess = origin["sent"].as_u64().unwrap() - measured["bytes"].as_u64().unwrap();
        assert!(excess < 1000, "{record}");
        assert_eq!(origin["storage_requests"].as_u64(), Some(storage.0), "{record}");
        assert_eq!(origin["storage_bytes"].as_u64(), Some(storage.1), "{record}");
        assert_eq!(measured["cached"].as_u64() > Some(0), record["point"]["setup"] == "n-single", "{record}");
        assert!(measured["storage_wire"].as_u64().unwrap() >= storage.1, "{record}");
        let latency = |name: &str| measured[name].as_f64().unwrap();
        assert!(
            latency("latency_median") <= latency("latency_p99") && latency("first_byte") > 0.0,
            "{record}"
        );
        // The origin's own metrics agree with the log of storage.
        let source = |name: &str| measured[name].as_u64().unwrap();
        assert!(source("source_used") > 0, "{record}");
        let reads_media = storage.0 > 0;
        assert_eq!(source("source_read") > 0, reads_media, "{record}");
        assert!(source("source_read") <= storage.1, "{record}");
        let key = record["key"].as_str().unwrap();
        lab_usage::check(lab, record, &lab.out().join("cells").join(key));
    }
    let report =
        Command::new(env!("CARGO_BIN_EXE_latemux")).args(["lab", "report"]).arg(lab.out()).output().unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let summary = fs::read_to_string(lab.out().join("summary.csv")).unwrap();
    assert_eq!(summary.lines().filter(|line| line.contains("setup=n-single,1,0,")).count(), 3, "{summary}");
    let cells = fs::read_to_string(lab.out().join("cells.csv")).unwrap();
    assert_eq!(cells.lines().filter(|line| line.contains(",1,1,")).count(), 6, "{cells}");
    let machine: Value = serde_json::from_slice(&fs::read(lab.out().join("machine.json")).unwrap()).unwrap();
    assert_eq!(machine["net"], lab.net);
    assert!(
        machine["cores"].as_u64().unwrap() > 0 && machine["memory"].as_u64().unwrap() > 1 << 20,
        "{machine}"
    );
    // There is nothing left to measure.
    let again = lab.run();
    assert!(again.status.success() && again.stdout.is_empty());
    assert_eq!(lab.records(), records);
}

#[test]
fn another_program_is_measured_again() {
    let Some(lab) = Lab::new("loopback") else { return };
    let other = lab.folder.path().join("latemux");
    fs::copy(env!("CARGO_BIN_EXE_latemux"), &other).unwrap();
    let run = || {
        let mut command = lab.command();
        command.args(["--only", "setup=n-single", "--only", "before=none", "--program"]).arg(&other);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        lab.records()
    };
    assert_eq!(run().len(), 1);
    assert_eq!(run().len(), 1, "nothing has changed");
    // The program is the same one, built again: its version has not changed.
    fs::OpenOptions::new().append(true).open(&other).unwrap().write_all(b"x").unwrap();
    let records = run();
    assert_eq!(records.len(), 2);
    assert_ne!(records[0]["key"], records[1]["key"]);
}

#[test]
fn a_run_that_was_killed_leaves_no_process_and_goes_on() {
    nets().into_iter().filter_map(Lab::new).for_each(|lab| kill_and_go_on(&lab));
}

fn kill_and_go_on(lab: &Lab) {
    let interfaces_before = interfaces();
    let mut run = lab.start();
    lab.wait_until("a record", |lab| !lab.records().is_empty());
    signal(&run, "-KILL");
    run.wait().unwrap();
    lab.wait_until("processes are left", |lab| lab.processes().is_empty());
    assert_eq!(interfaces(), interfaces_before);
    let before = lab.records();
    assert!(before.len() < 6, "the run was not killed in the middle");
    // A line that was not completed.
    let path = lab.out().join("cells.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "{\"key\":").unwrap();
    assert!(lab.run().status.success());
    let after = lab.records();
    assert_eq!((after.len(), &after[..before.len()]), (6, &before[..]));
    assert!(!lab.out().join("work").exists());
}

#[test]
fn a_run_that_was_interrupted_leaves_nothing() {
    nets().into_iter().filter_map(Lab::new).for_each(|lab| interrupt(&lab));
}

fn interrupt(lab: &Lab) {
    let before = interfaces();
    let run = lab.start();
    lab.wait_until("an origin", |lab| {
        lab.processes().iter().any(|(_, command)| command.contains("--listen"))
    });
    signal(&run, "-INT");
    let out = run.wait_with_output().unwrap();
    assert!(!out.status.success());
    assert_eq!(lab.processes(), Vec::new());
    assert!(!lab.out().join("work").exists());
    assert_eq!(interfaces(), before);
}

#[test]
fn a_function_that_does_not_start_is_a_failure_of_its_cell() {
    for lab in nets().into_iter().filter_map(Lab::new) {
        let before = interfaces();
        let ipp = lab.folder.path().join("examples/setups/ipp.toml");
        fs::write(ipp, "no_such_key = 1").unwrap();
        let out = lab.run();
        let error = String::from_utf8(out.stderr).unwrap();
        assert!(error.starts_with("latemux: 3 measurements failed, for the reasons in "), "{error}");
        assert!(error.ends_with("cells.jsonl: run the same command again to repeat them\n"), "{error}");
        assert_eq!(lab.records().iter().filter(|record| record["measured"].is_null()).count(), 3);
        assert!(lab.processes().is_empty() && !lab.out().join("work").exists());
        assert_eq!(interfaces(), before);
    }
}

/// A set-up without a link.
const NEAR: &str = "
description = 'One host.'
chain = [
  { id = 'storage', host = 'one' },
  { id = 'origin', host = 'one', config = 'ipp' },
  { id = 'load', host = 'one' },
]
";

/// Returns the command of a run by a user who may not make network namespaces: there is a limit of
/// 0 in a user namespace.
fn without_rights(lab: &Lab) -> Command {
    let own = lab.command();
    let mut command = Command::new(own.get_program());
    if Enclosure::check().is_ok() {
        command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c"]);
        command.arg("echo 0 >/proc/sys/user/max_net_namespaces; exec \"$@\"").arg("sh");
        command.arg(own.get_program());
    }
    command.args(own.get_args());
    command
}

#[test]
fn without_rights_a_run_on_hosts_is_refused_before_anything_starts() {
    let Some(mut lab) = Lab::new("auto") else { return };
    lab.net = "hosts";
    let out = without_rights(&lab).output().unwrap();
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && error.lines().count() == 1, "{error}");
    assert!(error.contains("namespace"), "{error}");
    assert!(!lab.out().exists());
}

#[test]
fn without_rights_a_run_is_loopback_and_lists_the_cells_that_it_skips() {
    let Some(lab) = Lab::new("auto") else { return };
    fs::write(lab.folder.path().join("lab/setups/near.toml"), NEAR).unwrap();
    let lossy = EXPERIMENT
        .replace("load", "links = { wan = { loss = '1%' } }\nload")
        .replace("'n-single'", "'near'")
        .replace("['none', 'same', 'hls']", "['none']");
    fs::write(lab.folder.path().join("lab/experiments/counts.toml"), lossy).unwrap();
    let out = without_rights(&lab).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text} {}", String::from_utf8_lossy(&out.stderr));
    let [mode, skipped, measured] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(mode.starts_with("the network is loopback, because namespaces cannot be made: "), "{text}");
    assert!(
        skipped.ends_with(" skipped: the parameter 'loss' of 'wan' needs simulated hosts (--net hosts)"),
        "{text}"
    );
    assert!(measured.contains("setup=near"), "{text}");
    let records = lab.records();
    assert!(records.len() == 1 && !records[0]["measured"].is_null(), "{records:?}");
    let machine: Value = serde_json::from_slice(&fs::read(lab.out().join("machine.json")).unwrap()).unwrap();
    assert_eq!(machine["net"], "loopback");
}

/// A script in place of the one that plays titles in a browser.
const SCRIPT: &str = "
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
const [, out] = process.argv.join(' ').match(/--out (\\S+)/) ?? [];
if (out) CASE
";

#[test]
fn a_player_has_its_results_in_the_record_or_the_reason_of_its_failure() {
    if tool("node").is_none() {
        return;
    }
    let results = r#"{"began": 0, "player": "p", "startups": [9, 3, 4.5], "stalls": 1, "requests": 2,
        "failures": 0, "bytes": 5, "latency": 7, "seconds": 8}"#;
    let right = format!("writeFileSync(out, `{results}`)");
    let fewer = right.replace(", 4.5]", "]");
    for lab in nets().into_iter().filter_map(Lab::new) {
        let player = EXPERIMENT
            .replace(
                "load = { kind = 'list', connections = 1, before = '$before' }",
                "client = 'player'\nplayer = { starts = 3 }",
            )
            .replace("before = ['none', 'same', 'hls']\n", "")
            .replace("'ipp', ", "");
        fs::write(lab.folder.path().join("lab/experiments/counts.toml"), player).unwrap();
        let script = lab.folder.path().join("lab/player/play.mjs");
        let skipped = lab.run();
        let text = String::from_utf8(skipped.stdout).unwrap();
        assert!(skipped.status.success() && text.lines().count() == 1, "{text}");
        assert!(
            text.contains("skipped: the player ") && text.ends_with("play.mjs does not exist\n"),
            "{text}"
        );
        fs::create_dir_all(script.parent().unwrap()).unwrap();
        let with = |case: &str| fs::write(&script, SCRIPT.replace("CASE", case)).unwrap();
        with("throw 1; else { console.error('no browser'); process.exit(1); }");
        assert!(
            String::from_utf8(lab.run().stdout).unwrap().ends_with("the player cannot start: no browser\n")
        );
        assert!(lab.records().is_empty());
        with("{ console.error('first\\nlast\\n\\n'); process.exit(1); }");
        assert!(!lab.run().status.success());
        with(&fewer);
        assert!(!lab.run().status.success());
        with("setInterval(() => {}, 1000)");
        let run = lab.start();
        lab.wait_until("a player", |lab| {
            lab.processes().iter().any(|(_, command)| command.contains("--manifest"))
        });
        signal(&run, "-INT");
        run.wait_with_output().unwrap();
        assert_eq!(lab.processes(), Vec::new());
        // Its parent has ended before it has used half a second of processor time.
        let orphan = r#"node -e "while (process.cpuUsage().user < 500000);" &"#;
        with(&format!("{{ spawnSync('sh', ['-c', `{orphan}`], {{ stdio: 'ignore' }}); {right} }}"));
        let out = lab.run();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let records = lab.records();
        let error = |record: &Value| record["error"].as_str().unwrap_or_default().to_owned();
        let [failed, wrong, measured] = &records[..] else { panic!("{records:?}") };
        assert!(error(failed).starts_with("player-lab-") && error(failed).ends_with("-r1: last"), "{failed}");
        assert!(
            error(wrong).ends_with("played.json: expected 3 start-up delays above 0, found 2"),
            "{wrong}"
        );
        let measured = &measured["measured"];
        assert_eq!(
            (&measured["startup"], &measured["startup_median"]),
            (&5.5.into(), &4.5.into()),
            "{measured}"
        );
        assert_eq!(measured["startups"], serde_json::json!([9.0, 3.0, 4.5]));
        assert_eq!((&measured["player"], &measured["stalls"]), (&"p".into(), &1.into()), "{measured}");
        assert!(measured["functions"]["player"]["processor"].as_f64() >= Some(0.5), "{measured}");
    }
}

#[test]
fn links_are_lines_between_hosts_and_cells_that_need_them_are_skipped_without() {
    for lab in nets().into_iter().filter_map(Lab::new) {
        let links =
            "links = { wan = { rate = '16Mbit/s', rtt = '20ms', loss = '1%', congestion = 'reno' } }\nload";
        let far = EXPERIMENT
            .replace("load", links)
            .replace("['none', 'same', 'hls']", "['none']")
            .replace("'n-single'", "'lt-single'");
        fs::write(lab.folder.path().join("lab/experiments/counts.toml"), far).unwrap();
        let out = lab.run();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success(), "{text} {}", String::from_utf8_lossy(&out.stderr));
        if lab.net == "loopback" {
            let skipped = "skipped: the parameter 'loss' of 'wan' needs simulated hosts (--net hosts)";
            assert_eq!(text.lines().filter(|line| line.ends_with(skipped)).count(), 2, "{text}");
            assert!(lab.records().is_empty());
            continue;
        }
        assert_eq!(lab.records().len(), 2);
        for record in lab.records() {
            let measured = &record["measured"];
            assert_eq!(measured["failures"], 0, "{record}");
            let carried = measured["link_bytes"].as_u64().unwrap();
            let read = measured["storage_bytes"].as_u64().unwrap();
            // Heads of responses, and those of packets.
            assert!(carried > read && carried < 2 * read, "{record}");
            // At this rate the bytes alone take so long, and each request a round trip.
            let requests = measured["storage_requests"].as_u64().unwrap();
            assert!(measured["seconds"].as_f64().unwrap() > read as f64 / 2e6, "{record}");
            assert!(requests > 0, "{record}");
        }
    }
}
