//! Reloading at SIGHUP: the configuration file, and the certificates, keys and tokens that it
//! names.
//!
//! Everything that can fail is done before anything changes, so a mistake leaves the earlier
//! configuration in use.

use crate::{config::Config, log, serve::Opened, serve_flags::ServeFlags};
use anyhow::{Context, Result};
use latemux_cache::{Cache, Records};
use latemux_origin::{Origin, Resources};
use std::collections::BTreeMap;
use tokio::{
    runtime::Handle,
    signal::unix::Signal,
    task::{AbortHandle, spawn_blocking},
};

/// Sections that concern neither the origin nor its storage.
const OUTSIDE_ORIGIN: [&str; 5] = ["tls.", "log.", "listen", "admin", "cache."];

/// A running server, as far as a reload may change it.
pub(crate) struct Reloader {
    pub(crate) flags: ServeFlags,
    /// The configuration in use.
    pub(crate) config: Config,
    pub(crate) opened: Opened,
    pub(crate) origin: Origin,
    pub(crate) log: log::Handle,
    pub(crate) cache: Option<Cache>,
    pub(crate) indexes: Option<Records>,
    pub(crate) workers: Handle,
    /// The task that asks the storage until it answers, if it has not answered at the start.
    pub(crate) waiting: Option<AbortHandle>,
}

impl Reloader {
    /// Reloads at each signal. Signals that arrive during a reload cause one more.
    pub(crate) async fn run(mut self, mut hangups: Signal) {
        while hangups.recv().await.is_some() {
            let reloaded = self.reload().await;
            if let Err(error) = &reloaded {
                tracing::error!(
                    reason = "reload_refused",
                    "{error:#}: nothing was reloaded, and the earlier configuration stays in use"
                );
            }
            self.origin.count_reload(reloaded.is_ok());
        }
    }

    async fn reload(&mut self) -> Result<()> {
        let flags = self.flags.clone();
        let running = self.config.clone();
        let loaded = spawn_blocking(move || load(&flags, &running)).await??;
        let Loaded { config, kept, changed } = loaded;
        let is_other_storage = changed.iter().any(|key| key == "source" || key.starts_with("storage."));
        let opened = if is_other_storage {
            let opened = Opened::read(&config).await?;
            opened.ask().await.context("the storage was not changed")?;
            opened
        } else {
            Opened::with_storage(&config, self.opened.storage.clone()).await?
        };
        let filter = log::configured(&config.log)?;
        if let (Some(old), Some(new)) = (&self.opened.tls, &opened.tls) {
            old.replace(new);
        }
        if let (Some(old), Some(new)) = (&self.opened.token, &opened.token) {
            old.replace(new);
        }
        (self.log)(filter)?;
        // Files of keys may have changed although the configuration has not.
        let concerns_origin = |key: &String| !OUTSIDE_ORIGIN.iter().any(|outside| key.starts_with(outside));
        if changed.iter().any(concerns_origin) || !config.origin.drm.is_empty() {
            let origin = self.origin.clone();
            let resources = Resources {
                cache: self.cache.clone(),
                indexes: self.indexes.clone(),
                write: opened.write.clone(),
                source_options: config.storage.clone(),
                workers: Some(self.workers.clone()),
            };
            let storage = opened.storage.clone();
            let settings = config.origin.clone();
            spawn_blocking(move || origin.reconfigure(storage, resources, settings)).await?;
        }
        if is_other_storage {
            // The new storage has answered.
            self.waiting.take().inspect(AbortHandle::abort);
            self.origin.set_storage_reached(true);
        }
        self.opened.storage = opened.storage;
        self.opened.write = opened.write;
        self.config = config;
        if !kept.is_empty() {
            tracing::warn!(
                reason = "restart_needed",
                keys = kept.join(", "),
                "these settings change only with a restart"
            );
        }
        tracing::info!(reason = "reloaded", changed = changed.join(", "), "configuration reloaded");
        Ok(())
    }
}

/// A configuration that was read again.
struct Loaded {
    config: Config,
    /// Keys that have other values in the file, but keep those in use.
    kept: Vec<String>,
    /// Keys whose values change.
    changed: Vec<String>,
}

fn load(flags: &ServeFlags, running: &Config) -> Result<Loaded> {
    let read = Config::load(flags)?;
    let mut config = read.clone();
    keep_fixed(&mut config, running);
    // The metrics read the counters of back ends from this registry.
    config.storage.registry = running.storage.registry.clone();
    let read = values(&read)?;
    let before = values(running)?;
    let after = values(&config)?;
    Ok(Loaded { kept: differences(&read, &after), changed: differences(&before, &after), config })
}

/// Resets settings that cannot change in a running process to the values in use.
fn keep_fixed(config: &mut Config, running: &Config) {
    config.listen = running.listen.clone();
    config.admin = running.admin.clone();
    if config.tls.is_some() != running.tls.is_some() {
        config.tls = running.tls.clone();
    }
    if config.admin_token_file.is_some() != running.admin_token_file.is_some() {
        config.admin_token_file = running.admin_token_file.clone();
    }
    config.cache = running.cache.clone();
    config.log.json = running.log.json;
    let new = &mut config.origin;
    let old = &running.origin;
    new.memory.responses = old.memory.responses;
    new.http.max_connections = old.http.max_connections;
    new.http.max_connections_per_address = old.http.max_connections_per_address;
    new.http.drain_delay = old.http.drain_delay;
    new.http.drain_timeout = old.http.drain_timeout;
}

/// Returns the value of each key. The name of a key includes its section.
fn values(config: &Config) -> Result<BTreeMap<String, toml::Value>> {
    fn add(table: toml::Table, section: &str, values: &mut BTreeMap<String, toml::Value>) {
        for (key, value) in table {
            let key = format!("{section}{key}");
            match value {
                toml::Value::Table(table) => add(table, &format!("{key}."), values),
                value => _ = values.insert(key, value),
            }
        }
    }
    let mut values = BTreeMap::new();
    let table = toml::Table::try_from(config).context("cannot compare the configuration")?;
    add(table, "", &mut values);
    Ok(values)
}

/// Returns the keys with different values.
fn differences(a: &BTreeMap<String, toml::Value>, b: &BTreeMap<String, toml::Value>) -> Vec<String> {
    let mut keys: Vec<_> = a.keys().chain(b.keys()).filter(|key| a.get(*key) != b.get(*key)).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_need_a_restart_keep_their_values_and_are_named() {
        let parse = |text: &str| Config::parse(text).unwrap();
        let running = parse("source = 'a'\nsegment_duration = '4s'");
        let read = parse(
            "source = 'b'\nlisten = ':1'\nadmin = ':2'\nadmin_token_file = 't'\n[tls]\ncert = 'c'\nkey = 'k'\n\
             [cache]\nmemory = '1MiB'\n[http]\nmax_connections = 5\nmax_streams = 7\n[log]\njson = true",
        );
        let mut config = read.clone();
        keep_fixed(&mut config, &running);
        let read = values(&read).unwrap();
        let before = values(&running).unwrap();
        let after = values(&config).unwrap();
        assert_eq!(differences(&before, &after), ["http.max_streams", "source"]);
        assert_eq!(
            differences(&read, &after),
            [
                "admin",
                "admin_token_file",
                "cache.memory",
                "http.max_connections",
                "listen",
                "log.json",
                "tls.cert",
                "tls.key"
            ]
        );
    }
}
