//! A `latemux serve` of its own for each test, on a port the system chose.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Where its metrics are, if it was told to have any.
    pub(crate) admin: Option<SocketAddr>,
    log: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts and waits for the line that says where the page is.
    pub(crate) fn start(source: &str, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["serve", source, "--listen", "127.0.0.1:0"]).args(more);
        command.envs(environment.iter().copied());
        Self::of(command)
    }

    /// The same by a command that becomes the server.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("latemux starts");
        let mut stderr = child.stderr.take().expect("piped");
        let log = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut admin = None;
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| {
                let url = line.split_once("://")?.1;
                if let Some(address) = url.strip_suffix("/metrics") {
                    admin = address.parse().ok();
                }
                url.trim_end_matches('/').parse().ok()
            })
            .expect("latemux says where it listens");
        Self { child, address, admin, log: Some(log) }
    }

    /// Ends it and gives its log.
    pub(crate) fn stop(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.log.take().expect("stopped once").join().expect("log is read")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The committed sample library.
pub(crate) fn samples() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library").to_owned()
}
