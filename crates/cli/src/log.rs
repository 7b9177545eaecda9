//! The log, on standard error.

use crate::config::Log;
use anyhow::{Context, Result, anyhow};
use std::io::IsTerminal as _;
use tracing_subscriber::EnvFilter;

/// Starts logging. The environment variable `LATEMUX_LOG` overrides the configured filter.
pub(crate) fn start(config: &Log) -> Result<()> {
    let filter = std::env::var("LATEMUX_LOG").unwrap_or_else(|_| config.filter.clone());
    let filter = EnvFilter::try_new(&filter).with_context(|| format!("log filter '{filter}'"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are for terminals, not for files.
    let log = log.with_ansi(std::io::stderr().is_terminal());
    if config.json { log.json().try_init() } else { log.try_init() }.map_err(|error| anyhow!("{error}"))
}
