//! Settings of the HTTP server.

use super::Network;
use http::HeaderName;
use latemux_quantity::{ByteSize, TimeSpan, text};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Most connections open at one time. If one more client connects, connections without a
    /// request are closed: first those of addresses with many connections, and among these the ones
    /// that have been idle the longest. If every connection has a request, 64 more are accepted for
    /// health checks, and other clients wait. The last quarter of the connections is reserved for
    /// addresses with few open connections.
    pub max_connections: usize,
    /// Most connections of one address open at one time. Eight more are accepted for health checks
    /// only, and any beyond these are closed at once. An IPv6 address stands for its /64 network.
    /// Trusted proxies have no limit. 0 sets no limit for anybody. Caches in front of this server,
    /// and networks behind one address, may need thousands. Since 0.2.0.
    pub max_connections_per_address: usize,
    /// Most requests of one address in flight at one time. Further ones get status 429. 0 sets no
    /// limit. Since 0.2.0.
    pub max_requests_per_address: usize,
    /// Longest time from the connection, or from the previous response, to the end of a request's
    /// head. The same limit applies to a TLS handshake, and to the time that an HTTP/2 connection
    /// may be without a request, even if the client sends other frames.
    #[serde(with = "TimeSpan")]
    pub header_timeout: Duration,
    /// Longest time for which a client may take no bytes of a response.
    #[serde(with = "TimeSpan")]
    pub stall_timeout: Duration,
    /// Time after SIGTERM in which connections are still accepted, while `/healthz/ready` gives
    /// status 503. It should be longer than load balancers take to notice that status. Since 0.2.0.
    #[serde(with = "TimeSpan")]
    pub drain_delay: Duration,
    /// Lowest rate at which a client must take a response, in bytes a second on average over
    /// `stall_timeout`. Time in which no bytes wait for the client does not count. 0 sets no limit.
    /// Since 0.2.0.
    #[serde(with = "ByteSize")]
    pub min_rate: u64,
    /// Longest time that open responses may take after a signal to stop.
    #[serde(with = "TimeSpan")]
    pub drain_timeout: Duration,
    /// Largest request head in bytes. Values below 8192 count as 8192.
    pub max_header_bytes: u32,
    /// Most requests open at one time on one HTTP/2 connection.
    pub max_streams: u32,
    /// Networks, such as `10.0.0.0/8`, or addresses of the proxies in front of this server. Only
    /// these can state the address of a client. Since 0.2.0.
    pub trusted_proxies: Vec<Network>,
    /// Header in which trusted proxies state the address of the client: `x-forwarded-for`,
    /// `forwarded`, or another one that holds addresses, such as `x-real-ip`. The proxies must
    /// append to the header or replace it. Since 0.2.0.
    #[serde(with = "text")]
    pub client_header: HeaderName,
    /// If true, each connection from a trusted proxy must begin with a header of the PROXY
    /// protocol, version 2. A connection without it is closed. Since 0.2.0.
    pub proxy_protocol: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_connections_per_address: 0,
            max_requests_per_address: 0,
            header_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            drain_delay: Duration::from_secs(5),
            min_rate: 2 << 10,
            drain_timeout: Duration::from_secs(30),
            max_header_bytes: 16 << 10,
            max_streams: 128,
            trusted_proxies: Vec::new(),
            client_header: HeaderName::from_static("x-forwarded-for"),
            proxy_protocol: false,
        }
    }
}
