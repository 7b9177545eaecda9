//! Namespaces around a whole program.

use super::{ip, tool};
use nix::sched::{CloneFlags, unshare};
use std::{
    env,
    ffi::OsStr,
    fs::{File, OpenOptions},
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Stdio},
    thread,
};

/// Environment variable that holds the process ID of a program that has been started again in
/// namespaces. Other processes inherit it, but their ID differs, so they ignore it.
const ENTERED: &str = "LATEMUX_ENCLOSED";

/// The device through which programs exchange packets with the kernel.
const TUN: &str = "/dev/net/tun";

/// Namespaces around this program: networks made in them cannot touch the machine's, and all
/// processes on hosts end with this program, however it ends.
#[derive(Debug)]
pub struct Enclosure {
    /// The first process of the PID namespace. It ends when its standard input does, and then the
    /// kernel kills all others.
    keeper: Child,
    /// The PID namespace.
    pub(super) processes: File,
}

impl Enclosure {
    /// Enters namespaces. The first call replaces this process by the same program with the same
    /// arguments, which calls this function again; that second call returns. Call it before
    /// anything that must not happen twice.
    ///
    /// # Errors
    /// If the system does not let this user make networks: namespaces or `/dev/net/tun` are
    /// refused, or `unshare` (util-linux) or `ip` (iproute2) is not installed.
    pub fn enter() -> io::Result<Self> {
        if has_entered() {
            return Self::start();
        }
        Self::check()?;
        let mut program = tool("unshare");
        program.args(flags()).arg("--").arg(env::current_exe()?).args(env::args_os().skip(1));
        program.env(ENTERED, std::process::id().to_string());
        // Only a failure returns.
        Err(program.exec())
    }

    /// Checks that this user may make networks.
    ///
    /// # Errors
    /// If the system refuses namespaces or `/dev/net/tun`, or a program is not installed.
    pub fn check() -> io::Result<()> {
        let refused = |text: String| io::Error::new(io::ErrorKind::PermissionDenied, text);
        let lo = ["--", "ip", "link", "set", "lo", "up"].map(OsStr::new);
        let out = tool("unshare").args(flags()).args(lo).stdin(Stdio::null()).output();
        let out = out.map_err(|error| refused(format!("unshare (util-linux): {error}")))?;
        if !out.status.success() {
            let text = String::from_utf8_lossy(&out.stderr);
            return Err(refused(format!("network namespaces: {}", text.trim())));
        }
        let tun = OpenOptions::new().read(true).write(true).open(TUN);
        tun.map(|_| ()).map_err(|error| refused(format!("{TUN}: {error}")))
    }

    /// Starts the first process of a PID namespace.
    fn start() -> io::Result<Self> {
        ip(&["link", "set", "lo", "up"])?;
        // On a thread of its own: a thread that has made a PID namespace can start no threads.
        let start = || {
            unshare(CloneFlags::CLONE_NEWPID)?;
            let mut keeper = tool("cat");
            // Signals of the terminal do not end it: the first process of a PID namespace gets only
            // those that it handles.
            keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let keeper = thread::spawn(start).join().map_err(|_| io::Error::other("the thread ended"))??;
        let processes = File::open(format!("/proc/{}/ns/pid", keeper.id()))?;
        Ok(Self { keeper, processes })
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        // Waiting for the keeper could block: its end is delayed until this program has waited for
        // each of its own children in the namespace.
        drop(self.keeper.stdin.take());
    }
}

/// Returns true in a program that [`Enclosure::enter`] has started again. The processes that it
/// starts on hosts have no parent in their own PID namespace.
pub fn has_entered() -> bool {
    env::var(ENTERED).is_ok_and(|process| process == std::process::id().to_string())
}

/// Returns the options of `unshare`. Only root may make networks without a user namespace.
fn flags() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() { &["--net"] } else { &["--user", "--map-root-user", "--net"] }
}
