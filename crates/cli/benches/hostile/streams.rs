//! HTTP/2 streams whose clients take one byte of each response.

use crate::{
    Bench,
    connection::Connection,
    media::FILM,
    report::Report,
    slow::{connect, segments_of},
    under_attack::{self, Target},
    viewer::Viewer,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};
use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

const CONNECTIONS: usize = 40;
const STREAMS: u32 = 120;
/// The first bytes that an HTTP/2 client sends (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Type of a frame that begins a stream, and the flags that the request ends with it.
const HEADERS: (u8, u8) = (1, 0x05);
const SETTINGS: (u8, u8) = (4, 0);
/// The setting of the window that each stream begins with.
const INITIAL_WINDOW_SIZE: u16 = 4;

type Secured = StreamOwned<ClientConnection, TcpStream>;

/// 40 connections with 120 streams each, whose window is one byte, on joined segments of 30 s.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let plain = bench.start(&bench.nginx.location(), "", &[]);
    let viewer = Viewer::of(&plain);
    let urls = segments_of(plain.address, FILM, "?hls_minimum_fragment_length=30");
    drop(plain);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("cert.pem"), made.cert.pem()).unwrap();
    fs::write(at("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let config = format!("[tls]\ncert = {:?}\nkey = {:?}\n", at("cert.pem"), at("key.pem"));
    let origin = bench.start(&bench.nginx.location(), &config, &[]);
    let trust = made.cert.der();
    let stream = TcpStream::connect(origin.address).unwrap();
    stream.set_nodelay(true).unwrap();
    let viewer = viewer.over(Connection::over(secure(stream, trust, b"http/1.1"), origin.address));
    under_attack::run_beside(bench, report, &origin, viewer, |target: &Target<'_>| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .filter_map(|_| begin(secure(connect(target.origin.address)?, trust, b"h2"), &urls).ok())
            .collect();
        assert_eq!(clients.len(), CONNECTIONS);
        target.at_full_force();
        target.hold();
        drop(clients);
    });
}

/// Makes a connection secure, with this protocol by ALPN.
fn secure(stream: TcpStream, trust: &CertificateDer<'static>, protocol: &[u8]) -> Secured {
    let mut roots = RootCertStore::empty();
    roots.add(trust.clone()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// Sends the requests of one connection, and reads only the first bytes of what comes back.
fn begin(mut client: Secured, urls: &[String]) -> io::Result<Secured> {
    client.sock.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
    setting.extend(1_u32.to_be_bytes());
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, &setting)].concat())?;
    for (number, url) in (0..STREAMS).zip(urls.iter().cycle()) {
        client.write_all(&frame(HEADERS, 2 * number + 1, &request(url)))?;
    }
    client.flush()?;
    client.read_exact(&mut [0; 9])?;
    Ok(client)
}

/// Returns a frame (RFC 9113, 4.1).
fn frame((kind, flags): (u8, u8), stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the fields of a request: two from the static table, two literals (RFC 7541, 6).
fn request(path: &str) -> Vec<u8> {
    let mut fields = vec![0x82, 0x87];
    for (name, value) in [(0x04, path), (0x01, "localhost")] {
        fields.push(name);
        match u8::try_from(value.len()).unwrap() {
            length @ 0..127 => fields.push(length),
            length => fields.extend([127, length - 127]),
        }
        fields.extend(value.as_bytes());
    }
    fields
}
