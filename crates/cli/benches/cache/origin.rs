//! The measured binary, on a free port.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::NamedTempFile;

/// A running `latemux serve`. Dropping this value kills the process.
pub(crate) struct Origin {
    child: Child,
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
    _config: NamedTempFile,
}

/// Returns the measured binary: the one that cargo built for this benchmark, or `LATEMUX_BIN`.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("LATEMUX_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_latemux")), PathBuf::from)
}

impl Origin {
    /// Starts it with a configuration and further flags, and waits for the line with its address.
    pub(crate) fn start(source: &str, config: &str, flags: &[String]) -> Self {
        let mut file = NamedTempFile::with_suffix(".toml").unwrap();
        file.write_all(config.as_bytes()).unwrap();
        let mut child = Command::new(binary())
            .args(["serve", source, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"])
            .arg(file.path())
            .args(flags)
            .env("LATEMUX_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("latemux starts");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut admin = None;
        let mut address = None;
        for line in lines.map_while(Result::ok) {
            let url = line.split_once(" at http://").or_else(|| line.split_once(" at https://"));
            let Some((_, url)) = url else { continue };
            match url.strip_suffix("/metrics") {
                Some(url) => admin = url.parse().ok(),
                None => address = url.trim_end_matches('/').parse().ok(),
            }
            if address.is_some() {
                break;
            }
        }
        let address = address.expect("it says where it listens");
        let admin = admin.expect("it has metrics");
        Self { child, address, admin, _config: file }
    }

    /// Returns the sum of all series of a metric that have these labels.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let response = crate::client::get(self.admin, "/metrics");
        let series = response.text().lines().filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        series
            .map(|line| line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).expect("a number"))
            .sum()
    }

    /// Waits until it sends no more requests to storage.
    pub(crate) fn quiet(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.metric("latemux_storage_in_flight", &[]) > 0.0
            || self.metric("latemux_requests_in_flight", &[]) > 0.0
        {
            assert!(Instant::now() < deadline, "requests to storage never end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns a value of `/proc/PID/status`, in bytes.
    pub(crate) fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Tells the process to end, and waits until it has.
    pub(crate) fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }

    /// Kills the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
