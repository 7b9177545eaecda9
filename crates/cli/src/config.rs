//! The configuration file, and the flags over it. Unknown keys are refused.
//!
//! `latemux serve --print-config` prints the result; what it prints reads back as the same configuration.

use crate::args;
use anyhow::{Context, Result, ensure};
use latemux_origin::{
    OriginConfig,
    config::{
        CacheControlConfig, HttpConfig, IndexConfig, MemoryConfig, ReadConfig, SourcesConfig, UrlsConfig,
        quantity::{Bytes, Span},
    },
};
use latemux_storage::{
    Connections, InFlight, Registry, Retries, Timeouts,
    open::{Options, S3Options},
};
use serde::{Deserialize, Serialize};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

/// Everything `latemux serve` can be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where the media is.
    pub(crate) source: Option<String>,
    /// Address to listen on.
    pub(crate) listen: SocketAddr,
    /// Address of metrics, health and purging; none where it is not set.
    pub(crate) admin: Option<SocketAddr>,
    /// Answers say how they were made.
    pub(crate) debug_headers: bool,
    /// Target duration of segments.
    pub(crate) segment_duration: Span,
    /// How old a remembered title may be before a manifest compares it with storage.
    pub(crate) recheck_after: Span,
    /// Longest time to index a title.
    pub(crate) load_timeout: Span,
    /// Most objects in one title.
    pub(crate) max_objects: usize,
    pub(crate) tls: Option<Tls>,
    pub(crate) sources: SourcesConfig,
    pub(crate) urls: UrlsConfig,
    pub(crate) index: IndexConfig,
    pub(crate) memory: MemoryConfig,
    pub(crate) cache: Cache,
    pub(crate) read: ReadConfig,
    pub(crate) cache_control: CacheControlConfig,
    pub(crate) http: HttpConfig,
    pub(crate) storage: Storage,
    pub(crate) log: Log,
}

/// HTTPS with HTTP/2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// Certificate chain, PEM.
    pub(crate) cert: PathBuf,
    /// Private key, PEM.
    pub(crate) key: PathBuf,
}

/// How storage is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Storage {
    /// S3-compatible endpoint.
    pub(crate) s3_endpoint: Option<String>,
    pub(crate) s3_region: Option<String>,
    pub(crate) connect_timeout: Span,
    pub(crate) first_byte_timeout: Span,
    /// Longest pause between two pieces of an answer.
    pub(crate) stall_timeout: Span,
    /// Further tries after a failed one; the rest of a body that broke off is one.
    pub(crate) retries: u32,
    /// Longest time that failed tries and the waits between them may take; a longer `Retry-After` is not waited for.
    pub(crate) retry_within: Span,
    /// Most further tries of all requests together, in percent of the requests. Second reads are among them.
    pub(crate) retry_percent: u32,
    /// Further tries beyond that percentage that are saved up, and there from the start.
    pub(crate) retry_burst: u32,
    /// Whether connections are kept for further requests.
    pub(crate) reuse_connections: bool,
    /// Most requests under way to one HTTP server or service; files are not bounded by this.
    pub(crate) max_in_flight: usize,
    /// Longest time a request waits for its turn when so many are under way.
    pub(crate) queue_timeout: Span,
    /// A read without an answer after this long is made once more beside it; `0s` for never.
    pub(crate) hedge_after: Span,
}

/// The range cache: bytes of sources, kept for every protocol alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cache {
    /// Memory for all it holds; with 0 and no folder there is no range cache.
    pub(crate) memory: Bytes,
    /// A folder of its own for what is to outlive this process, and what memory is too small for.
    pub(crate) dir: Option<PathBuf>,
    /// Bytes in that folder.
    pub(crate) disk: Bytes,
    /// Bytes for indexes in a folder `indexes` in it; 0 keeps none there.
    pub(crate) index_disk: Bytes,
    /// Largest piece that is kept or let go as one.
    pub(crate) unit: Bytes,
    /// Bytes at hand that are read again where that makes one request to storage out of two.
    pub(crate) bridge: Bytes,
}

/// The log, on standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// `error`, `warn`, `info`, `debug`, or a filter such as `info,access=off`; the variable `LATEMUX_LOG` wins.
    pub(crate) filter: String,
    /// One JSON object a line.
    pub(crate) json: bool,
}

impl Default for Config {
    fn default() -> Self {
        let origin = OriginConfig::default();
        Self {
            source: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin: None,
            debug_headers: origin.debug_headers,
            segment_duration: Span(origin.segment_duration),
            recheck_after: Span(origin.recheck_after),
            load_timeout: Span(origin.load_timeout),
            max_objects: origin.max_objects,
            tls: None,
            sources: origin.sources,
            urls: origin.urls,
            index: origin.index,
            memory: origin.memory,
            cache: Cache::default(),
            read: origin.read,
            cache_control: origin.cache_control,
            http: origin.http,
            storage: Storage::default(),
            log: Log::default(),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        let options = Options::default();
        Self {
            s3_endpoint: None,
            s3_region: None,
            connect_timeout: Span(options.timeouts.connect),
            first_byte_timeout: Span(options.timeouts.first_byte),
            stall_timeout: Span(options.timeouts.stall),
            retries: options.retries.max,
            retry_within: Span(options.retries.within),
            retry_percent: options.retries.percent,
            retry_burst: options.retries.burst,
            reuse_connections: options.connections.reuse,
            max_in_flight: options.in_flight.max,
            queue_timeout: Span(options.in_flight.queue_timeout),
            hedge_after: Span(options.hedge_after.unwrap_or_default()),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        let usual = latemux_cache::Config::default();
        Self {
            memory: Bytes(usual.memory),
            dir: None,
            disk: Bytes(50 << 30),
            index_disk: Bytes(1 << 30),
            unit: Bytes(usual.unit),
            bridge: Bytes(usual.bridge),
        }
    }
}

impl Cache {
    /// Opens it; `None` where nothing is to be kept.
    pub(crate) fn open(&self) -> Result<Option<latemux_cache::Cache>> {
        if self.memory.0 == 0 && self.dir.is_none() {
            return Ok(None);
        }
        let disk = self.dir.as_ref().map(|dir| latemux_cache::DiskConfig::new(dir, self.disk.0));
        let (memory, unit, bridge) = (self.memory.0, self.unit.0, self.bridge.0);
        let config = latemux_cache::Config { memory, unit, bridge, disk, ..latemux_cache::Config::default() };
        Ok(Some(latemux_cache::Cache::open(config).context("the range cache")?))
    }

    /// Opens what keeps indexes; `None` where there is no folder for them.
    pub(crate) fn open_indexes(&self) -> Result<Option<latemux_cache::Records>> {
        let Some(dir) = self.dir.as_ref().filter(|_| self.index_disk.0 > 0) else { return Ok(None) };
        let config = latemux_cache::records::Config::new(dir.join("indexes"), self.index_disk.0);
        Ok(Some(latemux_cache::Records::open(config).context("the indexes in the cache folder")?))
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), json: false }
    }
}

impl Config {
    /// The file, then the flags over it.
    pub(crate) fn load(flags: &args::Serve) -> Result<Self> {
        let mut config = match &flags.config {
            Some(path) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                Self::parse(&text).with_context(|| format!("in {}", path.display()))?
            }
            None => Self::default(),
        };
        config.apply(flags);
        config.check()?;
        Ok(config)
    }

    /// A configuration file's text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    fn apply(&mut self, flags: &args::Serve) {
        fn set<T: Clone>(field: &mut T, flag: Option<&T>) {
            if let Some(value) = flag {
                field.clone_from(value);
            }
        }
        if flags.source.is_some() {
            self.source.clone_from(&flags.source);
        }
        set(&mut self.listen, flags.listen.as_ref());
        if flags.admin.is_some() {
            self.admin = flags.admin;
        }
        self.debug_headers |= flags.debug_headers;
        set(&mut self.segment_duration, flags.segment_duration.as_ref());
        set(&mut self.memory.index, flags.index_memory.map(|b| b.0).as_ref());
        self.index.write |= flags.write_index;
        set(&mut self.cache.memory, flags.cache_memory.as_ref());
        set(&mut self.cache.disk, flags.cache_disk.as_ref());
        if flags.cache_dir.is_some() {
            self.cache.dir.clone_from(&flags.cache_dir);
        }
        if let (Some(cert), Some(key)) = (&flags.tls_cert, &flags.tls_key) {
            self.tls = Some(Tls { cert: cert.clone(), key: key.clone() });
        }
        if flags.nginx_vod_urls {
            self.urls.nginx_vod.enable();
        }
        self.storage.apply(&flags.storage);
    }

    /// What the origin is told.
    pub(crate) fn origin(&self) -> OriginConfig {
        OriginConfig {
            segment_duration: self.segment_duration.0,
            recheck_after: self.recheck_after.0,
            load_timeout: self.load_timeout.0,
            max_objects: self.max_objects,
            sources: self.sources.clone(),
            urls: self.urls.clone(),
            index: self.index.clone(),
            memory: self.memory.clone(),
            read: self.read.clone(),
            cache_control: self.cache_control.clone(),
            http: self.http.clone(),
            debug_headers: self.debug_headers,
        }
    }

    fn check(&self) -> Result<()> {
        let seconds = self.segment_duration.0;
        ensure!(
            seconds >= Duration::from_millis(100) && seconds <= Duration::from_secs(600),
            "segment_duration must be between 100ms and 10m, not {}",
            self.segment_duration
        );
        self.sources.check().map_err(anyhow::Error::msg)?;
        self.urls.check().map_err(anyhow::Error::msg)?;
        ensure!(self.index.head >= 1024, "index.head must be at least 1KiB");
        ensure!(self.storage.max_in_flight > 0, "storage.max_in_flight must be at least 1");
        ensure!(
            self.read.open <= self.storage.max_in_flight,
            "read.open must be no more than storage.max_in_flight: one response would wait for itself"
        );
        ensure!(self.http.max_connections > 0, "http.max_connections must be at least 1");
        Ok(())
    }
}

impl Storage {
    /// What the storage client is told.
    pub(crate) fn options(&self) -> Options {
        let timeouts = Timeouts {
            connect: self.connect_timeout.0,
            first_byte: self.first_byte_timeout.0,
            stall: self.stall_timeout.0,
        };
        let retries = Retries {
            max: self.retries,
            within: self.retry_within.0,
            percent: self.retry_percent,
            burst: self.retry_burst,
        };
        let s3 = S3Options {
            endpoint: self.s3_endpoint.clone(),
            region: self.s3_region.clone(),
            // An endpoint spelled http:// says that plain HTTP is meant.
            allow_http: self.s3_endpoint.as_deref().is_some_and(|e| e.starts_with("http://")),
            ..S3Options::default()
        };
        Options {
            timeouts,
            retries,
            connections: Connections { reuse: self.reuse_connections },
            in_flight: InFlight { max: self.max_in_flight, queue_timeout: self.queue_timeout.0 },
            hedge_after: (!self.hedge_after.0.is_zero()).then_some(self.hedge_after.0),
            s3,
            registry: Registry::default(),
        }
    }

    /// Flags over what the file says.
    pub(crate) fn apply(&mut self, flags: &args::Storage) {
        if flags.s3_endpoint.is_some() {
            self.s3_endpoint.clone_from(&flags.s3_endpoint);
        }
        if flags.s3_region.is_some() {
            self.s3_region.clone_from(&flags.s3_region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn flags(line: &str) -> args::Serve {
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
            "[tls]\ncert='a'\nkey='b'\nca='c'",
            "[cache]\nbytes = 1",
        ] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains("unknown field"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let mut config = Config::default();
        config.apply(&flags(
            "latemux serve s3://b/p --listen [::1]:9 --segment-duration 1.5s --tls-cert c --tls-key k \
             --s3-endpoint http://127.0.0.1:1 --s3-region eu --index-memory 3MiB --nginx-vod-urls \
             --admin 127.0.0.1:9 --debug-headers",
        ));
        config.urls.nginx_vod.names.hls_master = "playlist".to_owned();
        let printed = toml::to_string(&config).unwrap();
        assert_eq!(Config::parse(&printed).unwrap(), config, "{printed}");
        assert!(printed.contains("segment_duration = \"1500ms\""), "{printed}");
    }

    #[test]
    fn storage_is_told_what_the_file_says() {
        let text = "[storage]\nconnect_timeout = '1s'\nfirst_byte_timeout = '2s'\nstall_timeout = '3s'\n\
                    retries = 4\nretry_within = '5s'\nretry_percent = 6\nretry_burst = 7\n\
                    reuse_connections = false\nmax_in_flight = 80\nqueue_timeout = '9s'\nhedge_after = '300ms'";
        let config = Config::parse(text).unwrap();
        config.check().unwrap();
        let seconds = Duration::from_secs;
        let options = config.storage.options();
        let timeouts = Timeouts { connect: seconds(1), first_byte: seconds(2), stall: seconds(3) };
        assert_eq!(options.timeouts, timeouts);
        assert_eq!(options.retries, Retries { max: 4, within: seconds(5), percent: 6, burst: 7 });
        assert_eq!(options.in_flight, InFlight { max: 80, queue_timeout: seconds(9) });
        assert!(!options.connections.reuse);
        assert_eq!(options.hedge_after, Some(Duration::from_millis(300)));
        let default = Config::default().storage.options();
        assert_eq!((default.hedge_after, default.retries), (None, Retries::default()));
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let mut config =
            Config::parse("source = 'a'\nsegment_duration = '6s'\n[memory]\nindex = '1MiB'").unwrap();
        config.apply(&flags("latemux serve b"));
        assert_eq!(config.source.as_deref(), Some("b"));
        assert_eq!(config.segment_duration, Span(Duration::from_secs(6)));
        assert_eq!((config.memory.index, config.index.head), (1 << 20, 64 << 10));
    }

    #[test]
    fn prefixes_of_other_forms_are_there_only_when_asked_for() {
        let none = Config::default().urls.nginx_vod;
        assert_eq!((none.hls, none.dash, none.mss, none.hds), (None, None, None, None));
        let text = "[urls.nginx_vod]\nhls = '/content/'\nhls_fmp4 = true\nnames.hls_master = 'playlist'";
        let mut config = Config::parse(text).unwrap();
        let urls = config.urls.nginx_vod.clone();
        assert_eq!((urls.hls.as_deref(), urls.dash, urls.hls_fmp4), (Some("/content/"), None, true));
        assert_eq!((urls.names.hls_master.as_str(), urls.names.hls_index.as_str()), ("playlist", "index"));
        config.apply(&flags("latemux serve x --nginx-vod-urls"));
        let urls = &config.urls.nginx_vod;
        assert_eq!((urls.hls.as_deref(), urls.dash.as_deref()), (Some("/content/"), Some("/dash/")));
        config.check().unwrap();
    }

    #[test]
    fn nonsense_is_refused_with_the_name_of_the_key() {
        for (text, key) in [
            ("[urls.nginx_vod]\nhls = 'hls'", "urls.nginx_vod: hls"),
            ("[urls.nginx_vod.names]\nhls_index = 'master'", "hls_index"),
            ("segment_duration = '0s'", "segment_duration"),
            ("[index]\nhead = '1'", "index.head"),
            ("[http]\nmax_connections = 0", "max_connections"),
            ("[storage]\nmax_in_flight = 0", "storage.max_in_flight"),
            ("[storage]\nmax_in_flight = 8", "read.open"),
        ] {
            let error = Config::parse(text).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
