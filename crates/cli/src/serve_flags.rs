//! The flags of `latemux serve`, which override the configuration file.

use crate::{address::ListenAddress, config::Config, storage_flags::StorageFlags};
use clap::Args;
use latemux_cache::Config as CacheConfig;
use latemux_origin::OriginConfig;
use latemux_quantity::{ByteSize, TimeSpan};
use latemux_storage::{Options, StreamCount};
use std::{fmt::Display, path::PathBuf};

/// Serve media from a folder, an HTTP server or a bucket
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeFlags {
    /// Media to serve: ./folder, https://host/path/, s3://bucket/prefix, gs://… or az://…
    pub(crate) source: Option<String>,
    /// Configuration file (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the resulting configuration and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    #[arg(
        long,
        value_name = "ADDR:PORT",
        help = with_default(
            "Address to listen on, :PORT for all IPv4 networks, or unix:/path for a socket; can be repeated",
            Config::default().listen
        )
    )]
    pub(crate) listen: Vec<ListenAddress>,
    /// Address for metrics, health checks and purging, or unix:/path for a socket; clients must not
    /// be able to reach it [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<ListenAddress>,
    /// Start even if the bucket does not exist or storage refuses the credentials, and try again
    /// until it accepts them
    #[arg(long)]
    pub(crate) wait_for_storage: bool,
    /// Serve neither the player page nor the list of titles
    #[arg(long)]
    pub(crate) no_page: bool,
    /// Send the headers Server-Timing, Latemux-Cache and Latemux-Storage-Requests with each
    /// response
    #[arg(long)]
    pub(crate) debug_headers: bool,
    #[arg(
        long,
        value_name = "DURATION",
        help = with_default("Target duration of segments", segment_duration())
    )]
    pub(crate) segment_duration: Option<TimeSpan>,
    /// Certificate chain (PEM), to serve HTTPS with HTTP/2
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    #[arg(
        long,
        value_name = "SIZE",
        help = with_default("Memory for the indexes of titles", ByteSize(OriginConfig::default().memory.index))
    )]
    pub(crate) index_memory: Option<ByteSize>,
    /// Write an index MP4 beside media that has none, so that other nodes need to read only that
    /// small file. The storage must be writable
    #[arg(long)]
    pub(crate) write_index: bool,
    /// Also serve the URLs of nginx-vod-module, below /hls/, /dash/, /mss/ and /hds/, or below the
    /// configured prefixes
    #[arg(long)]
    pub(crate) nginx_vod_urls: bool,
    #[arg(
        long,
        value_name = "SIZE",
        help = with_default("Memory for cached source bytes; 0 for none", ByteSize(CacheConfig::default().memory))
    )]
    pub(crate) cache_memory: Option<ByteSize>,
    /// Folder for cached source bytes and indexes, which then survive a restart
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    #[arg(
        long,
        value_name = "SIZE",
        requires = "cache_dir",
        help = with_default("Disk space for cached source bytes in the folder of --cache-dir", ByteSize(CacheConfig::default().disk))
    )]
    pub(crate) cache_disk: Option<ByteSize>,
    #[arg(
        long,
        value_name = "N",
        help = with_default("Most requests among which a long read is split into chunks, or auto: up to 16 if the round trip to storage takes at least 10 ms, while that is faster", Options::default().streams)
    )]
    pub(crate) storage_streams: Option<StreamCount>,
    #[arg(
        long,
        value_name = "SIZE",
        help = with_default("Least size of a chunk of a long read", ByteSize(Options::default().chunk))
    )]
    pub(crate) storage_chunk: Option<ByteSize>,
    #[arg(
        long,
        value_name = "DURATION",
        help = with_default("Pause between the end of a chunk of a long read and the next request on the same stream", TimeSpan(Options::default().gap))
    )]
    pub(crate) storage_gap: Option<TimeSpan>,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
}

/// Appends a setting's default to the help text of the flag that overrides it.
fn with_default(help: &str, default: impl Display) -> String {
    format!("{help} [default: {default}]")
}

/// Returns the default target duration.
pub(crate) fn segment_duration() -> TimeSpan {
    TimeSpan(OriginConfig::default().segment_duration)
}
