//! The server side of HTTP: connections, and the heads of responses.

pub(crate) mod client_address;
pub(crate) mod connections;
mod forwarded;
pub(crate) mod freshness;
pub(crate) mod gather;
mod gzip;
pub(crate) mod host;
pub(crate) mod listen;
pub(crate) mod manifests;
pub(crate) mod pace;
pub(crate) mod page;
mod proxy_protocol;
pub(crate) mod refusal;
pub(crate) mod request_line;
pub(crate) mod respond;
pub(crate) mod server;
pub(crate) mod stall;
pub(crate) mod streams;
pub(crate) mod timer;
pub(crate) mod tls;
