//! Storage: nginx, which serves ranges of files, and the requests in its log.

use latemux_testmedia::process::{Process, tool};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use tempfile::TempDir;

/// The server. Dropping this value stops it and removes its log.
pub(crate) struct Nginx {
    process: Process,
    log: PathBuf,
    _dir: TempDir,
    marks: AtomicU64,
}

/// A line of the log.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Body bytes that nginx sent.
    pub(crate) bytes: u64,
    /// The whole line.
    pub(crate) line: String,
}

/// A position in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark(usize);

impl Nginx {
    pub(crate) fn start(root: &Path) -> Self {
        let nginx = tool("nginx").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display().to_string();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/tmp;"))
            .concat();
        let log = dir.path().join("access.log");
        let process = Process::start(|port| {
            // With one process, the lines of earlier requests are in the log when a response
            // arrives.
            let config = format!(
                "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log; worker_rlimit_nofile 8192;
                 events {{ worker_connections 4096; }}
                 http {{ log_format requests '$status\t$body_bytes_sent\t$http_range\t$request';
                 access_log {at}/access.log requests; {paths} keepalive_requests 1000000; keepalive_timeout 1h; sendfile on;
                 server {{ listen 127.0.0.1:{port} backlog=4096; root {root}; }} }}",
                root = root.display()
            );
            fs::write(dir.path().join("nginx.conf"), config).unwrap();
            let mut command = Command::new(&nginx);
            command
                .arg("-p")
                .arg(dir.path())
                .arg("-c")
                .arg(dir.path().join("nginx.conf"))
                .stderr(Stdio::null());
            command
        });
        Self { process, log, _dir: dir, marks: AtomicU64::new(0) }
    }

    /// Returns the ID of its process.
    #[allow(dead_code, reason = "only the bench of attacks uses it")]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.process.port))
    }

    /// Returns the location for `latemux serve`.
    pub(crate) fn location(&self) -> String {
        format!("http://{}/", self.address())
    }

    /// Returns the present end of the log.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.text().len())
    }

    /// Returns the requests logged since.
    pub(crate) fn since(&self, Mark(from): Mark) -> Vec<Request> {
        let text = self.text();
        let lines =
            text[from..].lines().filter(|line| !line.contains("/mark-") && !line.contains("/latemux-check"));
        lines
            .map(|line| {
                let bytes = line.split('\t').nth(1).and_then(|bytes| bytes.parse().ok());
                let bytes = bytes.unwrap_or_else(|| panic!("a line of the log: {line}"));
                Request { bytes, line: line.to_owned() }
            })
            .collect()
    }

    /// Returns the log up to a request that this function sends.
    fn text(&self) -> String {
        let mark = format!("/mark-{}", self.marks.fetch_add(1, Relaxed));
        let response = crate::client::get(self.address(), &mark);
        assert_eq!(response.status, 404);
        loop {
            let text = fs::read_to_string(&self.log).unwrap();
            // nginx writes the line once the response is sent, which may be after the client has
            // read it.
            if text.contains(&format!("{mark} ")) && text.ends_with('\n') {
                return text;
            }
            std::thread::yield_now();
        }
    }
}

/// Returns the number of body bytes of some requests.
pub(crate) fn bytes(requests: &[Request]) -> u64 {
    requests.iter().map(|request| request.bytes).sum()
}
