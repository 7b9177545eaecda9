//! The unit of systemd, started by a systemd of its own: that of this machine, in namespaces, on a
//! copy-on-write view of this machine's files.
//!
//! Skipped without systemd, or without the rights to make namespaces.

use crate::server::samples;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
fn skip(reason: &str) {
    println!("SKIPPED: {reason}");
}

/// Makes the view in the folder `$1` and starts systemd on it. `$2` is the binary, `$3` the media,
/// and `$4` the unit. No service of this machine starts.
const BOOT: &str = r#"
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
root=$1/root
mkdir -p "$root/srv/films" "$root/etc/latemux"
touch "$root/usr/local/bin/latemux"
mount --bind "$2" "$root/usr/local/bin/latemux"
mount --bind "$3" "$root/srv/films"
rm -rf "$root/etc/systemd/system" "$root/var/cache/private"
install -D -m 644 "$4" "$root/etc/systemd/system/latemux.service"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd"
  mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi
exec chroot "$root" env -i container=latemux PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target
"#;

/// Settings that a site would write, with times that suit a test.
const CONFIG: &str = "\
source = '/srv/films'
listen = ['127.0.0.1:8080', 'unix:/run/latemux/latemux.sock']
cache.dir = '/var/cache/latemux'
http.drain_delay = '0s'
";

/// A machine with systemd. All its processes end when this value is dropped.
struct Machine {
    unshare: Child,
    /// Process of systemd, as this machine numbers it.
    systemd: String,
    _folder: tempfile::TempDir,
}

impl Machine {
    /// Starts it. Returns `None` where that is not possible.
    fn start() -> Option<Self> {
        if !Path::new("/lib/systemd/systemd").exists() {
            skip("systemd is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let view = folder.path().join("view");
        let log = folder.path().join("log");
        fs::create_dir(&view).unwrap();
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/systemd/latemux.service");
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net", "--cgroup"]);
        command.args(["sh", "-c", BOOT, "boot"]).arg(&view).arg(env!("CARGO_BIN_EXE_latemux"));
        command.arg(samples()).arg(unit.canonicalize().unwrap());
        let output = fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut unshare = command.spawn().ok()?;
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let began = Instant::now();
        let systemd = loop {
            let child = fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
            let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if name.trim() == "systemd" {
                break child;
            }
            if unshare.try_wait().unwrap().is_some() || began.elapsed() > Duration::from_secs(60) {
                let log = fs::read_to_string(log).unwrap();
                let _ = unshare.kill();
                skip(&format!("systemd does not start here: {}", log.lines().last().unwrap_or_default()));
                return None;
            }
            std::thread::yield_now();
        };
        let machine = Self { unshare, systemd, _folder: folder };
        // The files of the machine are visible once systemd runs on them.
        while !machine.run(&["systemctl", "is-active", "--quiet", "basic.target"]).status.success() {
            assert!(began.elapsed() < Duration::from_secs(120), "systemd does not come up");
        }
        Some(machine)
    }

    /// Runs a command on the machine.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.systemd, "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]);
        command.args(["--wd=/"]).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command that must succeed, and returns what it printed.
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{arguments:?}: {said:?}\n{}", self.journal());
        said[0].trim().to_owned()
    }

    fn journal(&self) -> String {
        let journal = self.run(&["journalctl", "--no-pager", "--output=cat", "--unit=latemux"]);
        String::from_utf8_lossy(&journal.stdout).into_owned()
    }

    /// Waits until a condition holds. The test fails if it does not in a minute.
    fn until(&self, condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", self.journal());
        }
    }

    /// Returns a path of the machine as this machine sees it.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.systemd))
    }

    fn configure(&self, text: &str) {
        fs::write(self.path("/etc/latemux/latemux.toml"), text).unwrap();
    }

    /// Returns a property of the service.
    fn property(&self, name: &str) -> String {
        self.succeed(&["systemctl", "show", "latemux", "--value", "--property", name])
    }

    /// Plays a title to its end. Every response is checked.
    fn play(&self) {
        let url = "http://127.0.0.1:8080/harbour/.mpd";
        self.succeed(&["/usr/local/bin/latemux", "load", "--sequence", "--players", "2", url]);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The kernel kills all processes of a PID namespace with its first one.
        let _ = Command::new("kill").args(["-KILL", &self.systemd]).status();
        let _ = self.unshare.wait();
    }
}

#[test]
fn the_unit_starts_reloads_and_stops_as_a_user_who_may_write_only_its_folders() {
    let Some(machine) = Machine::start() else { return };
    // The unit checks the configuration before the start.
    machine.configure("listen = 'nowhere'\n");
    assert!(!machine.run(&["systemctl", "start", "latemux"]).status.success());
    assert!(machine.journal().contains("nowhere"), "{}", machine.journal());
    machine.succeed(&["systemctl", "stop", "latemux"]);

    machine.configure(CONFIG);
    machine.succeed(&["systemctl", "start", "latemux"]);
    let health = ["/usr/local/bin/latemux", "health", "http://127.0.0.1:8080/healthz/ready"];
    while !machine.run(&health).status.success() {
        assert_eq!(machine.property("ActiveState"), "active", "{}", machine.journal());
    }
    machine.play();
    let pid = machine.property("MainPID");
    let status = fs::read_to_string(machine.path(&format!("/proc/{pid}/status"))).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let user = field("Uid:").split_whitespace().next().unwrap();
    // systemd takes dynamic users from this range.
    assert!((61184..=65519).contains(&user.parse::<u32>().unwrap()), "{status}");
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1", "2"), "{status}");
    // CAP_NET_BIND_SERVICE is bit 10.
    assert_eq!(u64::from_str_radix(field("CapBnd:"), 16).unwrap(), 1 << 10, "{status}");
    let mounts = fs::read_to_string(machine.path(&format!("/proc/{pid}/mounts"))).unwrap();
    let root = mounts.lines().rfind(|line| line.split(' ').nth(1) == Some("/")).unwrap();
    assert!(root.split(' ').nth(3).unwrap().split(',').any(|option| option == "ro"), "{root}");
    assert!(machine.path("/var/cache/private/latemux/lock").exists(), "the cache is in its folder");
    assert!(machine.path("/run/latemux/latemux.sock").exists());

    // A bad file is refused and changes nothing. A good one is used by the same process.
    machine.configure("source = '/srv/films'\nlisten = 'elsewhere'\n");
    assert!(!machine.run(&["systemctl", "reload", "latemux"]).status.success());
    machine.play();
    machine.configure(&format!("{CONFIG}segment_duration = '2s'\n"));
    machine.succeed(&["systemctl", "reload", "latemux"]);
    machine.until(|| machine.journal().contains("configuration reloaded"));
    machine.play();
    assert_eq!(machine.property("MainPID"), pid);

    machine.succeed(&["systemctl", "stop", "latemux"]);
    assert_eq!(
        (machine.property("Result").as_str(), machine.property("NRestarts").as_str()),
        ("success", "0")
    );
    machine.succeed(&["systemctl", "start", "latemux"]);
    machine.until(|| machine.run(&health).status.success());
    machine.play();
}
