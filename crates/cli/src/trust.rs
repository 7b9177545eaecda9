//! Flags for the certificates that a client trusts.

use anyhow::{Context, Result, anyhow};
use clap::Args as ClapArgs;
use latemux_client::http::{Network, Trust};
use std::{fs, path::PathBuf};

/// Flags of every command that acts as a client.
#[derive(Debug, ClapArgs)]
pub(crate) struct TrustFlags {
    /// Certificates (PEM) to trust besides the system's: of an authority, or of the server itself
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Do not check certificates
    #[arg(long, conflicts_with = "ca")]
    pub(crate) insecure: bool,
}

impl TrustFlags {
    /// Returns connections that trust these certificates.
    pub(crate) fn network(&self) -> Result<Network> {
        let trust = match &self.ca {
            Some(path) => {
                let pem = fs::read(path).with_context(|| format!("--ca: cannot read {}", path.display()))?;
                Trust::system_and(&pem).map_err(|why| anyhow!("--ca: {}: {why}", path.display()))?
            }
            None if self.insecure => Trust::Any,
            None => Trust::System,
        };
        Network::new(&trust).map_err(|why| anyhow!("TLS: {why}"))
    }
}
