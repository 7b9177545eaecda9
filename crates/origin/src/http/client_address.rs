//! The client's address: that of the connection's peer, or the one that trusted proxies state.

use crate::{
    config::{HttpConfig, Network},
    http::forwarded,
};
use http::{HeaderMap, HeaderName, header};
use std::{net::IpAddr, ops::ControlFlow};

/// Most proxies that a request may have passed. The address that the last of them states is used
/// for a request with more.
const MAX_PROXIES: usize = 16;

/// Finds the addresses of clients, behind trusted proxies or not.
#[derive(Debug)]
pub(crate) struct ClientAddresses {
    trusted: Vec<Network>,
    header: HeaderName,
}

impl ClientAddresses {
    pub(crate) fn new(config: &HttpConfig) -> Self {
        Self { trusted: config.trusted_proxies.clone(), header: config.client_header.clone() }
    }

    /// Returns true if the address is that of a trusted proxy, whose connections carry requests of
    /// many clients.
    pub(crate) fn is_proxy(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Returns the address of the client that sent a request on a connection from `peer`.
    ///
    /// Each proxy appends the address that it got the request from, so the header is read from its
    /// end. Only what a trusted proxy has appended is believed: the first address that is not a
    /// trusted proxy's is the client's, and nothing before it is read.
    pub(crate) fn find(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.is_proxy(client) {
            return client;
        }
        let mut proxies = 0;
        for line in headers.get_all(&self.header).iter().rev() {
            let Ok(line) = line.to_str() else { break };
            let mut take = |stated: Option<IpAddr>| {
                let Some(address) = stated else { return ControlFlow::Break(()) };
                client = address;
                proxies += 1;
                if proxies < MAX_PROXIES && self.is_proxy(address) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let read = if self.header == header::FORWARDED {
                forwarded::addresses(line).into_iter().rev().try_for_each(&mut take)
            } else {
                let items = line.rsplit(',').map(str::trim_ascii).filter(|item| !item.is_empty());
                items.map(forwarded::node_address).try_for_each(&mut take)
            };
            if read.is_break() {
                break;
            }
        }
        client
    }
}

#[cfg(test)]
#[path = "client_address_tests.rs"]
mod tests;
