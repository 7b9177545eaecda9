//! The rules for the `Host` of a request (RFC 9112 §3.2, RFC 9113 §8.3.1).

use crate::Error;
use http::{Version, header, request::Parts};

/// Checks that a request names exactly one host. Without this check, a cache in front could store a
/// response for another host than the one that this server has seen.
pub(crate) fn check_host(request: &Parts) -> Result<(), Error> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let host = hosts.next();
    let second = hosts.next();
    let is_right = match host {
        _ if second.is_some() => false,
        // Older versions need none, and HTTP/2 has `:authority`.
        None => request.version != Version::HTTP_11,
        Some(host) if !host.as_bytes().iter().copied().all(is_host_byte) => false,
        Some(host) if request.version == Version::HTTP_2 => {
            let authority = request.uri.authority();
            authority.is_none_or(|named| named.as_str().as_bytes().eq_ignore_ascii_case(host.as_bytes()))
        }
        Some(_) => true,
    };
    if is_right { Ok(()) } else { Err(Error::BadHost) }
}

/// Returns true for the bytes of a host and a port (RFC 3986 §3.2.2).
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(version: Version, uri: &str, hosts: &[&str]) -> bool {
        let mut request = http::Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header("host", *host);
        }
        check_host(&request.body(()).unwrap().into_parts().0).is_ok()
    }

    #[test]
    fn missing_double_and_wrong_hosts_were_accepted() {
        for (version, uri, hosts, expected) in [
            (Version::HTTP_11, "/", &["a.example"][..], true),
            (Version::HTTP_11, "/", &["a.example:8080"], true),
            (Version::HTTP_11, "/", &["[2001:db8::1]:80"], true),
            (Version::HTTP_11, "/", &[""], true),
            (Version::HTTP_11, "http://a.example/", &["a.example"], true),
            (Version::HTTP_11, "/", &[], false),
            (Version::HTTP_11, "http://a.example/", &[], false),
            (Version::HTTP_11, "/", &["a.example", "a.example"], false),
            (Version::HTTP_11, "/", &["a.example", "b.example"], false),
            (Version::HTTP_11, "/", &["a.example b.example"], false),
            (Version::HTTP_11, "/", &["a.example/x"], false),
            (Version::HTTP_11, "/", &["user@a.example"], false),
            (Version::HTTP_11, "/", &["a.example?"], false),
            (Version::HTTP_10, "/", &[], true),
            (Version::HTTP_10, "/", &["a.example"], true),
            (Version::HTTP_10, "/", &["a.example", "a.example"], false),
            (Version::HTTP_2, "https://a.example/", &[], true),
            (Version::HTTP_2, "https://a.example/", &["A.example"], true),
            (Version::HTTP_2, "https://a.example/", &["b.example"], false),
            (Version::HTTP_2, "https://a.example/", &["a.example", "a.example"], false),
            (Version::HTTP_2, "/", &["a.example"], true),
        ] {
            assert_eq!(is_right(version, uri, hosts), expected, "{version:?} {uri} {hosts:?}");
        }
    }
}
