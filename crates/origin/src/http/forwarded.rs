//! The headers in which proxies state addresses: `Forwarded` (RFC 7239), and `X-Forwarded-For` and
//! its kin.

use std::net::IpAddr;

/// Returns the address that each element of a line of `Forwarded` states, and `None` for an element
/// that states none. A line that is not well formed counts as one such element, because it is not
/// known which part of it the proxy has written, and which the client.
pub(crate) fn addresses(line: &str) -> Vec<Option<IpAddr>> {
    let elements = split(line, b',').map(|elements| elements.into_iter().map(element).collect());
    elements.flatten().unwrap_or_else(|| vec![None])
}

/// Returns the address that an element states. The outer option is `None` if the element is not
/// well formed.
#[expect(clippy::option_option, reason = "an element may be well formed and have no address")]
fn element(text: &str) -> Option<Option<IpAddr>> {
    let mut nodes = Vec::new();
    for pair in split(text, b';')? {
        let (name, value) = pair.split_once('=')?;
        let value = if is_token(name) { unquoted(value)? } else { return None };
        if name.eq_ignore_ascii_case("for") {
            nodes.push(node_address(value));
        }
    }
    // Two addresses contradict each other.
    Some(if let [node] = nodes[..] { node } else { None })
}

/// Splits a text at a separator outside of quoted strings, and leaves out empty pieces. Returns
/// `None` if a quoted string does not end.
fn split(text: &str, separator: u8) -> Option<Vec<&str>> {
    let mut quotes = Quotes::default();
    let pieces = text.split(|c: char| {
        let is_outside = !quotes.is_inside;
        quotes.pass(c);
        is_outside && c == char::from(separator)
    });
    let pieces = pieces.map(str::trim_ascii).filter(|piece| !piece.is_empty()).collect();
    (!quotes.is_inside).then_some(pieces)
}

/// Follows the quoted strings of a text.
#[derive(Debug, Default)]
struct Quotes {
    is_inside: bool,
    is_escaped: bool,
}

impl Quotes {
    fn pass(&mut self, c: char) {
        match c {
            _ if self.is_escaped => self.is_escaped = false,
            '\\' => self.is_escaped = self.is_inside,
            '"' => self.is_inside = !self.is_inside,
            _ => {}
        }
    }
}

/// Returns a value without its quotes. Escapes are kept, since no address has any. Many proxies
/// write addresses without the quotes that colons need, so these are accepted.
fn unquoted(value: &str) -> Option<&str> {
    let Some(quoted) = value.strip_prefix('"') else {
        return (!value.is_empty() && !value.contains(['"', ' ', '\t'])).then_some(value);
    };
    let mut quotes = Quotes { is_inside: true, is_escaped: false };
    let end = quoted.find(|c| {
        quotes.pass(c);
        !quotes.is_inside
    })?;
    quoted.get(..end).filter(|_| end + 1 == quoted.len())
}

fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

/// Parses `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
/// Returns `None` for anything else, such as `unknown` and the hidden names of RFC 7239.
pub(crate) fn node_address(node: &str) -> Option<IpAddr> {
    let (address, port) = match node.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(address, _)| address.contains(':'))?,
        // An address with two colons has no port.
        None if node.bytes().filter(|&byte| byte == b':').count() == 1 => node.split_at(node.find(':')?),
        None => (node, ""),
    };
    let is_port = |port: &str| port.starts_with('_') || port.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    address.parse().ok().filter(|_| is_whole).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stated(line: &str) -> Vec<String> {
        let shown = |address: Option<IpAddr>| address.map_or("-".to_owned(), |address| address.to_string());
        addresses(line).into_iter().map(shown).collect()
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_says() {
        for (line, expected) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", &["192.0.2.60"][..]),
            ("For=\"[2001:db8:cafe::17]:4711\"", &["2001:db8:cafe::17"]),
            ("for=192.0.2.43, FOR=198.51.100.17", &["192.0.2.43", "198.51.100.17"]),
            ("for=192.0.2.43,for=\"[2001:db8::1]\",for=unknown", &["192.0.2.43", "2001:db8::1", "-"]),
            ("for=_gazonk", &["-"]),
            ("for=\"192.0.2.1:_port\"", &["192.0.2.1"]),
            ("for=192.0.2.1:80", &["192.0.2.1"]),
            ("proto=https", &["-"]),
            (", for=192.0.2.1 ;proto=http,", &["192.0.2.1"]),
            ("host=\"a,for=6.6.6.6\";for=192.0.2.1", &["192.0.2.1"]),
            ("host=\"a\\\",for=6.6.6.6\";for=192.0.2.1", &["192.0.2.1"]),
            ("for=192.0.2.1;for=192.0.2.2", &["-"]),
            ("", &[]),
        ] {
            assert_eq!(stated(line), expected, "{line}");
        }
    }

    /// A client may begin a quoted string that swallows what the proxy appends.
    #[test]
    fn a_line_of_forwarded_that_is_not_well_formed_states_nothing() {
        for line in [
            "for=\"x, for=192.0.2.1",
            "for=6.6.6.6;x=\", for=192.0.2.1;host=\",for=7.7.7.7\"",
            "for=\"6.6.6.6\"7, for=192.0.2.1",
            "for 6.6.6.6",
            "for=",
            "=6.6.6.6",
            "f(r=6.6.6.6",
            "for=6.6.6.6 7.7.7.7",
        ] {
            assert_eq!(stated(line), ["-"], "{line}");
        }
    }

    #[test]
    fn wrong_addresses_are_none() {
        for node in [
            "",
            "unknown",
            "_x",
            "256.1.1.1",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "1.2.3.4:x",
            "1.2.3.4:-1",
            "-1.2.3.4",
            "[1.2.3.4]",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:x",
            "1::2::3",
            "12345::",
            "1.2.3.4 ",
            "1.2.3.4\0",
            "::g",
            "fe80::1%eth0",
            "999999999999999999999",
        ] {
            assert_eq!(node_address(node), None, "{node}");
        }
        assert_eq!(node_address("::ffff:192.0.2.1"), node_address("192.0.2.1"));
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(line in "[-a-z0-9.:;,=\"\\\\\\[\\] ]{0,80}") {
            addresses(&line);
            node_address(&line);
        }

        #[test]
        fn every_address_is_found(address: IpAddr, port: u16, quoted: bool, secret in "[ -~]{0,20}") {
            let node = std::net::SocketAddr::new(address, port).to_string();
            prop_assert_eq!(node_address(&node), Some(address.to_canonical()));
            prop_assert_eq!(node_address(&address.to_string()), Some(address.to_canonical()));
            let secret = secret.replace('\\', "\\\\").replace('"', "\\\"");
            let value = if quoted { format!("\"{node}\"") } else { node };
            let line = format!("host=\"{secret}\";for={value}");
            prop_assert_eq!(addresses(&line), [Some(address.to_canonical())]);
        }
    }
}
