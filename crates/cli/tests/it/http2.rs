//! A minimal HTTP/2 client that sends each frame as told, over TLS.

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName},
};
use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
};
use tempfile::TempDir;

/// The first bytes that an HTTP/2 client sends (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Type of a frame with a request, and the flags that it holds all headers and ends the request.
const HEADERS: (u8, u8) = (1, 0x05);
/// Frame of settings, and its acknowledgement.
const SETTINGS: (u8, u8) = (4, 0);
const SETTINGS_ACK: (u8, u8) = (4, 1);
/// Frame that asks for an answer, and that answer.
const PING: (u8, u8) = (6, 0);
const PING_ACK: (u8, u8) = (6, 1);
/// The setting of the window that each stream begins with.
const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A certificate of localhost, in files.
pub(crate) struct Certificate {
    folder: TempDir,
    /// The certificate that clients trust.
    trust: CertificateDer<'static>,
}

impl Certificate {
    pub(crate) fn make() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { folder, trust: made.cert.der().clone() }
    }

    /// Returns the configuration of a server that uses it.
    pub(crate) fn config(&self) -> String {
        let at = |name: &str| self.folder.path().join(name);
        format!("[tls]\ncert = {:?}\nkey = {:?}\n", at("cert.pem"), at("key.pem"))
    }

    /// Makes a connection secure, with this protocol by ALPN.
    pub(crate) fn secure(&self, stream: TcpStream, protocol: &[u8]) -> Secured {
        let mut roots = RootCertStore::empty();
        roots.add(self.trust.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    }
}

/// Returns a frame (RFC 9113, 4.1).
fn frame((kind, flags): (u8, u8), stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Reads a frame. Returns its type with its flags, and its payload.
fn read_frame(stream: &mut impl Read) -> io::Result<((u8, u8), Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload)?;
    Ok(((head[3], head[4]), payload))
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

/// Begins a connection without a request.
pub(crate) fn begin(client: &mut Secured) -> io::Result<()> {
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, &[])].concat())?;
    client.flush()
}

/// Sends a PING, and reads frames until it is answered. Answers the frames that need it.
pub(crate) fn ping(client: &mut Secured) -> io::Result<()> {
    client.write_all(&frame(PING, 0, &[7; 8]))?;
    client.flush()?;
    loop {
        match read_frame(client)? {
            (PING_ACK, _) => return Ok(()),
            (SETTINGS, _) => client.write_all(&frame(SETTINGS_ACK, 0, &[]))?,
            (PING, payload) => client.write_all(&frame(PING_ACK, 0, &payload))?,
            _ => {}
        }
    }
}

/// Begins a connection whose streams have a window of one byte, and requests each URL on a stream
/// of its own. Reads only the first bytes of what comes back.
pub(crate) fn request_and_take_nothing<'a>(
    client: &mut Secured,
    urls: impl Iterator<Item = &'a String>,
) -> io::Result<()> {
    let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
    setting.extend(1_u32.to_be_bytes());
    client.write_all(&[PREFACE, &frame(SETTINGS, 0, &setting)].concat())?;
    for (number, url) in (0_u32..).zip(urls) {
        client.write_all(&frame(HEADERS, 2 * number + 1, &request(url)))?;
    }
    client.flush()?;
    client.read_exact(&mut [0; 9])
}
