//! The configuration file, and the flags over it. Unknown keys are refused.
//!
//! `latemux serve --print-config` prints the result; what it prints reads back as the same configuration.

use crate::{
    args,
    quantity::{Bytes, Span},
};
use anyhow::{Context, Result, ensure};
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
    /// Target duration of segments.
    pub(crate) segment_duration: Span,
    pub(crate) tls: Option<Tls>,
    pub(crate) index: Index,
    pub(crate) cache_control: CacheControl,
    pub(crate) http: Http,
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

/// Indexes of titles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Index {
    /// Memory for indexes.
    pub(crate) memory: Bytes,
    /// Memory for remembered fragments of fragmented sources.
    pub(crate) fragment_memory: Bytes,
    /// Bytes read from the start of an object before anything is known of it.
    pub(crate) head: Bytes,
    /// Bytes read from the end of a fragmented object, where its index may be.
    pub(crate) tail: Bytes,
    /// Largest `moov` (or other index) accepted.
    pub(crate) max: Bytes,
}

/// `Cache-Control` of answers; empty sends none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CacheControl {
    pub(crate) manifest: String,
    pub(crate) init: String,
    pub(crate) media: String,
}

/// Connections from players.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Http {
    /// Connections at once; more wait to be accepted.
    pub(crate) max_connections: usize,
    /// How long a request's head may take to arrive.
    pub(crate) header_timeout: Span,
    /// How long open responses may take after a signal to stop.
    pub(crate) drain_timeout: Span,
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
    /// Further tries after a failed one.
    pub(crate) retries: u32,
    /// Wanted ranges closer than this are read in one request.
    pub(crate) join_gap: Bytes,
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
        Self {
            source: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            segment_duration: Span(Duration::from_secs(4)),
            tls: None,
            index: Index::default(),
            cache_control: CacheControl::default(),
            http: Http::default(),
            storage: Storage::default(),
            log: Log::default(),
        }
    }
}

impl Default for Index {
    fn default() -> Self {
        Self {
            memory: Bytes(256 << 20),
            fragment_memory: Bytes(32 << 20),
            head: Bytes(64 << 10),
            tail: Bytes(64 << 10),
            max: Bytes(256 << 20),
        }
    }
}

impl Default for CacheControl {
    fn default() -> Self {
        Self {
            manifest: "public, max-age=60".to_owned(),
            init: "public, max-age=86400".to_owned(),
            media: "public, max-age=86400".to_owned(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            header_timeout: Span(Duration::from_secs(30)),
            drain_timeout: Span(Duration::from_secs(30)),
        }
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            s3_endpoint: None,
            s3_region: None,
            connect_timeout: Span(Duration::from_secs(5)),
            first_byte_timeout: Span(Duration::from_secs(10)),
            stall_timeout: Span(Duration::from_secs(10)),
            retries: 2,
            join_gap: Bytes(1 << 20),
        }
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
                let text =
                    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
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
        set(&mut self.segment_duration, flags.segment_duration.as_ref());
        set(&mut self.index.memory, flags.index_memory.as_ref());
        if let (Some(cert), Some(key)) = (&flags.tls_cert, &flags.tls_key) {
            self.tls = Some(Tls { cert: cert.clone(), key: key.clone() });
        }
        self.storage.apply(&flags.storage);
    }

    fn check(&self) -> Result<()> {
        let seconds = self.segment_duration.0;
        ensure!(
            seconds >= Duration::from_millis(100) && seconds <= Duration::from_secs(600),
            "segment_duration must be between 100ms and 10m, not {}",
            self.segment_duration
        );
        ensure!(self.index.head.0 >= 1024, "index.head must be at least 1KiB");
        ensure!(self.http.max_connections > 0, "http.max_connections must be at least 1");
        Ok(())
    }
}

impl Storage {
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
            Command::Inspect(_) => panic!("not serve"),
        }
    }

    #[test]
    fn unknown_keys_are_refused_at_every_level() {
        for text in ["sauce = 'x'", "[storage]\nendpoint = 'x'", "[tls]\ncert='a'\nkey='b'\nca='c'", "[cache]"] {
            let error = format!("{:#}", Config::parse(text).unwrap_err());
            assert!(error.contains("unknown field"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let mut config = Config::default();
        config.apply(&flags(
            "latemux serve s3://b/p --listen [::1]:9 --segment-duration 1.5s --tls-cert c --tls-key k \
             --s3-endpoint http://127.0.0.1:1 --s3-region eu --index-memory 3MiB",
        ));
        let printed = toml::to_string(&config).unwrap();
        assert_eq!(Config::parse(&printed).unwrap(), config, "{printed}");
        assert!(printed.contains("segment_duration = \"1500ms\""), "{printed}");
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let mut config = Config::parse("source = 'a'\nsegment_duration = '6s'\n[index]\nmemory = '1MiB'").unwrap();
        config.apply(&flags("latemux serve b"));
        assert_eq!(config.source.as_deref(), Some("b"));
        assert_eq!(config.segment_duration, Span(Duration::from_secs(6)));
        assert_eq!((config.index.memory, config.index.head), (Bytes(1 << 20), Bytes(64 << 10)));
    }

    #[test]
    fn nonsense_is_refused_with_the_name_of_the_key() {
        for (text, key) in [
            ("segment_duration = '0s'", "segment_duration"),
            ("[index]\nhead = '1'", "index.head"),
            ("[http]\nmax_connections = 0", "max_connections"),
        ] {
            let error = Config::parse(text).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
