//! The image: built with the binary under test, run as another user on a file system that it cannot
//! write, within 256 MiB.
//!
//! Skipped without podman or docker, or where they cannot run a container.

use crate::{
    client::get,
    server::samples,
    store::S3,
    tools::{latemux, said},
};
use latemux_testmedia::process::tool;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Limits that machines without all rights allow, too.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"];
/// The server may neither write nor use more memory, and has no rights.
const CONFINED: [&str; 4] = ["--read-only", "--network=host", "--memory=256m", "--cap-drop=ALL"];
/// Settings with which a server needs little memory.
const CONFIG: &str = "\
[cache]\nmemory = '64MiB'\n\
[memory]\nindex = '16MiB'\nfragments = '4MiB'\ncuts = '4MiB'\nmanifests = '8MiB'\nloading = '16MiB'\nresponses = '32MiB'\n";

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
}

/// The program that builds and runs containers.
struct Containers {
    program: PathBuf,
    /// Arguments that every command gets.
    general: Vec<&'static str>,
}

impl Containers {
    /// Finds a program that works. Prints why the test is skipped otherwise.
    fn find() -> Option<Self> {
        let found = ["podman", "docker"].into_iter().find_map(|name| Some((name, tool(name)?)));
        let (name, program) = found?;
        let is_podman = name == "podman";
        let general = if is_podman && tool("runc").is_some() { vec!["--runtime", "runc"] } else { vec![] };
        let containers = Self { program, general };
        let info = containers.run(&["info"]);
        if !info.status.success() {
            skip(&format!("{name} does not work here: {}", said(&info)));
            return None;
        }
        Some(containers)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(&self.program).args(&self.general).args(arguments).output().expect("it runs")
    }

    /// Builds an image of one empty file. Returns false if even that does not work here.
    fn build_anything(&self) -> bool {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("empty"), "").unwrap();
        fs::write(folder.path().join("Containerfile"), "FROM scratch\nCOPY empty /empty\n").unwrap();
        let path = folder.path().to_str().unwrap();
        let name = format!("latemux-empty-{}", std::process::id());
        let built = self.run(&["build", "-f", &format!("{path}/Containerfile"), "-t", &name, path]);
        self.run(&["rmi", "--force", &name]);
        built.status.success()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// A running container, which is removed when dropped.
struct Container<'a> {
    containers: &'a Containers,
    id: String,
}

impl Container<'_> {
    /// Waits for the line with the address, whose port the server chose itself: a port chosen
    /// here could be taken by a connection of another test before the server listens.
    fn address(&self) -> SocketAddr {
        loop {
            let said = said(&self.containers.run(&["logs", &self.id]));
            let urls = said.lines().filter_map(|line| line.split_once("://"));
            if let Some(address) = urls.filter_map(|(_, url)| url.trim_end_matches('/').parse().ok()).next() {
                return address;
            }
            self.must_run();
        }
    }

    /// Fails with the log unless the container runs.
    fn must_run(&self) {
        let running = self.containers.succeed(&["inspect", "--format", "{{.State.Running}}", &self.id]);
        assert_eq!(running, "true", "{}", said(&self.containers.run(&["logs", &self.id])));
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        self.containers.run(&["rm", "--force", &self.id]);
    }
}

/// An image with a name of its own, which is removed when dropped.
struct Image<'a> {
    containers: &'a Containers,
    name: String,
}

impl Drop for Image<'_> {
    fn drop(&mut self) {
        self.containers.run(&["rmi", "--force", &self.name]);
    }
}

/// Builds the image, or says why this machine cannot.
fn build(containers: &Containers) -> Option<Image<'_>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/image.sh");
    let name = format!("latemux-test-{}", std::process::id());
    let mut command = Command::new(script);
    command.args([env!("CARGO_BIN_EXE_latemux"), &name]).env("CONTAINER_TOOL", &containers.program);
    if let Some(runtime) = containers.general.get(1) {
        command.env("OCI_RUNTIME", runtime);
    }
    let built = command.output().unwrap();
    if !built.status.success() && !containers.build_anything() {
        skip(&format!("no image can be built here: {}", said(&built)));
        return None;
    }
    assert!(built.status.success(), "{}", said(&built));
    let image = Image { containers, name };
    let run = ["run", "--rm"];
    let tried = containers.run(&[&run, &CONFINED[..], &LIMITS, &[image.name.as_str(), "--version"]].concat());
    // podman and docker end with these codes if they cannot run a container.
    if matches!(tried.status.code(), Some(125..=127)) {
        skip(&format!("no container runs here: {}", said(&tried)));
        return None;
    }
    assert!(tried.status.success() && said(&tried).contains("latemux"), "{}", said(&tried));
    Some(image)
}

#[test]
fn the_image_serves_a_bucket_as_nobody_without_writing_within_256_mib() {
    let Some(containers) = Containers::find() else { return };
    let Some(store) = S3::start(&samples()) else { return };
    let Some(image) = build(&containers) else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("latemux.toml");
    fs::write(&config, CONFIG).unwrap();
    let mount = format!("{}:/etc/latemux/latemux.toml:ro", config.display());
    let endpoint = store.endpoint();
    let access = format!("AWS_ACCESS_KEY_ID={}", S3::ACCESS);
    let secret = format!("AWS_SECRET_ACCESS_KEY={}", S3::SECRET);
    let run = ["run", "--detach"];
    let serve = ["serve", "s3://library", "--s3-endpoint", &endpoint, "--s3-region", "us-east-1"];
    let more = ["--listen", "127.0.0.1:0", "--config", "/etc/latemux/latemux.toml"];
    let arguments = [
        &run[..],
        &CONFINED,
        &LIMITS,
        &["-v", &mount, "-e", &access, "-e", &secret, &image.name],
        &serve,
        &more,
    ];
    let container = Container { id: containers.succeed(&arguments.concat()), containers: &containers };
    let address = container.address();
    let health = format!("http://{address}/healthz/ready");
    // `latemux health` within the container is what its health check runs.
    while !containers.run(&["exec", &container.id, "/latemux", "health", &health]).status.success() {
        container.must_run();
    }
    let pid = containers.succeed(&["inspect", "--format", "{{.State.Pid}}", &container.id]);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    assert!(field("Uid:").split_whitespace().all(|id| id == "65532"), "{status}");
    assert_eq!(u64::from_str_radix(field("CapEff:"), 16).unwrap(), 0);
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap();
    assert!(root.split(' ').nth(3).unwrap().split(',').any(|option| option == "ro"), "{root}");
    // Players of all protocols, who check every response.
    let urls: Vec<_> = ["harbour/.mpd", "harbour/.m3u8", "lighthouse.mp4/Manifest", "ferry.mp4/.f4m"]
        .map(|path| format!("http://{address}/{path}"))
        .to_vec();
    let out = folder.path().join("run");
    let fixed = ["load", "--players", "24", "--sequence", "--out", out.to_str().unwrap()];
    let arguments: Vec<&str> = fixed.into_iter().chain(urls.iter().map(String::as_str)).collect();
    let played = latemux(&arguments);
    assert!(played.status.success(), "{}", said(&played));
    let peak = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("peak resident memory: {kib} KiB");
    assert!(kib < 256 << 10, "{kib} KiB");
    assert_eq!(get(address, "/").status, 200);
    assert_eq!(containers.succeed(&["inspect", "--format", "{{.State.OOMKilled}}", &container.id]), "false");
    containers.succeed(&["kill", "--signal", "INT", &container.id]);
    assert_eq!(containers.succeed(&["wait", &container.id]), "0");
}
