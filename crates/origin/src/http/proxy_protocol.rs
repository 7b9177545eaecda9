//! Version 2 of the PROXY protocol: the bytes with which a proxy begins a connection to state whose
//! connection it passes on.
//!
//! <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, section 2.2

use std::{io, net::IpAddr};
use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Most bytes after the fixed part of a header. Addresses take up to 216, and the rest are values
/// such as a name of TLS, which are not read.
const MAX_LENGTH: u16 = 4096;

/// Reads the header at the start of a connection, and not one byte more. Returns the address of the
/// client, or `None` if the connection is the proxy's own, such as a health check.
///
/// # Errors
/// `InvalidData` if the connection begins with anything else, and the errors of the connection.
pub(crate) async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    let mut fixed = [0; 16];
    stream.read_exact(&mut fixed).await?;
    let [signature @ .., version, family, high, low] = fixed;
    let length = u16::from_be_bytes([high, low]);
    if signature != SIGNATURE || version >> 4 != 2 || length > MAX_LENGTH {
        return Err(invalid());
    }
    let mut rest = vec![0; usize::from(length)];
    stream.read_exact(&mut rest).await?;
    match version & 0x0f {
        0 => Ok(None),
        1 => source(family, &rest),
        _ => Err(invalid()),
    }
}

/// Returns the source address of a block of addresses. There is none if the proxy does not know it,
/// or if the client came by a Unix socket.
fn source(family: u8, block: &[u8]) -> io::Result<Option<IpAddr>> {
    let has = |length: usize| if block.len() < length { Err(invalid()) } else { Ok(()) };
    if family & 0x0f > 2 {
        return Err(invalid());
    }
    match family >> 4 {
        0 => Ok(None),
        1 => has(12).map(|()| block.first_chunk::<4>().map(|octets| IpAddr::from(*octets))),
        2 => has(36).map(|()| block.first_chunk::<16>().map(|octets| IpAddr::from(*octets).to_canonical())),
        3 => has(216).map(|()| None),
        _ => Err(invalid()),
    }
}

fn invalid() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the connection does not begin with a header of the PROXY protocol v2",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Writes a header: command, family and protocol, and what follows.
    fn header(version: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[version, family], &length, rest].concat()
    }

    /// Returns the address, and the bytes that are left for HTTP.
    fn read(mut bytes: &[u8]) -> io::Result<(Option<IpAddr>, &[u8])> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let address = runtime.block_on(read_header(&mut bytes))?;
        Ok((address, bytes))
    }

    #[test]
    fn the_source_address_is_found_and_the_request_left() {
        let v4 = [&[192, 0, 2, 7, 10, 0, 0, 1, 0x1f, 0x90, 0, 80][..], b"\x04\0\x03abc"].concat();
        let mut v6 = [0; 36];
        v6[..16].copy_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).octets());
        let mut mapped = [0; 36];
        mapped[..16].copy_from_slice(&Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped().octets());
        for (version, family, rest, expected) in [
            (0x21, 0x11, &v4[..], Some("192.0.2.7")),
            (0x21, 0x12, &v4, Some("192.0.2.7")),
            (0x21, 0x21, &v6, Some("2001:db8::7")),
            (0x21, 0x21, &mapped, Some("192.0.2.7")),
            (0x21, 0x31, &[0; 216], None),
            (0x21, 0x00, &v4, None),
            (0x21, 0x00, &[], None),
            (0x20, 0x11, &v4, None),
            (0x20, 0x00, &[], None),
        ] {
            let bytes = [&header(version, family, rest)[..], b"GET /"].concat();
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(read(&bytes).unwrap(), (expected, &b"GET /"[..]), "{version:x} {family:x}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let v4 = [0; 12];
        for bytes in [
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.7 10.0.0.1 8080 80\r\n".to_vec(),
            header(0x11, 0x11, &v4),
            header(0x22, 0x11, &v4),
            header(0x21, 0x13, &v4),
            header(0x21, 0x41, &v4),
            header(0x21, 0x11, &v4[..11]),
            header(0x21, 0x21, &[0; 35]),
            header(0x21, 0x31, &[0; 215]),
            header(0x21, 0x11, &[0; 4097]),
        ] {
            assert_eq!(read(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
        assert_eq!(read(&header(0x21, 0x11, &v4)[..27]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(version: u8, family: u8, length in 0_u16..300, rest in prop::collection::vec(any::<u8>(), 0..300)) {
            let bytes = [&SIGNATURE[..], &[version, family], &length.to_be_bytes(), &rest].concat();
            if let Ok((_, left)) = read(&bytes) {
                prop_assert_eq!(left.len(), rest.len() - usize::from(length));
            }
            let _ = read(&rest);
        }
    }
}
