//! A `latemux serve` for each test, on a free port.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
};

/// A running server. Dropping this value kills the process.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Second address, if there is one.
    pub(crate) other: Option<SocketAddr>,
    /// Address of metrics, if the command line names one.
    pub(crate) admin: Option<SocketAddr>,
    log: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts a server, and waits for the line with its address.
    pub(crate) fn start(source: &str, more: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
        command.args(["serve", source, "--listen", "127.0.0.1:0"]).args(more);
        command.envs(environment.iter().copied());
        Self::of(command)
    }

    /// Starts a server by another command.
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
        let mut other = None;
        let address = lines
            .map_while(Result::ok)
            // The first line may state the URL of the storage.
            .filter(|line| !line.contains(" serves "))
            .find_map(|line| {
                let url = line.split_once("://")?.1;
                if let Some(address) = url.strip_suffix("/metrics") {
                    admin = address.parse().ok();
                }
                let (first, second) = url.split_once("/ and ").unwrap_or((url, ""));
                other = second.split_once("://").and_then(|(_, url)| url.trim_end_matches('/').parse().ok());
                first.trim_end_matches('/').parse().ok()
            })
            .expect("latemux says where it listens");
        Self { child, address, other, admin, log: Some(log) }
    }

    /// Returns the ID of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `-TERM`, to the process.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end of the process. Returns its status and its log.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("latemux ends");
        (status, self.log.take().expect("ended once").join().expect("log is read"))
    }

    /// Stops the server and returns its log.
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

/// Returns the folder of the committed sample library.
pub(crate) fn samples() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library").to_owned()
}
