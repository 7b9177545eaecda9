//! The command line: `serve --print-config`, errors, and `inspect`.

use crate::{
    client::get,
    server::{Server, samples},
    store::Nginx,
};
use latemux_testmedia::{
    quicktime::{QuickTime, quarter_turn, quicktime},
    recipe,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn latemux(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latemux")).args(args).output().expect("latemux runs")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

#[test]
fn printed_configuration_is_read_back_and_flags_override_it() {
    let printed = latemux(&["serve", "/films", "--segment-duration", "6s", "--print-config"]);
    assert!(printed.status.success(), "{}", stderr(&printed));
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), stdout(&printed)).unwrap();
    let path = file.path().to_str().unwrap();
    let again = latemux(&["serve", "--config", path, "--listen", "127.0.0.1:1", "--print-config"]);
    assert_eq!(
        stdout(&again),
        stdout(&printed).replace("listen = \"127.0.0.1:8080\"", "listen = \"127.0.0.1:1\"")
    );
    assert!(stdout(&again).contains("segment_duration = \"6s\""), "{}", stdout(&again));
}

#[test]
fn an_unknown_key_is_named_in_the_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "source = '.'\n[http]\nmax_conections = 5\n").unwrap();
    let refused = latemux(&["serve", "--config", file.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("max_conections"), "{}", stderr(&refused));
}

#[test]
fn the_longer_help_texts_were_not_shown() {
    let help = latemux(&["--help"]);
    assert!(stdout(&help).starts_with("Serve stored MP4 files as video on demand"), "{}", stdout(&help));
    for line in stdout(&help).lines().skip_while(|line| *line != "Commands:").skip(1) {
        // Each command has one line.
        assert!(line.is_empty() || line.starts_with("  ") && !line.starts_with("   "), "{line}");
        if line.is_empty() {
            break;
        }
    }
    for (command, text) in [
        ("pack", "A CMAF file holds one track."),
        ("load", "Failures are counted by reason, and make the command fail."),
        ("capture", "The first failure ends the"),
        ("report", "one file for each machine"),
        ("index", "An index MP4 holds the sample tables"),
    ] {
        let help = latemux(&[command, "--help"]);
        assert!(stdout(&help).contains(text), "{}", stdout(&help));
    }
    let longest = stdout(&help).lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "{}", stdout(&help));
}

#[test]
fn errors_are_one_line() {
    for (args, word) in [
        (&["serve"][..], "nothing to serve"),
        (&["serve", "/nonexistent/latemux"], "/nonexistent/latemux"),
        (&["serve", ".", "--listen", "192.0.2.1:1"], "192.0.2.1:1"),
        (&["serve", ".", "--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"], "/nonexistent"),
        (&["inspect", "/nonexistent.mp4"], "/nonexistent.mp4"),
    ] {
        let refused = latemux(args);
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        let text = stderr(&refused);
        assert!(text.contains(word) && text.lines().count() == 1, "{args:?}: {text}");
    }
}

#[test]
fn inspect_reports_the_same_as_json_and_as_text() {
    let file = format!("{}/ferry.mp4", samples());
    let json = latemux(&["inspect", &file, "--json"]);
    assert!(json.status.success(), "{}", stderr(&json));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    let words = latemux(&["inspect", &file]);
    let tracks = report["tracks"].as_array().unwrap();
    assert_eq!(tracks.len(), 2, "{report:#}");
    for track in tracks {
        for key in ["name", "codecs"] {
            assert!(stdout(&words).contains(track[key].as_str().unwrap()), "{}", stdout(&words));
        }
        assert!(track["protocols"]["dash"]["bandwidth"].as_u64().unwrap() > 10_000, "{track:#}");
    }
    assert_eq!(report["problems"].as_array().unwrap().len(), 0, "{report:#}");
    let segments = report["grid"]["segments"].as_u64().unwrap();
    assert!(segments > 1 && stdout(&words).contains(&format!("{segments} segments")), "{}", stdout(&words));
}

#[test]
fn inspect_finds_closed_captions_and_says_how_to_declare_them() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/media");
    let folder = std::env::var_os("LATEMUX_MEDIA").map_or_else(beside, PathBuf::from);
    let hevc = folder.join("androidx/fragmented_captions_h265.mp4");
    let none = format!("{}/ferry.mp4", samples());
    let inspected = |file: &str| {
        let json = latemux(&["inspect", file, "--captions", "--json"]);
        assert!(json.status.success(), "{}", stderr(&json));
        let report: Value = serde_json::from_slice(&json.stdout).unwrap();
        let words = stdout(&latemux(&["inspect", file, "--captions"])).to_owned();
        (report["captions"][0].clone(), words)
    };
    let (found, words) = inspected(&none);
    assert_eq!((&found["messages"], &found["channels"]), (&0.into(), &serde_json::json!([])), "{found}");
    assert!(words.contains("<param name=\"captions\" value=\"\" />"), "{words}");
    if !hevc.exists() {
        println!("skipped: {} is not there", hevc.display());
        return;
    }
    // The encoder copies the captions, and reorders the frames that hold them.
    let args = format!("-i {} -c:v libx264 -bf 3 -b_strategy 0 -a53cc 1", hevc.display());
    let avc = recipe::make("captions-avc", "mp4", &args);
    for file in [hevc, avc] {
        let (found, words) = inspected(file.to_str().unwrap());
        // ffmpeg decodes captions of CC1 from both.
        assert_eq!(found["channels"], serde_json::json!(["CC1"]), "{found}");
        assert!(found["samples"].as_u64() > Some(40), "{found}");
        assert!(words.contains("<param name=\"captions\" value=\"CC1=LANGUAGE\" />"), "{words}");
    }
}

#[test]
fn inspect_hid_all_problems_but_one_and_did_not_report_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read(recipe::avc_aac("inspected", "")).unwrap();
    let turned = QuickTime { matrix: Some(quarter_turn(180)), ..QuickTime::default() };
    let mut file = quicktime(&source, turned);
    let path = folder.path().join("film.mp4");
    std::fs::write(&path, &file).unwrap();
    let report = latemux(&["inspect", path.to_str().unwrap(), "--json"]);
    let report: Value =
        serde_json::from_slice(&report.stdout).unwrap_or_else(|_| panic!("{}", stderr(&report)));
    let [problem] = &report["problems"].as_array().unwrap()[..] else { panic!("{report:#}") };
    assert_eq!(
        (problem["reason"].as_str(), report["tracks"][0]["rotation"].as_u64()),
        (Some("rotation_lost"), Some(90))
    );

    for (code, other) in [(b"avcC", b"free"), (b"soun", b"sbtl"), (b"mp4a", b"c608")] {
        let at = file.windows(4).rposition(|window| window == code).unwrap();
        file[at..at + 4].copy_from_slice(other);
    }
    std::fs::write(&path, &file).unwrap();
    let refused = latemux(&["inspect", path.to_str().unwrap()]);
    let text = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text.contains("track 1 (video, avc1): stsd/avc1: no 'avcC' box"), "{text}");
    assert!(text.contains("track 2 (sbtl, c608): coded in c608, which no output protocol carries"), "{text}");
}

#[test]
fn inspect_takes_a_folder_as_one_title() {
    let json = latemux(&["inspect", &format!("{}/harbour", samples()), "--json"]);
    let report: Value = serde_json::from_slice(&json.stdout).unwrap_or_else(|_| panic!("{}", stderr(&json)));
    let names: Vec<_> =
        report["tracks"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert!(names.iter().any(|n| n.starts_with("audio_fra=")), "{names:?}");
}

#[test]
fn metrics_are_served_at_the_admin_address() {
    let plain = Server::start(&samples(), &[], &[]);
    assert_eq!(plain.admin, None, "there is no admin address by default");
    assert!(!get(plain.address, "/healthz").headers.contains_key("latemux-cache"));
    let server = Server::start(&samples(), &["--admin", "127.0.0.1:0", "--debug-headers"], &[]);
    let admin = server.admin.expect("the admin address is printed");
    assert_ne!(admin, server.address);
    let response = get(server.address, "/harbour/.mpd");
    assert_eq!((response.status, response.headers["latemux-cache"].as_str()), (200, "filled"));
    let metrics = get(admin, "/metrics");
    let counted = "latemux_responses_total{protocol=\"dash\",class=\"manifest\",status=\"2xx\"} 1\n";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    assert_eq!(get(server.address, "/metrics").status, 404);
    let log = server.stop();
    assert!(log.contains("storage_requests"), "{log}");
}

#[test]
fn metrics_count_requests_by_back_end() {
    let Some(nginx) = Nginx::start(&samples()) else { return };
    let server = Server::start(&nginx.url(), &["--admin", "127.0.0.1:0"], &[]);
    assert_eq!(get(server.address, "/lighthouse.mp4/.mpd").status, 200);
    let metrics = get(server.admin.expect("the admin address is printed"), "/metrics");
    let line = |start: &str| {
        let found = metrics.text().lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start} in {}", metrics.text())).to_owned()
    };
    let url = nginx.url();
    let backend = url.trim_end_matches('/');
    for (name, value) in [("retries_total", 0), ("failed_total", 0), ("in_flight", 0)] {
        let line = line(&format!("latemux_storage_{name}{{backend=\"{backend}"));
        assert!(line.ends_with(&format!(" {value}")), "{line}");
    }
    assert!(!line("latemux_storage_requests_total{kind=\"index\"}").ends_with(" 0"));
}
