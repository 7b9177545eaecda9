//! The configuration file, and the flags that override it.
//!
//! `latemux serve --print-config` prints the result. The printed text reads back as the same
//! configuration.

use crate::{
    address::{ListenAddress, ListenAddresses},
    cache_folder,
    serve_flags::ServeFlags,
};
use anyhow::{Context, Result, ensure};
use latemux_cache::{Cache, Records};
use latemux_origin::{OriginConfig, config::DrmRule};
use latemux_storage::{Options, open::without_secrets};
use serde::{Deserialize, Serialize};
use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

/// Settings of `latemux serve`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Media to serve: a folder, or the URL of an HTTP server or bucket.
    pub(crate) source: Option<String>,
    /// Address and port to listen on, or a list of them. `:8080` stands for all IPv4 networks of
    /// the machine, `[::]:8080` for IPv6 too, and `unix:/path` for a Unix socket that everyone who
    /// can reach its folder may use. A client of a socket counts as `127.0.0.1`.
    pub(crate) listen: ListenAddresses,
    /// Address and port of metrics, health checks and purging, or `unix:/path` for a Unix socket
    /// that only the user of the process may use. Without this key, metrics and purging are not
    /// served. Clients must not be able to reach this address.
    pub(crate) admin: Option<ListenAddress>,
    /// File that holds a token of at least 16 characters. Requests to the admin address, except for
    /// health checks, need it as `Authorization: Bearer TOKEN`. Since 0.2.0.
    pub(crate) admin_token_file: Option<PathBuf>,
    /// Settings of the origin itself.
    #[serde(flatten)]
    pub(crate) origin: OriginConfig,
    /// Certificate and key of HTTPS with HTTP/2. Without them, plain HTTP is served.
    pub(crate) tls: Option<Tls>,
    /// The range cache, which keeps source bytes for every protocol alike.
    pub(crate) cache: latemux_cache::Config,
    /// Access to HTTP servers and object stores.
    pub(crate) storage: Options,
    /// The log, on standard error.
    pub(crate) log: Log,
}

/// Certificate and key of HTTPS with HTTP/2.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// File with the certificate chain, in PEM.
    pub(crate) cert: PathBuf,
    /// File with the private key, in PEM.
    pub(crate) key: PathBuf,
}

/// The log, on standard error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    /// Level `error`, `warn`, `info` or `debug`, or a filter such as `info,access=off`. The
    /// environment variable `LATEMUX_LOG` overrides it.
    pub(crate) filter: String,
    /// If true, each line of the log is one JSON object.
    pub(crate) json: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: None,
            listen: ListenAddresses(vec![ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 8080).into())]),
            admin: None,
            admin_token_file: None,
            origin: OriginConfig::default(),
            tls: None,
            cache: latemux_cache::Config::default(),
            storage: Options::default(),
            log: Log::default(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), json: false }
    }
}

impl Config {
    /// Reads the configuration file, if one is named, and applies the flags.
    pub(crate) fn load(flags: &ServeFlags) -> Result<Self> {
        let mut config = match &flags.config {
            Some(path) => Self::read(path)?,
            None => Self::default(),
        };
        config.apply(flags);
        config.check()?;
        Ok(config)
    }

    /// Reads a configuration file, whose relative paths count from its folder.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut config = Self::parse(&text).with_context(|| format!("in {}", path.display()))?;
        if let Some(folder) = path.parent() {
            config.resolve_paths(folder);
        }
        Ok(config)
    }

    /// Lets relative paths count from this folder.
    fn resolve_paths(&mut self, folder: &Path) {
        let tls = self.tls.iter_mut().flat_map(|tls| [&mut tls.cert, &mut tls.key]);
        let keys = self.origin.drm.iter_mut().flat_map(|rule| {
            let keys = &mut rule.keys;
            let cpix = keys.cpix.as_mut().filter(|place| !place.contains("://"));
            cpix.into_iter().for_each(|place| *place = folder.join(&*place).to_string_lossy().into_owned());
            [&mut keys.file, &mut keys.ca, &mut keys.client_cert, &mut keys.client_key].into_iter().flatten()
        });
        for path in tls.chain(keys).chain(&mut self.admin_token_file).chain(&mut self.cache.dir) {
            *path = folder.join(&*path);
        }
        let mirrors = self.storage.mirror.iter_mut().map(|mirror| &mut mirror.location);
        for location in mirrors.chain(&mut self.source).filter(|location| !location.contains("://")) {
            *location = folder.join(&*location).to_string_lossy().into_owned();
        }
    }

    /// Parses the text of a configuration file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        // Errors in a flattened type have no line number, so that type is parsed by itself first.
        toml::from_str::<OriginConfig>(text)?;
        Ok(toml::from_str(text)?)
    }

    fn apply(&mut self, flags: &ServeFlags) {
        fn set<T: Clone>(field: &mut T, flag: Option<T>) {
            if let Some(value) = flag {
                *field = value;
            }
        }
        let origin = &mut self.origin;
        self.source = flags.source.clone().or(self.source.take());
        self.admin = flags.admin.clone().or(self.admin.take());
        if !flags.listen.is_empty() {
            self.listen = ListenAddresses(flags.listen.clone());
        }
        origin.debug_headers |= flags.debug_headers;
        origin.page &= !flags.no_page;
        set(&mut origin.segment_duration, flags.segment_duration.map(|span| span.0));
        set(&mut origin.memory.index, flags.index_memory.map(|size| size.0));
        origin.index.write |= flags.write_index;
        set(&mut self.cache.memory, flags.cache_memory.map(|size| size.0));
        set(&mut self.cache.disk, flags.cache_disk.map(|size| size.0));
        self.cache.dir = flags.cache_dir.clone().or(self.cache.dir.take());
        if let (Some(cert), Some(key)) = (&flags.tls_cert, &flags.tls_key) {
            self.tls = Some(Tls { cert: cert.clone(), key: key.clone() });
        }
        if flags.nginx_vod_urls {
            origin.urls.nginx_vod.enable();
        }
        set(&mut self.storage.streams, flags.storage_streams);
        set(&mut self.storage.chunk, flags.storage_chunk.map(|size| size.0));
        set(&mut self.storage.gap, flags.storage_gap.map(|span| span.0));
        flags.storage.apply(&mut self.storage);
    }

    /// Returns the configuration for printing: addresses have neither credentials nor tokens.
    pub(crate) fn without_secrets(mut self) -> Self {
        let storage = &mut self.storage;
        let own = [&mut self.source, &mut storage.s3_endpoint].into_iter().flatten();
        let mirrors = storage.mirror.iter_mut();
        let mirrors = mirrors.flat_map(|mirror| [Some(&mut mirror.location), mirror.s3_endpoint.as_mut()]);
        let keys = self.origin.drm.iter_mut().map(|rule| &mut rule.keys);
        let key_servers = keys.flat_map(|keys| {
            // A variable is named, but a value may be a password.
            let values = keys.headers.values_mut().filter(|value| !value.starts_with(DrmRule::ENV));
            values.for_each(|value| "...".clone_into(value));
            [&mut keys.cpix, &mut keys.json, &mut keys.speke].into_iter().flatten()
        });
        let addresses = own.chain(mirrors.flatten()).chain(key_servers);
        for address in addresses.filter(|address| address.contains("://")) {
            *address = match without_secrets(address) {
                public if public == *address => public,
                // A question mark shows that there is more.
                public => public + "?...",
            };
        }
        self
    }

    /// Checks that the values are in their ranges and fit together.
    pub(crate) fn check(&self) -> Result<()> {
        self.origin.check().map_err(anyhow::Error::msg)?;
        ensure!(
            self.admin_token_file.is_none() || self.admin.is_some(),
            "admin_token_file needs admin, the address that the token protects"
        );
        let storage = &self.storage;
        for (key, time) in [
            ("storage.connect_timeout", storage.connect_timeout),
            ("storage.first_byte_timeout", storage.first_byte_timeout),
            ("storage.stall_timeout", storage.stall_timeout),
            ("storage.queue_timeout", storage.queue_timeout),
        ] {
            ensure!(!time.is_zero(), "{key} must be more than 0s, or every request would time out");
        }
        ensure!(self.storage.max_in_flight > 0, "storage.max_in_flight must be at least 1");
        ensure!(self.storage.chunk > 0, "storage.chunk must be at least 1 byte");
        ensure!(
            self.origin.read.open <= self.storage.in_flight_of_one_client(),
            "read.open must not exceed an eighth of storage.max_in_flight, or 16 if that is more, and never \
             storage.max_in_flight itself: one response would wait for itself"
        );
        Ok(())
    }

    /// Opens the range cache. Returns `None` if it has neither memory nor a folder.
    pub(crate) fn open_cache(&self) -> Result<Option<Cache>> {
        if self.cache.memory == 0 && self.cache.dir.is_none() {
            return Ok(None);
        }
        Cache::open(self.cache.clone()).map(Some).map_err(|error| cache_folder::unusable(&error))
    }

    /// Opens the store of indexes on disk, if there is a cache folder.
    pub(crate) fn open_indexes(&self) -> Result<Option<Records>> {
        let Some(store) = self.cache.index_store() else { return Ok(None) };
        Records::open(store).map(Some).map_err(|error| cache_folder::unusable(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;
    use latemux_storage::StreamCount;
    use std::time::Duration;

    fn flags(line: &str) -> ServeFlags {
        let args = Args::try_parse_from(line.split_whitespace()).unwrap();
        match args.command {
            Command::Serve(serve) => *serve,
            _ => panic!("not serve"),
        }
    }

    #[test]
    fn unknown_keys_are_refused_at_every_level() {
        for text in [
            "sauce = 'x'",
            "[urls.wowza]",
            "[urls.nginx_vod]\nhsl = '/'",
            "[urls.nginx_vod.names]\nmaster = 'x'",
            "[storage]\nendpoint = 'x'",
            "[storage.s3]\nkeys = 'x'",
            "[tls]\ncert='a'\nkey='b'\nca='c'",
            "[cache]\nbytes = 1",
        ] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains("unknown field"), "{text}: {error}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for text in ["listen = 'x'\n[index]\nhead = 'x'", "\n\nsegment_duration = '4'", "\n[cache]\nunit = 4"]
        {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains("line 3, column"), "{error}");
        }
    }

    #[test]
    fn printed_configuration_reads_back_the_same() {
        let mut config = Config::default();
        config.apply(&flags(
            "latemux serve s3://b/p --listen [::1]:9 --segment-duration 1.5s --tls-cert c --tls-key k \
             --s3-endpoint http://127.0.0.1:1 --s3-region eu --index-memory 3MiB --nginx-vod-urls \
             --admin 127.0.0.1:9 --debug-headers --no-page",
        ));
        config.origin.urls.nginx_vod.names.hls_master = "playlist".to_owned();
        let printed = toml::to_string(&config).unwrap();
        let read = Config::parse(&printed).unwrap();
        assert_eq!(toml::to_string(&read).unwrap(), printed);
        assert_eq!(read.origin, config.origin, "{printed}");
        assert!(printed.contains("segment_duration = \"1500ms\""), "{printed}");
    }

    #[test]
    fn flags_override_the_file_and_the_file_overrides_defaults() {
        let mut config =
            Config::parse("source = 'a'\nsegment_duration = '6s'\n[memory]\nindex = '1MiB'").unwrap();
        config.apply(&flags("latemux serve b"));
        assert_eq!(config.source.as_deref(), Some("b"));
        assert_eq!(config.origin.segment_duration, Duration::from_secs(6));
        assert_eq!(config.origin.memory.index, 1 << 20);
        assert_eq!(config.origin.index.head, 64 << 10);
    }

    #[test]
    fn relative_paths_count_from_the_folder_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latemux.toml");
        let text = "source = 'films'\nadmin = ':1'\nadmin_token_file = '/run/token'\n\
                    [tls]\ncert = 'c.pem'\nkey = '../k.pem'\n[cache]\ndir = 'cache'\n\
                    [[drm]]\ntitles = ['**']\nkeys.file = 'keys.json'\nkeys.ca = 'ca.pem'\n\
                    [[drm]]\nkeys.cpix = 'k/{title}'\n[[drm]]\nkeys.cpix = 'https://k/{title}'\n\
                    [[storage.mirror]]\nlocation = 'copy'\n[[storage.mirror]]\nlocation = 's3://b/p'";
        std::fs::write(&path, text).unwrap();
        let config = Config::read(&path).unwrap();
        let below = |name: &str| folder.path().join(name);
        let tls = config.tls.unwrap();
        assert_eq!((tls.cert, tls.key), (below("c.pem"), below("../k.pem")));
        assert_eq!(config.cache.dir, Some(below("cache")));
        let keys: Vec<_> = config.origin.drm.iter().map(|rule| &rule.keys).collect();
        assert_eq!((&keys[0].file, &keys[0].ca), (&Some(below("keys.json")), &Some(below("ca.pem"))));
        assert_eq!(keys[1].cpix.as_deref(), below("k/{title}").to_str());
        assert_eq!(keys[2].cpix.as_deref(), Some("https://k/{title}"));
        assert_eq!(config.admin_token_file, Some("/run/token".into()));
        assert_eq!(config.source.as_deref(), below("films").to_str());
        let mirrors: Vec<_> = config.storage.mirror.iter().map(|m| m.location.clone()).collect();
        assert_eq!(mirrors, [below("copy").to_str().unwrap(), "s3://b/p"]);
    }

    #[test]
    fn other_forms_of_url_are_served_only_if_configured() {
        let none = Config::default().origin.urls.nginx_vod;
        assert_eq!((none.hls, none.dash, none.mss, none.hds), (None, None, None, None));
        let text = "[urls.nginx_vod]\nhls = '/content/'\nhls_fmp4 = true\nnames.hls_master = 'playlist'";
        let mut config = Config::parse(text).unwrap();
        let urls = config.origin.urls.nginx_vod.clone();
        assert_eq!((urls.hls.as_deref(), urls.dash, urls.hls_fmp4), (Some("/content/"), None, true));
        assert_eq!((urls.names.hls_master.as_str(), urls.names.hls_index.as_str()), ("playlist", "index"));
        config.apply(&flags("latemux serve x --nginx-vod-urls"));
        let urls = &config.origin.urls.nginx_vod;
        assert_eq!((urls.hls.as_deref(), urls.dash.as_deref()), (Some("/content/"), Some("/dash/")));
        config.check().unwrap();
    }

    #[test]
    fn streams_are_a_number_or_auto() {
        let streams =
            |text: &str| Config::parse(&format!("[storage]\nstreams = {text}")).map(|c| c.storage.streams);
        assert_eq!(streams("'auto'").unwrap(), StreamCount::Auto);
        assert_eq!(streams("4").unwrap(), StreamCount::AtMost(4));
        for text in ["0", "-1", "65", "'many'"] {
            let error = streams(text).unwrap_err().to_string();
            assert!(error.contains("auto, or from 1 to 64"), "{error}");
        }
        let mut config = Config::default();
        config.apply(&flags("latemux serve x --storage-streams 8 --storage-chunk 1MiB"));
        assert_eq!((config.storage.streams, config.storage.chunk), (StreamCount::AtMost(8), 1 << 20));
        config.apply(&flags("latemux serve x --storage-streams auto --storage-gap 50ms"));
        assert_eq!(config.storage.streams, StreamCount::Auto);
        assert_eq!(config.storage.gap, std::time::Duration::from_millis(50));
    }

    #[test]
    fn secrets_of_key_servers_are_not_printed() {
        let text = "[[drm]]\nkeys.speke = 'https://user:hidden1@keys.example/v2?token=hidden2'\n\
                    keys.headers = { Authorization = 'Bearer hidden3', Other = 'env:KEYS_AUTH' }\n\
                    [[drm]]\nkeys.json = 'https://keys.example/{title}?token=hidden4'";
        let printed = toml::to_string(&Config::parse(text).unwrap().without_secrets()).unwrap();
        assert!(!printed.contains("hidden"), "{printed}");
        assert!(printed.contains("keys.example/v2") && printed.contains("env:KEYS_AUTH"), "{printed}");
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_name_of_the_key() {
        for (text, key) in [
            ("[urls.nginx_vod]\nhls = 'hls'", "urls.nginx_vod: hls"),
            ("[urls.nginx_vod.names]\nhls_index = 'master'", "hls_index"),
            ("segment_duration = '0s'", "segment_duration"),
            ("[index]\nhead = '1'", "index.head"),
            ("[http]\nmax_connections = 0", "max_connections"),
            ("[storage]\nmax_in_flight = 0", "storage.max_in_flight"),
            ("[storage]\nfirst_byte_timeout = '0s'", "storage.first_byte_timeout"),
            ("[storage]\nchunk = '0'", "storage.chunk"),
            ("load_timeout = '0s'", "load_timeout"),
            ("max_objects = 0", "max_objects"),
            ("[read]\nopen = 0", "read.open"),
            ("[read]\nrequests = 0", "read.requests"),
            ("[http]\nstall_timeout = '0s'", "http.stall_timeout"),
            ("[http]\nheader_timeout = '0s'", "http.header_timeout"),
            ("[http]\nmax_streams = 0", "http.max_streams"),
            ("[storage]\nmax_in_flight = 8", "read.open"),
            ("admin_token_file = 'x'", "admin"),
            ("[http]\nproxy_protocol = true", "http.trusted_proxies"),
        ] {
            let error = Config::parse(text).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn the_annotated_example_holds_every_default() {
        let text = include_str!("../../../examples/latemux.toml");
        // Keys without a default are written as comments.
        let example = toml::from_str::<toml::Table>(text).unwrap();
        let defaults = toml::to_string(&Config::default()).unwrap();
        assert_eq!(example, toml::from_str::<toml::Table>(&defaults).unwrap());
        Config::parse(text).unwrap();
    }
}
