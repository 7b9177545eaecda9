//! Reloading at SIGHUP: no request fails, and a mistake leaves the earlier configuration in use.

use crate::{
    client::get,
    server::{Server, samples},
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

/// Reloads of each kind.
const RELOADS: u64 = 20;

/// A server with a configuration file.
struct Configured {
    folder: tempfile::TempDir,
    server: Server,
}

impl Configured {
    fn start(text: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("latemux.toml");
        fs::write(&file, text).unwrap();
        Self { server: serve(&file, arguments), folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("latemux.toml")
    }

    /// Returns the number of reloads so far that ended like this.
    fn reloads(&self, outcome: &str) -> u64 {
        let metrics = get(self.server.admin.unwrap(), "/metrics");
        let name = format!("latemux_reloads_total{{outcome=\"{outcome}\"}} ");
        metrics.text().lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |n| n.parse().unwrap())
    }

    /// Writes the file, and waits until it has been reloaded or refused.
    fn reload(&self, text: &str, outcome: &str) {
        fs::write(self.file(), text).unwrap();
        self.reload_same(outcome);
    }

    fn reload_same(&self, outcome: &str) {
        let before = self.reloads(outcome);
        self.server.signal("-HUP");
        while self.reloads(outcome) == before {
            std::thread::yield_now();
        }
    }
}

fn serve(file: &Path, arguments: &[&str]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["serve", &samples(), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"]);
    command.arg(file).args(arguments);
    Server::of(command)
}

/// Sends requests on one connection until told to stop. Returns how many got the right response.
fn request_on_and_on(address: SocketAddr, stop: &AtomicBool, started: &AtomicU64) -> u64 {
    let expected = get(address, "/harbour/.mpd").body;
    let mut stream = TcpStream::connect(address).unwrap();
    let mut count = 0;
    while !stop.load(SeqCst) {
        write!(stream, "GET /harbour/.mpd HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let head = read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(!head.to_ascii_lowercase().contains("connection: close"), "{head}");
        let mut body = vec![0; expected.len()];
        stream.read_exact(&mut body).unwrap();
        assert!(body == expected, "other bytes after {count} responses");
        count += 1;
        started.fetch_add(u64::from(count == 1), SeqCst);
    }
    count
}

fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the connection stays open");
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn no_request_fails_and_no_connection_ends_while_the_configuration_is_reloaded() {
    let configured = Configured::start("", &[]);
    let address = configured.server.address;
    let stop = AtomicBool::new(false);
    let started = AtomicU64::new(0);
    let served: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..3).map(|_| scope.spawn(|| request_on_and_on(address, &stop, &started))).collect();
        // A client ends early only if a request failed.
        while started.load(SeqCst) < 3 && !clients.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::yield_now();
        }
        for number in 0..RELOADS {
            // The second change concerns the whole origin, and all titles are loaded anew.
            configured.reload("debug_headers = true\n[log]\nfilter = 'warn'\n", "reloaded");
            assert!(get(address, "/harbour/.mpd").headers.contains_key("server-timing"), "{number}");
            configured.reload("sauce = 'x'", "refused");
            assert!(get(address, "/harbour/.mpd").headers.contains_key("server-timing"), "{number}");
            configured.reload("", "reloaded");
            assert!(!get(address, "/harbour/.mpd").headers.contains_key("server-timing"), "{number}");
        }
        stop.store(true, SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert!(served >= 3, "{served}");
    let log = configured.server.stop();
    assert!(log.contains("unknown field `sauce`") && log.contains("reload_refused"), "{log}");
}

#[test]
fn settings_that_need_a_restart_are_named() {
    let configured = Configured::start("", &[]);
    let text = "[http]\nmax_connections = 7\n[cache]\nmemory = '1MiB'\n";
    configured.reload(text, "reloaded");
    // A mistake in a file that the configuration names.
    configured.reload("[storage]\nchunk = '0'", "refused");
    configured.reload(
        "source = '/nowhere'\n[[drm]]\ntitles = ['x']\nhls_ts = 'aes-128'\nkey_uri = 'https://k/{kid}'\nkeys.file = 'none.json'\n",
        "refused",
    );
    assert_eq!(get(configured.server.address, "/harbour/.mpd").status, 200);
    let log = configured.server.stop();
    assert!(log.contains("restart_needed") && log.contains("cache.memory, http.max_connections"), "{log}");
    assert!(log.contains("storage.chunk") && log.contains("none.json"), "{log}");
}

#[test]
fn the_source_changes_only_to_one_that_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("latemux.toml");
    let samples = samples();
    fs::write(&file, format!("source = {samples:?}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"]).arg(&file);
    let configured = Configured { server: Server::of(command), folder };
    let address = configured.server.address;
    configured.reload(&format!("source = {:?}", format!("{samples}/harbour")), "reloaded");
    assert_eq!(get(address, "/harbour/.mpd").status, 404);
    configured.reload("source = '/nowhere/at/all'", "refused");
    configured.reload("source = 'http://127.0.0.1:1/vod/'", "refused");
    assert_eq!(get(address, "/harbour/.mpd").status, 404);
    configured.reload(&format!("source = {samples:?}"), "reloaded");
    assert_eq!(get(address, "/harbour/.mpd").status, 200);
}

/// A certificate for `localhost` and its key, in PEM.
struct Certificate {
    pem: String,
    key: String,
    der: CertificateDer<'static>,
}

fn certificate() -> Certificate {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    Certificate { pem: made.cert.pem(), key: made.signing_key.serialize_pem(), der: made.cert.der().clone() }
}

/// A connection that trusts one certificate only.
fn secured(address: SocketAddr, trusted: &Certificate) -> Result<(ClientConnection, TcpStream), String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    Ok((connection, stream))
}

/// Sends a request on an open connection, and returns the head of the response.
fn health(connection: &mut ClientConnection, stream: &mut TcpStream) -> String {
    let mut tls = rustls::Stream::new(connection, stream);
    tls.write_all(b"GET /healthz/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let head = read_head(&mut tls);
    let mut body = vec![0; "{\"status\":\"ok\"}\n".len()];
    tls.read_exact(&mut body).unwrap();
    head
}

#[test]
fn a_new_certificate_is_used_and_a_wrong_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let cert = folder.path().join("cert.pem");
    let key = folder.path().join("key.pem");
    let write = |cert_of: &Certificate, key_of: &Certificate| {
        fs::write(&cert, &cert_of.pem).unwrap();
        fs::write(&key, &key_of.key).unwrap();
    };
    let old = certificate();
    let new = certificate();
    write(&old, &old);
    let paths = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let configured = Configured::start("", &paths);
    let address = configured.server.address;
    let (mut open, mut stream) = secured(address, &old).unwrap();
    assert!(health(&mut open, &mut stream).starts_with("HTTP/1.1 200"));
    // A certificate that does not fit the key.
    write(&new, &old);
    configured.reload_same("refused");
    secured(address, &old).unwrap();
    write(&new, &new);
    configured.reload_same("reloaded");
    assert!(secured(address, &old).is_err());
    let (mut later, mut other) = secured(address, &new).unwrap();
    assert!(health(&mut later, &mut other).starts_with("HTTP/1.1 200"));
    // The connection that was open all the time.
    assert!(health(&mut open, &mut stream).starts_with("HTTP/1.1 200"));
    let log = configured.server.stop();
    assert!(log.contains("the key does not belong to the certificate"), "{log}");
}

#[test]
fn the_admin_token_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef").unwrap();
    let file = folder.path().join("latemux.toml");
    fs::write(&file, "admin_token_file = 'token'").unwrap();
    let server = serve(&file, &[]);
    let admin = server.admin.unwrap();
    let status = |token: &str| {
        let mut stream = TcpStream::connect(admin).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n").unwrap();
        read_head(&mut stream)[9..12].to_owned()
    };
    assert_eq!(status("0123456789abcdef"), "200");
    fs::write(&token, "fedcba9876543210").unwrap();
    server.signal("-HUP");
    while status("fedcba9876543210") != "200" {
        std::thread::yield_now();
    }
    assert_eq!(status("0123456789abcdef"), "401");
}

#[test]
fn a_server_without_a_configuration_file_ends_with_its_terminal() {
    let server = Server::start(&samples(), &[], &[]);
    server.signal("-HUP");
    let (status, _) = server.ended();
    assert!(!status.success());
}
