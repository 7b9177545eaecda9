//! Addresses to listen on, as the command line states them.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, SeqAccess, Visitor},
};
use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

/// Address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    Tcp(SocketAddr),
    /// Path of a Unix socket, written as `unix:/path`.
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(_) => {
                Err("the path of a socket must be absolute: write unix:/run/latemux/latemux.sock".to_owned())
            }
            None => port_address(text).map(Self::Tcp),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for ListenAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ListenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Parses the address and port of a listener. `:8080` stands for all IPv4 networks of the machine,
/// and `localhost:8080` for the machine itself.
pub(crate) fn port_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let address = match (text.rsplit_once(':'), port) {
        (Some(("", _)), Some(port)) => Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))),
        (Some(("localhost", _)), Some(port)) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        _ => text.parse().ok(),
    };
    address.ok_or_else(|| {
        let port = port.unwrap_or(8080);
        format!(
            "an IP address and a port are needed: write 127.0.0.1:{port} for this machine only, or \
             :{port} for all networks, or unix:/path for a socket"
        )
    })
}

/// Addresses of a listener: one as text, or several as a list of texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenAddresses(pub(crate) Vec<ListenAddress>);

impl fmt::Display for ListenAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(ListenAddress::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

impl Serialize for ListenAddresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => serializer.collect_str(only),
            several => serializer.collect_seq(several.iter().map(ListenAddress::to_string)),
        }
    }
}

impl<'de> Deserialize<'de> for ListenAddresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = ListenAddresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as \":8080\", or a list of addresses")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map(|address| ListenAddresses(vec![address])).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Self::Value, A::Error> {
                let mut addresses = Vec::new();
                while let Some(text) = texts.next_element::<String>()? {
                    addresses.push(text.parse().map_err(A::Error::custom)?);
                }
                if addresses.is_empty() {
                    return Err(A::Error::custom("name at least one address"));
                }
                Ok(ListenAddresses(addresses))
            }
        }
        deserializer.deserialize_any(Texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_listen_address_is_answered_with_a_right_one() {
        for (text, written) in [
            ("9000", "127.0.0.1:9000"),
            ("example.org:9000", "127.0.0.1:9000"),
            ("127.0.0.1", "127.0.0.1:8080"),
            ("0.0.0.0:99999", "127.0.0.1:8080"),
            (":99999", ":8080"),
        ] {
            let why = port_address(text).unwrap_err();
            assert!(why.contains(written), "{text}: {why}");
        }
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, address) in [
            ("[::1]:80", "[::1]:80"),
            (":9000", "0.0.0.0:9000"),
            ("localhost:0", "127.0.0.1:0"),
            ("192.0.2.1:1", "192.0.2.1:1"),
        ] {
            assert_eq!(port_address(text).unwrap().to_string(), address);
        }
    }

    #[test]
    fn several_addresses_are_a_list() {
        #[derive(Debug, Serialize, Deserialize)]
        struct Keys {
            listen: ListenAddresses,
        }
        for (text, printed) in [
            ("listen = ':80'", "listen = \"0.0.0.0:80\"\n"),
            ("listen = [':80', '[::]:80']", "listen = [\"0.0.0.0:80\", \"[::]:80\"]\n"),
            ("listen = [':80', 'unix:/a']", "listen = [\"0.0.0.0:80\", \"unix:/a\"]\n"),
        ] {
            let keys: Keys = toml::from_str(text).unwrap();
            assert_eq!(toml::to_string(&keys).unwrap(), printed);
        }
        for (text, why) in [
            ("listen = []", "at least one address"),
            ("listen = 'unix:x'", "must be absolute"),
            ("listen = ['x']", "an IP address and a port are needed"),
            ("listen = 80", "a list of addresses"),
        ] {
            let error = toml::from_str::<Keys>(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_address_is_a_port_or_a_socket() {
        for text in ["127.0.0.1:9090", "[::1]:80", "unix:/run/latemux/admin.sock"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in ["9090", "unix:", "unix:admin.sock", "/run/admin.sock"] {
            text.parse::<ListenAddress>().unwrap_err();
        }
    }
}
