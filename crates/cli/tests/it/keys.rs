//! `latemux keys`: files of random keys, which `latemux serve` takes, and lists of a title's keys.

use crate::{
    client::get,
    crawl::crawl,
    server::{Server, samples},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn keys(arguments: &[&str], file: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    let out = command.arg("keys").args(arguments).arg("-o").arg(file).output().unwrap();
    (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
}

#[test]
fn keys_are_random_and_suit_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    for (number, arguments) in [&[][..], &["--one"]].into_iter().enumerate() {
        let file = folder.path().join(format!("{number}.json"));
        let (is_made, said) = keys(arguments, &file);
        assert!(is_made, "{said}");
        let text = std::fs::read_to_string(&file).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        let entries = parsed["keys"].as_array().unwrap();
        assert_eq!(entries.len(), 2 - number);
        for entry in entries {
            for value in [&entry["kid"], &entry["key"]] {
                let digits = value.as_str().unwrap();
                assert!(digits.len() == 32 && seen.insert(digits.to_owned()), "{text}");
                assert!(!said.contains(digits), "{said}");
            }
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // A rule with the file is accepted.
        let config = folder.path().join("rule.toml");
        let rule = "[[drm]]\ntitles = [\"**\"]\ndash = \"cenc\"\nserve_keys = \"open\"\n";
        std::fs::write(&config, format!("{rule}keys.file = {:?}\n", file.display().to_string())).unwrap();
        let mut check = Command::new(env!("CARGO_BIN_EXE_latemux"));
        let out = check.arg("check").arg(&config).output().unwrap();
        let said = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        assert!(!said.contains("drm,") && !said.contains("keys"), "{said}");
        // It is not overwritten.
        let (is_made, said) = keys(&[], &file);
        assert!(!is_made && said.contains("cannot write"), "{said}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

const VIDEO: [&str; 2] = ["00000000000000000000000000000a01", "a1a2a3a4a5a6a7a8a9aaabacadaeaf11"];
const AUDIO: [&str; 2] = ["00000000000000000000000000000b01", "b1b2b3b4b5b6b7b8b9babbbcbdbebf22"];

/// Writes a configuration that encrypts all sample titles by these keys, each given by its ID, its
/// digits and the kind of its tracks.
fn encrypting(folder: &Path, keys: &[([&str; 2], &str)]) -> PathBuf {
    let entry = |([kid, key], kind): &([&str; 2], &str)| {
        format!(r#"{{"kid": "{kid}", "key": "{key}", "tracks": "type==\"{kind}\""}}"#)
    };
    let entries: Vec<String> = keys.iter().map(entry).collect();
    fs::write(folder.join("keys.json"), format!("{{\"keys\": [{}]}}", entries.join(", "))).unwrap();
    let config = folder.join("drm.toml");
    let rule = "[[drm]]\ntitles = [\"**\"]\ndash = \"cenc\"\nhls_fmp4 = \"cbcs\"\nserve_keys = \"open\"\n";
    fs::write(&config, format!("source = {:?}\n{rule}keys.file = \"keys.json\"\n", samples())).unwrap();
    config
}

fn latemux(arguments: &[&str]) -> (bool, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_latemux")).args(arguments).output().unwrap();
    (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
}

#[test]
fn keys_of_a_title_are_listed_without_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    let both = [(VIDEO, "video"), (AUDIO, "audio")];
    let config = encrypting(folder.path(), &both).display().to_string();
    let (is_listed, said) = latemux(&["keys", "lighthouse.mp4", "--config", &config]);
    assert!(is_listed, "{said}");
    for (kind, [kid, key]) in [("video", VIDEO), ("audio", AUDIO)] {
        for row in [["DASH", "cenc"], ["HLS CMAF", "cbcs"]] {
            let is_row = |line: &&str| row.iter().all(|word| line.contains(word)) && line.contains(kid);
            let line = said.lines().find(is_row).unwrap_or_else(|| panic!("{row:?} {kid}: {said}"));
            assert!(line.starts_with(kind) && line.ends_with("clearkey"), "{line}");
        }
        assert!(!said.contains(key), "{said}");
    }
    assert!(!said.contains("sent clear"), "{said}");
    // A clear lead is stated as long as it is: two segments of 4 s.
    let text = fs::read_to_string(folder.path().join("drm.toml")).unwrap();
    fs::write(
        folder.path().join("lead.toml"),
        text.replace("serve_keys", "clear_lead = \"10s\"\nserve_keys"),
    )
    .unwrap();
    let lead = folder.path().join("lead.toml").display().to_string();
    let (is_listed, said) = latemux(&["keys", "lighthouse.mp4", "--config", &lead]);
    assert!(is_listed && said.contains("The first 8.000 s are sent clear"), "{said}");
    // A track without a key fails, and so does a title that does not exist.
    let config = encrypting(folder.path(), &both[..1]).display().to_string();
    for (title, reason) in [("lighthouse.mp4", "no key"), ("nothing.mp4", "not found")] {
        let (is_listed, said) = latemux(&["keys", title, "--config", &config]);
        assert!(!is_listed && said.contains(reason), "{said}");
    }
}

/// Returns all forms in which a key could be written.
fn forms([_, digits]: [&str; 2]) -> Vec<Vec<u8>> {
    let number = u128::from_str_radix(digits, 16).unwrap();
    let bytes = number.to_be_bytes();
    let text = [
        digits.to_owned(),
        digits.to_uppercase(),
        STANDARD_NO_PAD.encode(bytes),
        URL_SAFE_NO_PAD.encode(bytes),
    ];
    let raw = [bytes.to_vec(), number.to_le_bytes().to_vec()];
    let list = format!("{bytes:?}").into_bytes();
    text.into_iter().map(String::into_bytes).chain(raw).chain([list]).collect()
}

/// No response, log line, metric or printed configuration holds a key: in all schemes, with and
/// without errors.
#[test]
fn keys_appear_only_in_their_delivery() {
    let folder = tempfile::tempdir().unwrap();
    let config = encrypting(folder.path(), &[(VIDEO, "video"), (AUDIO, "audio")]);
    let text = fs::read_to_string(&config).unwrap();
    let other = "hls_ts = \"sample-aes\"\nhls_fmp4 = \"aes-128\"\n";
    let log = "\n[log]\nfilter = \"trace\"\n";
    fs::write(&config, text.replace("hls_fmp4 = \"cbcs\"\n", other) + log).unwrap();
    let config = config.display().to_string();
    let server = Server::start(&samples(), &["--config", &config, "--admin", "127.0.0.1:0"], &[]);
    let mut seen = BTreeMap::new();
    for manifest in [".mpd", ".m3u8", ".m3u8?hls_fmp4"] {
        let found = crawl(server.address, &[format!("/lighthouse.mp4/{manifest}")]);
        seen.extend(found.into_iter().filter(|(url, _)| !url.contains(".key")));
    }
    for url in ["/lighthouse.mp4/Manifest", "/lighthouse.mp4/keys/nothing.key", "/api/library", "/"] {
        seen.insert(url.to_owned(), get(server.address, url));
    }
    let delivered = get(server.address, &format!("/lighthouse.mp4/keys/{}.key", VIDEO[0]));
    seen.insert("metrics".to_owned(), get(server.admin.unwrap(), "/metrics"));
    let log = server.stop();
    let (_, printed) = latemux(&["serve", "--config", &config, "--print-config"]);
    let needles = [forms(VIDEO), forms(AUDIO)].concat();
    let holds = |text: &[u8]| needles.iter().any(|key| text.windows(key.len()).any(|part| part == key));
    assert!(holds(&delivered.body), "the search finds a key where it is");
    assert!(seen.len() > 60 && log.lines().count() > seen.len(), "{} responses", seen.len());
    for (url, answer) in &seen {
        assert!(!holds(&answer.body) && !holds(format!("{:?}", answer.headers).as_bytes()), "{url}");
    }
    assert!(!holds(log.as_bytes()) && !holds(printed.as_bytes()), "{log}{printed}");
}

/// `pack --config` writes what `serve --config` sends.
#[test]
fn packed_tracks_are_encrypted_as_they_are_served() {
    for lead in ["", "clear_lead = \"10s\"\n"] {
        packs_as_it_serves(lead);
    }
}

/// Compares the packed tracks with the served ones, with this setting of the rule.
fn packs_as_it_serves(lead: &str) {
    let folder = tempfile::tempdir().unwrap();
    let config = encrypting(folder.path(), &[(VIDEO, "video"), (AUDIO, "audio")]);
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("serve_keys", &format!("{lead}serve_keys"))).unwrap();
    let config = config.display().to_string();
    let output = format!("{}/", folder.path().join("packed").display());
    let (is_packed, said) = latemux(&["pack", "lighthouse.mp4", "--config", &config, "-o", &output]);
    assert!(is_packed, "{said}");
    let server = Server::start(&samples(), &["--config", &config], &[]);
    let answers = crawl(server.address, &["/lighthouse.mp4/.mpd".to_owned()]);
    let mut compared = 0;
    for entry in fs::read_dir(&output).unwrap() {
        let path = entry.unwrap().path();
        let file = fs::read(&path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (stem, bitrate) = name.rsplit_once('-').unwrap();
        let track = format!("-{stem}={}000", bitrate.trim_end_matches('k'));
        let is_of_track = |url: &str| url.contains(&track) && !url.contains("keyframes");
        let mut segments: Vec<_> = answers.iter().filter(|(url, _)| is_of_track(url)).collect();
        let time = |url: &str| url.rsplit_once('.')?.0.rsplit_once('-')?.1.parse::<u64>().ok();
        segments.sort_by_key(|(url, _)| time(url));
        let bodies: Vec<Vec<u8>> = segments.iter().map(|(_, answer)| answer.body.to_vec()).collect();
        let (init, media) = bodies.split_first().unwrap();
        assert!(
            init.windows(4).any(|four| four == b"tenc") && media.len() > 2,
            "{name}: {} segments",
            media.len()
        );
        // The segments of a lead name the second sample entry.
        let names_entry = |media: &&Vec<u8>| {
            let at = media.windows(4).position(|four| four == b"tfhd").unwrap();
            media[at + 7] & 2 != 0
        };
        assert_eq!(media.iter().filter(names_entry).count(), if lead.is_empty() { 0 } else { 2 }, "{name}");
        assert!(file.starts_with(init), "{name}");
        assert!(file.ends_with(&media.concat()), "{name}");
        compared += 1;
    }
    assert_eq!(compared, 2, "{said}");
    let (is_packed, said) =
        latemux(&["pack", "lighthouse.mp4", "--config", &config, "--ismv", "-o", "x.ismv"]);
    assert!(
        !is_packed && said.contains("cannot be written as ismv") && !Path::new("x.ismv").exists(),
        "{said}"
    );
}
