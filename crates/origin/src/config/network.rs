//! Networks of addresses, as text.

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, net::IpAddr, str::FromStr};

/// A network of IP addresses, written as `10.0.0.0/8`, or as a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    /// Returns true if the address belongs to the network. An IPv4-mapped IPv6 address counts as
    /// the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let network = text.parse::<IpNet>().ok();
        let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
        let network = network.map(|network| Self(network.trunc()));
        network.ok_or_else(|| {
            format!("'{text}' is not a network such as 10.0.0.0/8 or 2001:db8::/32, and not an IP address")
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_parse_and_print() {
        for (text, printed) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), printed);
        }
        for text in ["", "10.0.0.0/33", "10.0.0/8", "localhost", "10.0.0.0/-1", "10.0.0.0/8 ", "::/129", "*"]
        {
            let why = text.parse::<Network>().unwrap_err();
            assert!(why.contains("10.0.0.0/8"), "{why}");
        }
    }

    #[test]
    fn an_ipv4_network_holds_addresses_that_a_socket_of_ipv6_reports() {
        let network: Network = "10.0.0.0/8".parse().unwrap();
        for (address, is_inside) in
            [("10.255.0.1", true), ("::ffff:10.0.0.1", true), ("11.0.0.0", false), ("::a00:1", false)]
        {
            assert_eq!(network.contains(address.parse().unwrap()), is_inside, "{address}");
        }
    }
}
