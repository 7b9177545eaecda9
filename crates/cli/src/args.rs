//! The command line.

use crate::address::ListenAddress;
use clap::{Args as ClapArgs, Parser, Subcommand};
use latemux_cache::Config as CacheConfig;
use latemux_origin::OriginConfig;
use latemux_quantity::{ByteSize, TimeSpan};
use latemux_storage::{Options, StreamCount};
use std::{fmt::Display, path::PathBuf};

/// Serve stored MP4 files as video on demand: HLS, DASH, Smooth Streaming and HDS.
///
/// Manifests and segments are made when players request them. Media is read from a folder, an HTTP
/// server or a bucket. Other commands prepare, inspect and test titles.
#[derive(Debug, Parser)]
#[command(version = VERSION, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Version and, in optimised builds, the commit.
pub(crate) const VERSION: &str = env!("LATEMUX_VERSION");

const EXAMPLES: &str = "\
Examples:
  latemux serve ./films          Serve a folder, with a player page at http://127.0.0.1:8080/
  latemux serve s3://bucket/vod  Serve a bucket
  latemux inspect film.mp4       Show what a file contains, and what is wrong with it
  latemux help load              Show the options of a command";

// The help text of a command is the doc comment of its flags. A doc comment of the variant would
// replace it.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<Serve>),
    Check(crate::check::Check),
    Health(crate::health::Health),
    Inspect(Inspect),
    Index(Index),
    Manifest(Manifest),
    Pack(Box<Pack>),
    Thumbnails(crate::thumbnails::Thumbnails),
    Load(Box<crate::load::Load>),
    Capture(crate::capture::Capture),
    Restore(crate::restore::Restore),
    Keys(crate::keys::Keys),
    Report(crate::report::Report),
    Model(crate::model::Model),
    Lab(crate::lab::Lab),
    Completions(crate::manual::Completions),
    Man(crate::manual::Man),
}

/// Serve media from a folder, an HTTP server or a bucket
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Serve {
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
            crate::config::Config::default().listen
        )
    )]
    pub(crate) listen: Vec<ListenAddress>,
    /// Address for metrics, health checks and purging, or unix:/path for a socket; clients must not
    /// reach it [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<ListenAddress>,
    /// Also start while storage says that the bucket or the credentials are wrong, and try again
    /// until it answers
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
    /// Write an index MP4 beside media that has none, so that other nodes only read that small
    /// file. The storage must be writable
    #[arg(long)]
    pub(crate) write_index: bool,
    /// Also serve the URLs of nginx-vod-module, below /hls/, /dash/, /mss/ and /hds/ or the
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
        help = with_default("Most requests among which a long read of distant storage is split, or auto", Options::default().streams)
    )]
    pub(crate) storage_streams: Option<StreamCount>,
    #[arg(
        long,
        value_name = "SIZE",
        help = with_default("Least size of each part of such a read", ByteSize(Options::default().chunk))
    )]
    pub(crate) storage_chunk: Option<ByteSize>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Show the tracks, segments and problems of a file or folder
#[derive(Debug, ClapArgs)]
pub(crate) struct Inspect {
    /// Path or URL: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) target: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Find closed captions: reads up to 8 segments of each video, of 16 MiB at most
    #[arg(long)]
    pub(crate) captions: bool,
    /// Target duration of segments
    #[arg(long, value_name = "DURATION", default_value_t = segment_duration())]
    pub(crate) segment_duration: TimeSpan,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Write an index MP4: a small file that makes the first request of a title fast
///
/// It holds the sample tables of a media file, and points at the media. Servers use it instead of
/// the media file's own tables.
#[derive(Debug, ClapArgs)]
pub(crate) struct Index {
    /// Path or URL of the media file: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) source: String,
    /// Output: a path, or s3://…, gs://… or az://… [default: movie.index.mp4 beside the file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Path or URL of the media, to be written into the index. Needed if the media is not in the
    /// folder of the index or below it. Servers must be configured to allow this location
    #[arg(long, value_name = "URL")]
    pub(crate) location: Option<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Write a server manifest (.ism), which makes one title of several files
#[derive(Debug, ClapArgs)]
pub(crate) struct Manifest {
    /// Output: title.ism, or s3://…, gs://… or az://…
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Media files or index MP4s, in the folder of the manifest or below it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Write a title as CMAF files, or as one ismv file
///
/// The files hold the same segments that `serve` sends for the same target duration, and an index
/// of them: CMAF track files (ftyp, moov, sidx, segments), or with --ismv one file of Smooth
/// Streaming fragments (ftyp, moov, fragments, mfra).
///
/// A CMAF file holds one track. An output named .cmfv, .cmfa or .cmft takes the video, audio or
/// text track of its source. If there are several such tracks, choose one with --track, or write
/// one file for each: `-o out/` names the files after their tracks and bit rates
/// (out/video-1200k.cmfv, out/audio_eng-128k.cmfa), and `-o 'out/film-{track}.{ext}'` follows the
/// given pattern. An ismv file holds all tracks that Smooth Streaming can carry.
///
/// A file appears only when it is complete. Several files appear together at the end.
#[derive(Debug, ClapArgs)]
pub(crate) struct Pack {
    /// Path or URL of a title: a media file, an index MP4, a server manifest (.ism), or a folder of
    /// files that play together. With --config, the title as in URLs
    pub(crate) source: String,
    /// Configuration file (TOML). The title is written as `serve` would send it: from the
    /// `source` of the file, and encrypted if a [[drm]] rule matches it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Output: a path, or s3://…, gs://… or az://…. With {track} or a final `/`, there is
    /// one file for each track
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Target duration of fragments. A fragment begins at the first key frame at or after each
    /// multiple of this duration [default: that of the configuration, or else 4s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) fragment: Option<TimeSpan>,
    /// Write one Smooth Streaming file of all tracks, with tfxd and mfra
    #[arg(long)]
    pub(crate) ismv: bool,
    /// Write only this track: video, audio or text, or its name in URLs (audio_eng, video=1200000);
    /// can be repeated
    #[arg(long, value_name = "TRACK")]
    pub(crate) track: Vec<String>,
    /// Path or host[:port] that an index MP4 or server manifest may point to, besides its own
    /// folder; can be repeated
    #[arg(long, value_name = "PLACE")]
    pub(crate) allow: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Access to object storage. Credentials come from the environment, a web identity, the container
/// or the instance.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Storage {
    /// S3-compatible endpoint, such as https://minio.example:9000
    #[arg(long, value_name = "URL")]
    pub(crate) s3_endpoint: Option<String>,
    /// S3 region
    #[arg(long, value_name = "REGION")]
    pub(crate) s3_region: Option<String>,
}

impl Storage {
    /// Overrides options of the configuration file.
    pub(crate) fn apply(&self, options: &mut Options) {
        options.s3_endpoint = self.s3_endpoint.clone().or(options.s3_endpoint.take());
        options.s3_region = self.s3_region.clone().or(options.s3_region.take());
    }

    /// Returns the default options with these overrides.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        self.apply(&mut options);
        options
    }
}

/// Appends a setting's default to the help text of the flag that overrides it.
fn with_default(help: &str, default: impl Display) -> String {
    format!("{help} [default: {default}]")
}

fn segment_duration() -> TimeSpan {
    TimeSpan(OriginConfig::default().segment_duration)
}
