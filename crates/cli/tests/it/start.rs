//! What a server needs from its surroundings to start: permissions, and a folder for its caches.
//! What is missing is said in one line, at once.

use crate::{
    client::get,
    crawl::crawl,
    mistakes::{ended_at_start, refused, refused_by_storage},
    server::{Server, samples},
    store::S3,
    tools::said,
};
use latemux_testmedia::process::tool;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
}

/// Runs a command that is expected to end by itself.
fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn serve_with_cache(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["serve", &samples(), "--listen", "127.0.0.1:0", "--cache-dir"]).arg(dir);
    command
}

/// Runs `latemux check` for a server with this cache folder.
fn check_with_cache(dir: &Path, folder: &Path) -> Command {
    let config = folder.join("latemux.toml");
    let text = format!("source = '{}'\ncache.dir = '{}'\n", samples(), dir.display());
    fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.arg("check").arg(config);
    command
}

#[test]
fn keys_that_permit_too_little_are_an_error_at_start() {
    let (Some(store), Some(_)) = (S3::start(&samples()), tool("curl")) else { return };
    store.add_user("viewer", "viewer-secret");
    let keys = [("AWS_ACCESS_KEY_ID", "viewer"), ("AWS_SECRET_ACCESS_KEY", "viewer-secret")];
    let endpoint = store.endpoint();
    let args = |path: &str, more: &[&str]| -> Vec<String> {
        let source = format!("s3://library{path}");
        let fixed = ["serve", &source, "--s3-endpoint", &endpoint, "--s3-region", "us-east-1"];
        fixed.iter().chain(more).map(|&arg| arg.to_owned()).collect()
    };
    let start = |path: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        ended_at_start(command.args(args(path, &["--listen", "127.0.0.1:0"])).envs(keys))
    };
    refused_by_storage(
        &start(""),
        &["s3://library", "access denied by storage", "neither reading nor listing"],
    );
    let waiting = Server::start(
        "s3://library",
        &["--s3-endpoint", &endpoint, "--s3-region", "us-east-1", "--wait-for-storage"],
        &keys,
    );
    assert_eq!(get(waiting.address, "/healthz/ready").status, 503);

    store.permit("viewer", "s3:ListBucket", "library");
    for (path, object) in [("", "/"), ("/harbour", ".mp4")] {
        refused_by_storage(&start(path), &["is listed, but reading it is not permitted", object]);
    }

    // Without listings, there are only no folders.
    store.permit("viewer", "s3:GetObject", "library/*");
    while get(waiting.address, "/healthz/ready").status != 200 {}
    assert_eq!(get(waiting.address, "/lighthouse.mp4/.mpd").status, 200);
    let server =
        Server::start("s3://library", &["--s3-endpoint", &endpoint, "--s3-region", "us-east-1"], &keys);
    assert_eq!(get(server.address, "/healthz/ready").status, 200);
    let log = waiting.stop();
    assert!(log.contains("neither reading nor listing is permitted"), "{log}");
}

#[test]
fn a_cache_folder_of_another_owner_is_an_error_at_start() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    let as_nobody = |command: &mut Command| command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).output();
    // Everybody may enter the folder around it.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut version = Command::new(env!("CARGO_BIN_EXE_latemux"));
    if !as_nobody(version.arg("--version")).is_ok_and(|output| output.status.success()) {
        return skip("this machine lets nobody run the binary as another user");
    }
    let ours = rustix::process::geteuid().as_raw();
    let owners = [format!("belongs to user {ours}"), format!("latemux runs as user {NOBODY}")];
    let words = |place: &'static str| ["cache.dir", place, "change the owner", &owners[0], &owners[1]];
    Server::of(serve_with_cache(&dir)).stop();
    refused(&as_nobody(&mut serve_with_cache(&dir)).unwrap(), &words("/cache:"));
    // The folder was given to the new user, but not its files.
    std::os::unix::fs::chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(&as_nobody(&mut serve_with_cache(&dir)).unwrap(), &words("/cache/lock:"));
    let checked = as_nobody(&mut check_with_cache(&dir, folder.path())).unwrap();
    assert_eq!(checked.status.code(), Some(1));
    assert!(
        said(&checked).contains(&owners[0]) && said(&checked).contains("/cache/lock"),
        "{}",
        said(&checked)
    );
}

#[test]
fn a_cache_folder_on_a_read_only_disk_is_an_error_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let read_only = |command: &Command| {
        let script = "mount -t tmpfs -o ro tmpfs \"$0\" 2>/dev/null || exit 99; exec \"$@\"";
        let mut inner = Command::new("unshare");
        inner.args(["--mount", "sh", "-c", script]).arg(&disk).arg(command.get_program());
        output(inner.args(command.get_args()))
    };
    let started = read_only(&serve_with_cache(&disk.join("cache")));
    if started.status.code() == Some(99) || said(&started).contains("unshare") {
        return skip("no file system may be mounted here");
    }
    let words = ["cache.dir", "/disk", "Read-only file system", "another file system"];
    refused(&started, &words);
    let checked = read_only(&check_with_cache(&disk.join("cache"), folder.path()));
    assert_eq!(checked.status.code(), Some(1));
    assert!(words.iter().all(|word| said(&checked).contains(word)), "{}", said(&checked));
}

/// Returns the files of a cache with the bytes of their formats.
fn formats(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in [dir.to_owned(), dir.join("indexes")] {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some() {
                let bytes = fs::read(&path).unwrap();
                found.push((path, bytes[..12].to_vec()));
            }
        }
    }
    found
}

#[test]
fn a_cache_folder_of_another_version_is_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("cache");
    let entries = ["/lighthouse.mp4/.mpd", "/harbour/.m3u8"].map(str::to_owned);
    let server = Server::of(serve_with_cache(&dir));
    let expected = crawl(server.address, &entries);
    server.signal("-INT");
    assert!(server.ended().0.success());
    let ours = formats(&dir);
    assert!(ours.len() > 3, "{ours:?}");
    // The format is the number behind 8 bytes that all versions share.
    for (path, _) in &ours {
        let mut bytes = fs::read(path).unwrap();
        bytes[8] += 90;
        fs::write(path, bytes).unwrap();
    }
    let server = Server::of(serve_with_cache(&dir));
    let got = crawl(server.address, &entries);
    assert_eq!(got.len(), expected.len());
    for (url, response) in &got {
        assert!(response.body == expected[url].body, "{url}");
    }
    server.signal("-INT");
    let (status, log) = server.ended();
    assert!(status.success() && !log.contains("ERROR"), "{log}");
    let now = formats(&dir);
    assert!(now.iter().all(|(_, format)| format[8] < 90), "{now:?}");
    assert_eq!(now.len(), ours.len(), "{now:?}");
}
