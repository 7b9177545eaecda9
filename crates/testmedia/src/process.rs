//! Servers started as processes, each on its own port.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Returns the path of a tool. If it is absent, prints that the test is skipped and returns `None`,
/// or panics if `LATEMUX_REQUIRE_TOOLS=1`.
#[expect(clippy::print_stdout, reason = "a skipped test prints the reason")]
pub fn tool(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let go = std::env::var_os("HOME").map(|home| Path::new(&home).join("go/bin"));
    let system = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut places = std::env::split_paths(&folders).chain(go).chain(system);
    let found = places.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()));
    if found.is_none() {
        assert!(
            std::env::var("LATEMUX_REQUIRE_TOOLS").as_deref() != Ok("1"),
            "{name} is required and not installed"
        );
        println!("SKIPPED: {name} is not installed");
    }
    found
}

/// Returns a random port that nothing uses, below those that systems give to connections, so that
/// only another call of this function is likely to use it before the server does.
fn free_port() -> u16 {
    const PORTS: Range<u16> = 10_000..32_000;
    let random = RandomState::new();
    let tried = (0_u64..).map(|attempt| {
        let below = random.hash_one(attempt) % u64::from(PORTS.end - PORTS.start);
        PORTS.start + u16::try_from(below).expect("below the number of ports")
    });
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    tried.take(1_000).find(is_free).expect("one of a thousand ports is free")
}

/// A running server, which is killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Port that it listens on, on 127.0.0.1.
    pub port: u16,
}

impl Drop for Process {
    fn drop(&mut self) {
        // Child processes of the server, if any, notice that it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Returns its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Starts the command for a free port. If another process takes the port meanwhile, the server
    /// exits, and another port is tried.
    pub fn start(mut command: impl FnMut(u16) -> Command) -> Self {
        for _ in 0..10 {
            let port = free_port();
            let child =
                command(port).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the tool runs");
            let mut process = Self { child, port };
            if process.accepts_connections() {
                return process;
            }
        }
        panic!("the server does not start");
    }

    /// Waits until the port accepts connections. Returns false if the process exits before.
    fn accepts_connections(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(30);
        while Instant::now() < deadline {
            if self.child.try_wait().expect("our child").is_some() {
                return false;
            }
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                // If another process had taken the port, this one would have exited.
                return self.child.try_wait().expect("our child").is_none();
            }
            std::thread::yield_now();
        }
        false
    }
}
