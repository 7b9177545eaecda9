//! The servers that may be contacted. A manifest comes from the server under test and could refer
//! to any other server.

use crate::failure::{Failure, Reason};
use url::Url;

/// The servers that may be contacted.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    /// The host in lower case, and the port. Without a port, all ports of the host are allowed.
    allowed: Vec<(String, Option<u16>)>,
}

impl AllowedHosts {
    /// Allows the host of a URL at the URL's port only.
    pub fn allow_server(&mut self, url: &Url) {
        let Some(host) = url.host_str() else { return };
        let server = (host.to_ascii_lowercase(), url.port_or_known_default());
        // Each request compares its server with all of these.
        if !self.allowed.contains(&server) {
            self.allowed.push(server);
        }
    }

    /// Allows `host` at any port, or `host:port`. Any other text is refused.
    pub fn allow(&mut self, host: &str) -> Result<(), String> {
        let url = Url::parse(&format!("http://{host}/")).map_err(|error| format!("{host}: {error}"))?;
        let plain = url.path() == "/" && url.query().is_none() && url.username().is_empty();
        let name = url
            .host_str()
            .filter(|_| plain)
            .ok_or_else(|| format!("{host}: neither a host nor host:port"))?;
        // `Url` drops port 80 because it is the scheme's default.
        let port =
            host.rsplit_once(':').filter(|_| !host.ends_with(']')).and_then(|(_, port)| port.parse().ok());
        self.allowed.push((name.to_ascii_lowercase(), port));
        Ok(())
    }

    /// Fails with [`Reason::HostNotAllowed`] if the server of a URL may not be contacted.
    pub fn check(&self, url: &Url) -> Result<(), Failure> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default();
        let fits = |(name, only): &(String, Option<u16>)| {
            name.eq_ignore_ascii_case(host) && (only.is_none() || *only == port)
        };
        if self.allowed.iter().any(fits) {
            return Ok(());
        }
        let server = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Err(Failure::new(
            Reason::HostNotAllowed,
            format!("{url} is on another host: --allow-host {server} allows it"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_urls_of_one_server_made_each_request_slower() {
        let mut hosts = AllowedHosts::default();
        for path in 0..100 {
            hosts.allow_server(&Url::parse(&format!("http://origin.example/{path}")).unwrap());
        }
        assert_eq!(hosts.allowed.len(), 1);
    }

    #[test]
    fn only_the_named_hosts_and_ports_are_allowed() {
        let mut hosts = AllowedHosts::default();
        hosts.allow_server(&Url::parse("http://Origin.example:8080/x").unwrap());
        hosts.allow("cdn.example").unwrap();
        hosts.allow("[::1]:80").unwrap();
        let may = |url: &str| hosts.check(&Url::parse(url).unwrap()).is_ok();
        assert!(may("http://origin.example:8080/y") && !may("http://origin.example/y"));
        assert!(
            may("https://cdn.example/") && may("http://cdn.example:81/") && !may("http://a.cdn.example/")
        );
        assert!(may("http://[::1]/") && !may("http://[::1]:81/"));
        for wrong in ["", "a/b", "a?b", "x@a", "a:b"] {
            assert!(hosts.allow(wrong).is_err(), "{wrong}");
        }
    }
}
