//! Addresses to listen on, as the command line states them.

use std::net::SocketAddr;

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
}
