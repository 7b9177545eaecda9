//! Parses arbitrary URLs, by the native grammar and by that of nginx-vod-module. No input may
//! panic, and a parsed address is written as a URL that parses to the same address. The input is a
//! byte of flags, a path and, after a newline, a query.
#![no_main]

use latemux_packager::{
    Address,
    address::{
        AddressError, HlsContainer,
        nginx_vod::{MAX_PATH, NginxVodAddress, Prefixes, Settings},
    },
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&flags, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let (path, query) = text.split_once('\n').map_or((text, None), |(path, query)| (path, Some(query)));
    if let Ok(address) = Address::parse(path, query) {
        let url = address.to_url();
        let (path, query) = parts(&url);
        assert_eq!(Address::parse(path, query).as_ref(), Ok(&address), "{url}");
    }
    let settings = settings(flags);
    if let Some(Ok(address)) = NginxVodAddress::parse(&settings, path, query) {
        let url = address.to_url(&settings).expect("its protocol has a prefix");
        let (path, query) = parts(&url);
        // Escaping may make the path longer than the limit. Only then may the URL be refused.
        let again = NginxVodAddress::parse(&settings, path, query);
        if !matches!(again, Some(Err(AddressError::TooLong { .. }))) || path.len() <= MAX_PATH {
            assert_eq!(again, Some(Ok(address)), "{url}");
        }
    }
});

fn settings(flags: u8) -> Settings {
    let prefix = |bit: u8, own: &str| match flags >> bit & 3 {
        0 => None,
        1 => Some("/".to_owned()),
        2 => Some("/hls/".to_owned()),
        _ => Some(own.to_owned()),
    };
    let prefixes = Prefixes {
        hls: prefix(0, "/hls/"),
        dash: prefix(2, "/dash/"),
        mss: prefix(4, "/mss/"),
        hds: prefix(4, "/hds/"),
    };
    let container = if flags & 0x40 == 0 { HlsContainer::Auto } else { HlsContainer::Cmaf };
    Settings { prefixes, container, ..Settings::default() }
}

fn parts(url: &str) -> (&str, Option<&str>) {
    url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)))
}
