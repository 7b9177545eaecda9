use super::*;
use proptest::prelude::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns the client that is found behind the trusted proxies `10.0.0.0/8` and `2001:db8::1`.
fn found(header: &'static str, peer: &str, lines: &[&str]) -> String {
    let trusted = ["10.0.0.0/8", "2001:db8::1"].map(|network| network.parse().unwrap());
    let config = HttpConfig {
        trusted_proxies: trusted.to_vec(),
        client_header: HeaderName::from_static(header),
        ..HttpConfig::default()
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(header, http::HeaderValue::from_bytes(line.as_bytes()).unwrap());
    }
    ClientAddresses::new(&config).find(address(peer), &headers).to_string()
}

#[test]
fn without_trusted_proxies_the_client_is_the_peer() {
    let clients = ClientAddresses::new(&HttpConfig::default());
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", "6.6.6.6".parse().unwrap());
    assert_eq!(clients.find(address("10.0.0.1"), &headers), address("10.0.0.1"));
    assert_eq!(clients.find(address("::ffff:10.0.0.1"), &headers), address("10.0.0.1"));
    assert!(!clients.is_proxy(address("10.0.0.1")));
}

#[test]
fn untrusted_peers_cannot_state_another_address() {
    for peer in ["192.0.2.1", "11.0.0.1", "2001:db8::2"] {
        assert_eq!(found("x-forwarded-for", peer, &["6.6.6.6"]), peer);
        assert_eq!(found("forwarded", peer, &["for=6.6.6.6"]), peer);
    }
}

#[test]
fn the_last_address_that_is_no_trusted_proxy_is_the_client() {
    for (peer, lines, expected) in [
        ("10.0.0.1", &["192.0.2.1"][..], "192.0.2.1"),
        ("::ffff:10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
        ("2001:db8::1", &["[2001:db8::9]:443"], "2001:db8::9"),
        // What the client itself has sent comes first.
        ("10.0.0.1", &["6.6.6.6, 192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", &["6.6.6.6", "192.0.2.1"], "192.0.2.1"),
        ("10.0.0.1", &["6.6.6.6, 192.0.2.1, 10.1.1.1", "10.2.2.2:80, 2001:db8::1"], "192.0.2.1"),
        ("10.0.0.1", &["10.1.1.1"], "10.1.1.1"),
        ("10.0.0.1", &[], "10.0.0.1"),
        ("10.0.0.1", &["", " , "], "10.0.0.1"),
        // What cannot be read ends the search at the last proxy that is known.
        ("10.0.0.1", &["192.0.2.1, unknown"], "10.0.0.1"),
        ("10.0.0.1", &["192.0.2.1, unknown, 10.3.3.3"], "10.3.3.3"),
        ("10.0.0.1", &["192.0.2.1, 256.1.1.1, 10.3.3.3"], "10.3.3.3"),
        ("10.0.0.1", &["192.0.2.1", "\u{e9}"], "10.0.0.1"),
    ] {
        assert_eq!(found("x-forwarded-for", peer, lines), expected, "{peer} {lines:?}");
    }
    let lines = ["for=6.6.6.6, for=192.0.2.1;host=\"a,for=7.7.7.7\"", "for=\"10.1.1.1:80\""];
    assert_eq!(found("forwarded", "10.0.0.1", &lines), "192.0.2.1");
    assert_eq!(found("forwarded", "10.0.0.1", &["for=\"6.6.6.6, for=192.0.2.1"]), "10.0.0.1");
}

#[test]
fn only_the_configured_header_is_read() {
    let config = HttpConfig {
        trusted_proxies: vec!["10.0.0.1".parse().unwrap()],
        client_header: HeaderName::from_static("x-real-ip"),
        ..HttpConfig::default()
    };
    let mut headers = HeaderMap::new();
    for (name, value) in
        [("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6"), ("x-real-ip", "192.0.2.1")]
    {
        headers.insert(name, value.parse().unwrap());
    }
    assert_eq!(ClientAddresses::new(&config).find(address("10.0.0.1"), &headers), address("192.0.2.1"));
}

#[test]
fn a_header_of_any_length_is_read_from_its_end_and_not_to_its_start() {
    // As long as a head may be at most, and with nothing but trusted proxies.
    let long = format!("6.6.6.6{}", ", 10.1.1.1".repeat(1600));
    assert_eq!(found("x-forwarded-for", "10.0.0.1", &[&long]), "10.1.1.1");
    let long = format!("{}192.0.2.1", "6.6.6.6, ".repeat(1600));
    assert_eq!(found("x-forwarded-for", "10.0.0.1", &[&long]), "192.0.2.1");
    assert_eq!(found("x-forwarded-for", "10.0.0.1", &[&"1".repeat(16_000)]), "10.0.0.1");
    let most = ["10.1.1.1"; MAX_PROXIES - 1].join(", ");
    assert_eq!(found("x-forwarded-for", "10.0.0.1", &[&format!("192.0.2.1, {most}")]), "192.0.2.1");
}

proptest! {
    #[test]
    fn what_comes_before_the_address_of_the_last_proxy_is_never_believed(spoofed in "[ -~]{0,60}", client: [u8; 4]) {
        let client = IpAddr::from(client);
        prop_assume!(!matches!(client, IpAddr::V4(v4) if v4.octets()[0] == 10));
        prop_assert_eq!(found("x-forwarded-for", "10.0.0.1", &[&format!("{spoofed}, {client}")]), client.to_string());
        let forwarded = found("forwarded", "10.0.0.1", &[&format!("{spoofed}, for={client}")]);
        prop_assert!(forwarded == client.to_string() || forwarded == "10.0.0.1", "{}", forwarded);
    }
}
