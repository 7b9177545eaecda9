//! Reads arbitrary bytes as the beginning of a connection from a trusted proxy. No input may panic,
//! and not one byte behind the header may be taken.
#![no_main]

#[path = "../../crates/origin/src/http/proxy_protocol.rs"]
mod proxy_protocol;

use libfuzzer_sys::fuzz_target;
use std::{
    io::ErrorKind,
    pin::pin,
    task::{Context, Poll, Waker},
};

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let read = {
        let mut reading = pin!(proxy_protocol::read_header(&mut rest));
        match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => read,
            Poll::Pending => panic!("bytes in memory are there at once"),
        }
    };
    let taken = data.len() - rest.len();
    match read {
        Ok(address) => {
            // The two bytes before the 17th state how many follow.
            let [high, low] = data[14..16] else { panic!("a header has 16 bytes") };
            assert_eq!(taken, 16 + usize::from(u16::from_be_bytes([high, low])));
            let is_stated = |octets: &[u8]| data[16..taken].starts_with(octets);
            assert!(match address {
                None => true,
                // An IPv4 address may be stated as an IPv6 one.
                Some(std::net::IpAddr::V4(v4)) =>
                    is_stated(&v4.octets()) || is_stated(&v4.to_ipv6_mapped().octets()),
                Some(std::net::IpAddr::V6(v6)) => is_stated(&v6.octets()),
            });
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof), "{error}");
        }
    }
    assert!(taken <= 16 + 4096);
});
