//! `latemux serve`: opens the source, listens, and serves until a signal to stop.

use crate::{
    address::ListenAddress,
    config::Config,
    disk_space, log, open_files,
    reload::Reloader,
    serve_flags::ServeFlags,
    signals::{Stop, StopSignals, hangups},
    standard_output::say,
    version::VERSION,
    work_threads,
};
use anyhow::{Context, Result, anyhow};
use latemux_cache::{Cache, Records};
use latemux_origin::{
    AdminToken, Listener, Origin, Resources, Tls, check_keys, listen, listen_unix, listen_unix_for_all,
};
use latemux_quantity::TimeSpan;
use latemux_storage::{
    Storage, StorageError, check,
    write::{ConditionalPut, writable},
};
use std::{
    fs, io,
    path::Path,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, sync::oneshot, task::spawn_blocking};

/// Longest time to recover the contents of the cache's folder before clients are served. After this
/// time, recovery continues in the background.
const RECOVERY_WAIT: Duration = Duration::from_millis(1500);
/// Longest wait at start for an answer of storage. After this time, clients are served, but the
/// process is not ready.
const STORAGE_WAIT: Duration = Duration::from_secs(5);
/// Pause between two attempts to reach storage.
const STORAGE_RETRY: Duration = Duration::from_secs(2);
/// Number of open files needed besides connections: media, and files of the cache and the runtime.
const OTHER_FILES: u64 = 1024;
/// Shortest time allowed for writing to the cache's disk before the process ends.
const MIN_CLOSING_TIME: Duration = Duration::from_secs(2);

/// Number of tasks that a thread of the runtime runs before it looks for events, such as requests
/// that arrived. The default of tokio is 61. On a busy server, each client waits for that many
/// tasks, and for up to three more after each of them, which the task before has woken. Turns are
/// passed on in such a way that events are looked for more often (`latemux_storage::turns`).
const TASKS_BEFORE_EVENTS: u32 = 4;

/// Runs until SIGINT or SIGTERM. A second signal ends the process at once.
pub(crate) fn run(flags: &ServeFlags) -> Result<()> {
    let config = Config::load(flags)?;
    if flags.print_config {
        return say(&toml::to_string(&config.without_secrets()).context("cannot print the configuration")?);
    }
    let log = log::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .event_interval(TASKS_BEFORE_EVENTS)
        .enable_all()
        .build()?;
    let workers = work_threads::create()?;
    let served = runtime.block_on(serve(flags.clone(), config, log, workers.handle().clone()));
    if served.is_err() {
        // Reads that hang must not delay the end.
        runtime.shutdown_background();
    }
    // Nobody waits for the titles that these threads still make.
    workers.shutdown_background();
    served
}

/// The storage and the files that a configuration names.
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    /// The served storage, for writing index MP4s, if they are wanted.
    pub(crate) write: Option<Arc<dyn ConditionalPut>>,
    pub(crate) tls: Option<Tls>,
    pub(crate) token: Option<AdminToken>,
}

impl Opened {
    /// Opens and reads everything. The storage is not asked yet.
    pub(crate) async fn read(config: &Config) -> Result<Self> {
        let source = config.source.clone().context("nothing to serve: name a folder, a URL or a bucket")?;
        let options = config.storage.clone();
        let storage = spawn_blocking(move || latemux_storage::open_mirrored(&source, &options)).await??;
        Self::with_storage(config, storage).await
    }

    /// Reads everything but the storage.
    pub(crate) async fn with_storage(config: &Config, storage: Arc<dyn Storage>) -> Result<Self> {
        let config = config.clone();
        spawn_blocking(move || {
            let tls = config.tls.as_ref().map(read_tls).transpose()?;
            let token = config.admin_token_file.as_deref().map(read_token).transpose()?;
            check_keys(&config.origin).map_err(anyhow::Error::msg)?;
            let source = config.source.as_deref().filter(|_| config.origin.index.write);
            let write = source.map(|source| writable(source, &config.storage)).transpose()?.flatten();
            if source.is_some() && write.is_none() {
                tracing::warn!(
                    reason = "index_not_written",
                    "this storage is read-only: no index MP4s are written"
                );
            }
            anyhow::Ok(Self { storage, write, tls, token })
        })
        .await?
    }

    /// Asks the storage whether it answers, for a limited time.
    pub(crate) async fn ask(&self) -> Result<(), StorageError> {
        ask(&self.storage).await
    }
}

async fn serve(flags: ServeFlags, config: Config, log: log::Handle, workers: Handle) -> Result<()> {
    check_open_files(&config);
    let opened = Opened::read(&config).await?;
    let reached = reach(&opened.storage, flags.wait_for_storage).await?;
    let listeners = config.listen.0.iter().map(bind).collect::<Result<Vec<_>>>()?;
    let admin = config.admin.as_ref().map(listen_for_admin).transpose()?;
    let urls = served_urls(&listeners, &config, opened.tls.is_some())?;
    let cache = config.open_cache()?;
    let indexes = config.open_indexes()?;
    disk_space::check(&config.cache);
    if let Some(cache) = &cache {
        // The first clients should find cached bytes. Their connections wait in the kernel's queue.
        let _ = tokio::time::timeout(RECOVERY_WAIT, cache.recovered()).await;
    }
    let resources = Resources {
        cache: cache.clone(),
        indexes: indexes.clone(),
        write: opened.write.clone(),
        source_options: config.storage.clone(),
        workers: Some(workers.clone()),
    };
    let origin = Origin::with_resources(opened.storage.clone(), resources, config.origin.clone());
    let waiting = (!reached).then(|| {
        origin.set_storage_reached(false);
        tokio::spawn(keep_trying(opened.storage.clone(), origin.clone())).abort_handle()
    });
    let mut admin_line = String::new();
    if let Some(admin) = admin {
        admin_line = admin_url(&admin, &config, opened.token.is_some())?;
        let origin = origin.clone();
        let token = opened.token.clone();
        // The task ends with the runtime, so metrics can be read while open responses end.
        tokio::spawn(async move { origin.serve_admin(admin, token).await });
    }
    // A program that reads the address below may send a signal at once.
    let signals = StopSignals::listen()?;
    // If there is nothing to reload, SIGHUP ends the process, as it should when a terminal closes.
    let hangups = (config.tls.is_some() || flags.config.is_some()).then(hangups).transpose()?;
    let below = if config.origin.page { "page and player at" } else { "titles below" };
    say(&format!(
        "latemux {} serves {}\n{admin_line}segments of {}; {below} {urls}\n",
        VERSION,
        opened.storage.describe(),
        TimeSpan(config.origin.segment_duration),
    ))?;
    let tls = opened.tls.clone();
    if let Some(hangups) = hangups {
        let cache = cache.clone();
        let indexes = indexes.clone();
        let config = config.clone();
        let origin = origin.clone();
        let reloader = Reloader { flags, config, opened, origin, log, cache, indexes, workers, waiting };
        tokio::spawn(reloader.run(hangups));
    }
    let (stop, stopped) = oneshot::channel();
    let running = run_until(stopped, &config, &origin, listeners, tls, cache, indexes);
    let served = tokio::select! {
        served = running => served,
        () = until_second_signal(signals, &origin, config.origin.http.drain_delay, stop) => {
            Err(anyhow!("stopped by a second signal: open responses were aborted"))
        }
    };
    remove_sockets(&config);
    served
}

/// Returns the addresses that are served, as the first line of the output names them.
fn served_urls(listeners: &[Listener], config: &Config, has_tls: bool) -> Result<String> {
    let scheme = if has_tls { "https" } else { "http" };
    let urls = listeners.iter().zip(&config.listen.0).map(|(listener, address)| match listener {
        Listener::Tcp(listener) => anyhow::Ok(format!("{scheme}://{}/", listener.local_addr()?)),
        Listener::Unix(_) => Ok(address.to_string()),
    });
    Ok(urls.collect::<Result<Vec<_>>>()?.join(" and "))
}

fn remove_sockets(config: &Config) {
    for address in config.listen.0.iter().chain(&config.admin) {
        if let ListenAddress::Unix(path) = address {
            let _ = fs::remove_file(path);
        }
    }
}

/// Allows as many open files as the configuration may need, and warns if that is not possible.
fn check_open_files(config: &Config) {
    let connections = config.origin.http.max_connections.saturating_add(config.storage.max_in_flight);
    let wanted = (connections as u64).saturating_add(OTHER_FILES);
    let allowed = open_files::raise_limit(wanted);
    if allowed < wanted {
        tracing::warn!(
            reason = "open_files",
            wanted,
            most = allowed,
            "this system allows fewer open files than http.max_connections may need"
        );
    }
}

/// Returns the line that says where metrics are.
fn admin_url(listener: &Listener, config: &Config, has_token: bool) -> Result<String> {
    let Listener::Tcp(listener) = listener else {
        return Ok(config.admin.iter().map(|address| format!("metrics at {address}\n")).collect());
    };
    let address = listener.local_addr()?;
    if !has_token && !address.ip().is_loopback() {
        tracing::warn!(
            reason = "admin_open",
            "everyone who can reach the admin address may purge titles: set admin_token_file"
        );
    }
    Ok(format!("metrics at http://{address}/metrics\n"))
}

/// Serves until `stopped` resolves and all responses have ended, and closes the caches.
async fn run_until(
    stopped: oneshot::Receiver<()>,
    config: &Config,
    origin: &Origin,
    listeners: Vec<Listener>,
    tls: Option<Tls>,
    cache: Option<Cache>,
    indexes: Option<Records>,
) -> Result<()> {
    let stopped_at = OnceLock::new();
    let stopped = async {
        let _ = stopped.await;
        let _ = stopped_at.set(Instant::now());
    };
    let served = origin.serve_all(listeners, tls, stopped).await.context("cannot serve");
    // Units that are not written to the disk now would have to be fetched again after a restart.
    // Writing them may take the rest of the drain timeout.
    let draining = stopped_at.get().map_or(Duration::ZERO, Instant::elapsed);
    let left = config.origin.http.drain_timeout.saturating_sub(draining).max(MIN_CLOSING_TIME);
    let close_cache = async {
        if let Some(cache) = &cache {
            cache.close_within(left).await;
        }
    };
    let close_indexes = async {
        if let Some(indexes) = &indexes {
            let _ = tokio::time::timeout(left, indexes.close()).await;
        }
    };
    tokio::join!(close_cache, close_indexes);
    served
}

/// Passes the first signal on to `stop`, after the time that load balancers need, and resolves at
/// the second signal.
async fn until_second_signal(
    mut signals: StopSignals,
    origin: &Origin,
    drain_delay: Duration,
    stop: oneshot::Sender<()>,
) {
    // A process that is stopped by Ctrl+C has no load balancer that must notice it.
    if signals.next().await == Stop::Terminate && !drain_delay.is_zero() {
        tracing::info!(
            reason = "draining",
            "stopping in {}: /healthz/ready gives status 503",
            TimeSpan(drain_delay)
        );
        tokio::select! {
            () = origin.drain() => {}
            _ = signals.next() => return,
        }
    }
    tracing::info!("stopping: no new connections are accepted, open responses may end");
    let _ = stop.send(());
    signals.next().await;
}

fn bind(address: &ListenAddress) -> Result<Listener> {
    let listener = match address {
        ListenAddress::Tcp(address) => listen(*address).map(Listener::from),
        ListenAddress::Unix(path) => listen_unix_for_all(path).map(Listener::from),
    };
    listener.map_err(|error| cannot_listen(address, &error))
}

fn listen_for_admin(address: &ListenAddress) -> Result<Listener> {
    match address {
        ListenAddress::Tcp(_) => bind(address),
        ListenAddress::Unix(path) => {
            listen_unix(path).map(Listener::from).map_err(|error| cannot_listen(address, &error))
        }
    }
}

/// Says why nothing can listen on an address, and what to do about it.
fn cannot_listen(address: &ListenAddress, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => ": stop the other program, or listen on another address",
        io::ErrorKind::AddrNotAvailable => ": choose an address of this machine, or :PORT for all of them",
        io::ErrorKind::PermissionDenied => {
            ": a port below 1024 needs CAP_NET_BIND_SERVICE, and a socket needs a writable folder"
        }
        _ => "",
    };
    anyhow!("cannot listen on {address}: {error}{advice}")
}

pub(crate) fn read_token(path: &Path) -> Result<AdminToken> {
    let named = || path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", named()))?;
    AdminToken::new(&text).map_err(|why| anyhow!("{}: {why}", named()))
}

/// Returns true if storage answers in time. If it does not, a warning says why.
///
/// # Errors
/// Fails if storage says that there is no such bucket, or that the credentials are wrong, unless
/// the operator wants to wait.
async fn reach(storage: &Arc<dyn Storage>, waits: bool) -> Result<bool> {
    match ask(storage).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_misconfiguration() && !waits => Err(error).context("cannot serve"),
        Err(error) => {
            tracing::warn!(
                reason = error.reason(),
                "{error}: until storage answers, /healthz/ready gives status 503"
            );
            Ok(false)
        }
    }
}

/// Asks storage whether it answers, for a limited time.
pub(crate) async fn ask(storage: &Arc<dyn Storage>) -> Result<(), StorageError> {
    let timed_out = |_| Err(StorageError::TimedOut { key: storage.describe(), after: STORAGE_WAIT });
    tokio::time::timeout(STORAGE_WAIT, check(&**storage)).await.unwrap_or_else(timed_out)
}

/// Makes the origin ready once storage answers.
async fn keep_trying(storage: Arc<dyn Storage>, origin: Origin) {
    let mut last = "";
    while let Err(error) = check(&*storage).await {
        if last != error.reason() {
            last = error.reason();
            tracing::warn!(reason = last, "storage cannot be reached yet: {error}");
        }
        tokio::time::sleep(STORAGE_RETRY).await;
    }
    origin.set_storage_reached(true);
    tracing::info!("storage answers: ready");
}

pub(crate) fn read_tls(tls: &crate::config::Tls) -> Result<Tls> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let cert = tls.cert.display();
    let key = tls.key.display();
    let named = || format!("cannot use the TLS certificate and key {cert} and {key}");
    Tls::from_pem(&read(&tls.cert)?, &read(&tls.key)?).with_context(named)
}
