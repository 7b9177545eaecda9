//! `latemux serve`: open the source, listen, serve until told to stop.

use crate::{args, config::Config, log, open_files};
use anyhow::{Context, Result};
use latemux_origin::{Origin, Resources, Tls, listen};
use latemux_quantity::TimeSpan;
use latemux_storage::write::writable;
use std::{
    fs,
    io::Write,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Longest time to look for what a folder of the cache holds before anyone is served. What is found later is found later.
const RECOVERY: Duration = Duration::from_millis(1500);
/// Open files besides connections: media, the cache's, what the runtime needs.
const FILES: u64 = 1024;
/// Time for the cache's disk at the end, at least.
const CLOSING: Duration = Duration::from_secs(2);

/// Runs until SIGINT or SIGTERM.
pub(crate) fn run(flags: &args::Serve) -> Result<()> {
    let config = Config::load(flags)?;
    if flags.print_config {
        return say(&toml::to_string(&config).context("cannot print the configuration")?);
    }
    log::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<()> {
    let source = config.source.as_deref().context("nothing to serve: name a folder, a URL or a bucket")?;
    let options = config.storage.clone();
    let connections = config.origin.http.max_connections.saturating_add(options.max_in_flight);
    let wanted = (connections as u64).saturating_add(FILES);
    let most = open_files::allow(wanted);
    if most < wanted {
        tracing::warn!(
            reason = "open_files",
            wanted,
            most,
            "this system allows fewer open files than http.max_connections may need"
        );
    }
    let storage = latemux_storage::open::open(source, &options)?;
    let tls = config.tls.as_ref().map(read_tls).transpose()?;
    let bind = |address| listen(address).with_context(|| format!("cannot listen on {address}"));
    let listener = bind(config.listen)?;
    let admin = match config.admin {
        Some(address) => Some(bind(address)?),
        None => None,
    };
    let (address, scheme) = (listener.local_addr()?, if tls.is_some() { "https" } else { "http" });
    let write = if config.origin.index.write { writable(source, &options)? } else { None };
    if config.origin.index.write && write.is_none() {
        tracing::warn!(
            reason = "index_not_written",
            "this storage is only read from: no index MP4 is written"
        );
    }
    let (cache, indexes) = (config.open_cache()?, config.open_indexes()?);
    let drain = config.origin.http.drain_timeout;
    if let Some(cache) = &cache {
        // Who comes first should find what was kept; who has connected already waits.
        let _ = tokio::time::timeout(RECOVERY, cache.recovered()).await;
    }
    let resources =
        Resources { cache: cache.clone(), indexes: indexes.clone(), write, source_options: options };
    let origin = Origin::with_resources(storage.clone(), resources, config.origin.clone());
    let mut metrics = String::new();
    if let Some(admin) = admin {
        metrics = format!("metrics at http://{}/metrics\n", admin.local_addr()?);
        let origin = origin.clone();
        // Ends with the runtime: what happens while open answers end can still be read.
        tokio::spawn(async move { origin.serve_admin(admin).await });
    }
    say(&format!(
        "latemux {} serves {}\n{metrics}segments of {}; page and player at {scheme}://{address}/\n",
        env!("CARGO_PKG_VERSION"),
        storage.describe(),
        TimeSpan(config.origin.segment_duration),
    ))?;
    let (stop, told) = (stop_signal()?, OnceLock::new());
    let stopped = async {
        stop.await;
        let _ = told.set(Instant::now());
    };
    let served = origin.serve(listener, tls, stopped).await.context("serving");
    // What still waits for the disk would be asked of storage once more: it has what open answers left of their time.
    let left = drain.saturating_sub(told.get().map_or(Duration::ZERO, Instant::elapsed)).max(CLOSING);
    let media = async {
        if let Some(cache) = &cache {
            cache.close_within(left).await;
        }
    };
    let indexes = async {
        if let Some(indexes) = &indexes {
            let _ = tokio::time::timeout(left, indexes.close()).await;
        }
    };
    tokio::join!(media, indexes);
    served
}

fn read_tls(tls: &crate::config::Tls) -> Result<Tls> {
    let read =
        |path: &std::path::Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    Tls::from_pem(&read(&tls.cert)?, &read(&tls.key)?).context("TLS certificate and key")
}

/// Resolves at the first SIGINT or SIGTERM.
pub(crate) fn stop_signal() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping: open answers may end, no new connections");
    })
}

/// Writes to standard output at once: whoever started us may be waiting for the line.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
