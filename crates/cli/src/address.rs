//! Addresses to listen on, as the command line states them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr};

/// Address of metrics, health checks and purging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminAddress {
    Tcp(SocketAddr),
    /// Path of a Unix socket, written as `unix:/path`.
    Unix(PathBuf),
}

impl FromStr for AdminAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => {
                Err("the path of a socket must be absolute: write unix:/run/latemux/admin.sock".to_owned())
            }
            None => listen_address(text).map(Self::Tcp),
        }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for AdminAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AdminAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Parses the address and port of a listener.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok()).unwrap_or("8080");
        format!(
            "an IP address and a port are needed: write 127.0.0.1:{port} for this machine only, or \
             0.0.0.0:{port} for all networks"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_listen_address_is_answered_with_a_right_one() {
        assert_eq!(listen_address("[::1]:80").unwrap().port(), 80);
        for (text, written) in [
            ("9000", "127.0.0.1:9000"),
            (":9000", "0.0.0.0:9000"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("127.0.0.1", "127.0.0.1:8080"),
            ("0.0.0.0:99999", "127.0.0.1:8080"),
        ] {
            let why = listen_address(text).unwrap_err();
            assert!(why.contains(written), "{text}: {why}");
        }
    }

    #[test]
    fn the_admin_address_is_a_port_or_a_socket() {
        for text in ["127.0.0.1:9090", "[::1]:80", "unix:/run/latemux/admin.sock"] {
            assert_eq!(text.parse::<AdminAddress>().unwrap().to_string(), text);
        }
        for text in ["9090", "unix:", "unix:admin.sock", "/run/admin.sock"] {
            text.parse::<AdminAddress>().unwrap_err();
        }
    }
}
