//! `latemux health`: asks a server whether it is ready, for containers without other programs.

use crate::location::http_url;
use anyhow::{Result, anyhow};
use clap::Args;
use latemux_client::{
    http::{AllowedHosts, Client, ClientOptions, Connection, Network, Trust},
    presentation::Resource,
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Largest response that is accepted, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Ask a server whether it is ready, and exit with status 0 if it is
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// URL of the health check
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080/healthz/ready")]
    url: String,
    /// Longest time to wait for the response
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    timeout: latemux_quantity::TimeSpan,
}

/// Fails if the server does not say that it is ready.
pub(crate) fn run(flags: &Health) -> Result<()> {
    let url = http_url(&flags.url)?;
    let mut hosts = AllowedHosts::default();
    hosts.allow_server(&url);
    let agent = concat!("latemux-health/", env!("CARGO_PKG_VERSION")).to_owned();
    let options = ClientOptions { hosts, timeout: flags.timeout.0, agent, ..ClientOptions::default() };
    // Any certificate will do: nothing secret is sent, and an address such as 127.0.0.1 has none.
    let network = Network::new(&Trust::Any).map_err(|why| anyhow!(why))?;
    let client = Client::new(Arc::new(network), options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let resource = Resource { url, range: None };
    let mut connection = Connection::default();
    let asked = client.get_whole(&mut connection, &resource, Instant::now(), MAX_BYTES);
    let (fetched, _) = runtime.block_on(asked);
    runtime.shutdown_timeout(Duration::ZERO);
    fetched.map(drop).map_err(|failed| anyhow!("not ready: {}", failed.failure))
}
