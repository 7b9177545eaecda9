//! nginx on a simulated host.

use latemux_link::network::Host;
use latemux_testmedia::process::tool;
use std::{
    fs::{self, File},
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A server of one file. Dropping this value stops it.
pub(crate) struct Server {
    process: Child,
    dir: TempDir,
}

/// Name of the file.
pub(crate) const FILE: &str = "media";

impl Server {
    /// Starts the server of a file of so many zeros on a host, at port 80 of all its addresses.
    pub(crate) fn start(host: &Host, bytes: u64) -> Self {
        Self::of(host, |file| file.set_len(bytes).unwrap())
    }

    /// Starts the server of a file with these bytes.
    pub(crate) fn of_media(host: &Host, media: &[u8]) -> Self {
        Self::of(host, |mut file| file.write_all(media).unwrap())
    }

    fn of(host: &Host, fill: impl FnOnce(File)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        fill(File::create(dir.path().join(FILE)).unwrap());
        // A client whose connections are all cancelled at the end is no reason to close others.
        let text = format!(
            "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;
             events {{ worker_connections 512; }}
             http {{ access_log off; keepalive_requests 1000000; keepalive_timeout 1h; sendfile on;
             client_body_temp_path {at}/t; proxy_temp_path {at}/t; fastcgi_temp_path {at}/t;
             uwsgi_temp_path {at}/t; scgi_temp_path {at}/t;
             server {{ listen 0.0.0.0:80; root {at}; }} }}"
        );
        let mut file = File::create(dir.path().join("nginx.conf")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        // The worker must be able to read the folder if it changes its user.
        let mut command = Command::new(tool("nginx").unwrap());
        command.arg("-p").arg(dir.path()).arg("-c").arg(dir.path().join("nginx.conf"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = host.spawn(command).unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        let is_up = host.thread(move || {
            let begun = Instant::now();
            while TcpStream::connect(address).is_err() {
                if begun.elapsed() > Duration::from_secs(10) {
                    return false;
                }
                thread::sleep(Duration::from_millis(10));
            }
            true
        });
        let is_up = is_up.unwrap().join().unwrap().unwrap();
        assert!(is_up, "{}", fs::read_to_string(dir.path().join("error.log")).unwrap_or_default());
        Self { process, dir }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = &self.dir;
    }
}
