//! The two servers on some cores, and their processor time.

use latemux_testmedia::process::{Process, tool};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Ticks of `/proc/PID/stat` in a second (`USER_HZ`): 100 on every architecture of Linux today.
const TICKS: f64 = 100.0;

/// Files of a certificate for 127.0.0.1 and its key.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
}

impl Server {
    pub(crate) fn port(&self) -> u16 {
        self.process.port
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts `latemux serve` from the release build of this benchmark, without an access log.
    pub(crate) fn latemux(
        folder: &Path,
        source: &str,
        cores: &str,
        config: &str,
        tls: Option<&Certificate>,
    ) -> io::Result<Self> {
        let file = folder.join("latemux.toml");
        fs::write(&file, format!("{config}\n[log]\nfilter = 'error,access=off'\n"))?;
        let process = Process::start(|port| {
            let mut command = Command::new("taskset");
            command
                .args(["-c", cores, env!("CARGO_BIN_EXE_latemux"), "serve", source, "--config"])
                .arg(&file);
            command.args(["--listen", &format!("127.0.0.1:{port}")]);
            if let Some(Certificate { cert, key }) = tls {
                command.arg("--tls-cert").arg(cert).arg("--tls-key").arg(key);
            }
            command.stderr(Stdio::inherit());
            command
        });
        Ok(Self { process })
    }

    /// Starts nginx as Debian configures it: one worker, sendfile, no access log.
    pub(crate) fn nginx(
        folder: &Path,
        root: &Path,
        cores: &str,
        tls: Option<&Certificate>,
    ) -> io::Result<Self> {
        let nginx = tool("nginx").ok_or_else(|| io::Error::other("no nginx: make tools"))?;
        let root = root.display();
        let process = Process::start(|port| {
            let folder = folder.join(format!("nginx-{port}"));
            let (ssl, certificate) = match tls {
                None => ("", String::new()),
                Some(Certificate { cert, key }) => (
                    " ssl",
                    format!("ssl_certificate {}; ssl_certificate_key {};", cert.display(), key.display()),
                ),
            };
            // Settings of Debian's nginx.conf, without a log, and with persistent connections.
            let text = format!(
                "worker_processes 1; daemon off; master_process off; pid nginx.pid; error_log stderr error;
                 worker_rlimit_nofile 16384; events {{ worker_connections 16000; }}
                 http {{
                     sendfile on; tcp_nopush on; access_log off; keepalive_requests 100000000; keepalive_timeout 300s;
                     default_type application/octet-stream; client_body_temp_path t; proxy_temp_path t;
                     fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t; ssl_protocols TLSv1.3;
                     server {{ listen 127.0.0.1:{port}{ssl} backlog=4096; root {root}; {certificate} }}
                 }}"
            );
            let mut command = Command::new("taskset");
            command.args(["-c", cores]).arg(&nginx).arg("-p").arg(&folder).args(["-e", "stderr", "-c"]);
            // If this fails, nginx fails too.
            let _ = fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join("nginx.conf"), text));
            command.arg(folder.join("nginx.conf"));
            command
        });
        Ok(Self { process })
    }

    /// Returns the processor time in seconds, user and system, of the process, its threads and its
    /// children.
    pub(crate) fn cpu(&self) -> io::Result<f64> {
        let root = self.process.id();
        let mut ticks = stat(root)?.ticks;
        for entry in fs::read_dir("/proc")?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // The process may have ended by now, and its number may belong to another one.
            if let Some(stat) = stat(id).ok().filter(|stat| stat.parent == root) {
                ticks += stat.ticks;
            }
        }
        Ok(ticks / TICKS)
    }

    /// Returns its memory in KiB.
    pub(crate) fn memory(&self) -> io::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kib.ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

struct Stat {
    parent: u32,
    ticks: f64,
}

/// Returns the fields after the name (proc(5)). The name itself may hold any character.
fn stat(id: u32) -> io::Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    let parent = fields.get(1).and_then(|field| field.parse().ok());
    match (parent, number(11), number(12)) {
        (Some(parent), Some(user), Some(system)) => Ok(Stat { parent, ticks: user + system }),
        _ => Err(io::Error::other("no such fields in /proc/PID/stat")),
    }
}
