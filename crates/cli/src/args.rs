//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand};
use latemux_cache::Config as CacheConfig;
use latemux_origin::OriginConfig;
use latemux_quantity::{ByteSize, TimeSpan};
use latemux_storage::Options;
use std::{fmt::Display, net::SocketAddr, path::PathBuf};

/// Video-on-demand origin: stores each title once and serves it in the protocol of every player.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve media from a folder, an HTTP server or a bucket
    Serve(Box<Serve>),
    /// Show the tracks, codecs and segment grid of a file, and the problems found in it
    Inspect(Inspect),
    /// Write an index MP4: the sample tables of a file without its media, for a fast first request
    Index(Index),
    /// Write a server manifest (.ism) that lists all tracks of some files
    Manifest(Manifest),
    /// Write a title as fragmented MP4: CMAF track files with a segment index, or one ismv file
    Pack(Box<Pack>),
    /// Simulate many viewers of any server, check the responses, and measure them
    Load(Box<crate::load::Load>),
    /// Save a stream as a client receives it: the media as one MP4, and a list of the requests
    Capture(crate::capture::Capture),
    /// Merge the results of several load runs and show them
    Report(crate::report::Report),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Media to serve: ./folder, https://host/path/, s3://bucket/prefix, gs://… or az://…
    pub(crate) source: Option<String>,
    /// Configuration file (TOML). Flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the resulting configuration and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    #[arg(
        long,
        value_name = "ADDR:PORT",
        help = with_default("Address to listen on", crate::config::Config::default().listen)
    )]
    pub(crate) listen: Option<SocketAddr>,
    /// Address of metrics, health checks and purging. Keep it out of the reach of clients [default:
    /// none]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
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
    /// Certificate chain (PEM). Serves HTTPS with HTTP/2
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    #[arg(
        long,
        value_name = "SIZE",
        help = with_default("Memory for indexes of titles", ByteSize(OriginConfig::default().memory.index))
    )]
    pub(crate) index_memory: Option<ByteSize>,
    /// Write an index MP4 beside media that has none, so that other nodes read one small file. The
    /// storage must allow writing
    #[arg(long)]
    pub(crate) write_index: bool,
    /// Serve the URLs of nginx-vod-module too, below /hls/, /dash/, /mss/ and /hds/ or the
    /// configured prefixes
    #[arg(long)]
    pub(crate) nginx_vod_urls: bool,
    #[arg(
        long,
        value_name = "SIZE",
        help = with_default("Memory for source bytes. 0 keeps none", ByteSize(CacheConfig::default().memory))
    )]
    pub(crate) cache_memory: Option<ByteSize>,
    /// Folder for source bytes, so that they outlive a restart
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    #[arg(
        long,
        value_name = "SIZE",
        requires = "cache_dir",
        help = with_default("Most bytes in the folder of --cache-dir", ByteSize(CacheConfig::default().disk))
    )]
    pub(crate) cache_disk: Option<ByteSize>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inspect {
    /// Path or URL of the file: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) target: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Target duration of segments
    #[arg(long, value_name = "DURATION", default_value_t = segment_duration())]
    pub(crate) segment_duration: TimeSpan,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Index {
    /// Path or URL of the media file: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) source: String,
    /// Output: a path, or s3://…, gs://… or az://… [default: movie.index.mp4 beside the file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Path or URL of the media, written into the index. Needed if the media is not in the folder
    /// of the index or below it. Servers must be configured to allow this location
    #[arg(long, value_name = "URL")]
    pub(crate) location: Option<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

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

/// Writes the same segments that `serve` sends for the same target duration, and an index of them:
/// CMAF track files (ftyp, moov, sidx, segments), or with --ismv one file of Smooth Streaming
/// fragments (ftyp, moov, fragments, mfra).
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
    /// Title as `serve` takes it: a media file, an index MP4, a server manifest (.ism), or a folder
    /// of files that play together. A path or URL: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) source: String,
    /// Output: a path, or s3://…, gs://… or az://…. With {track} or a final `/`, one file for each
    /// track
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Target duration of fragments. A fragment begins at the first key frame at or after each
    /// multiple of this duration
    #[arg(long, value_name = "DURATION", default_value_t = segment_duration())]
    pub(crate) fragment: TimeSpan,
    /// Write one Smooth Streaming file of all tracks, with tfxd and mfra
    #[arg(long)]
    pub(crate) ismv: bool,
    /// Write only this track: video, audio or text, or its name in URLs (audio_eng, video=1200000).
    /// May be repeated
    #[arg(long, value_name = "TRACK")]
    pub(crate) track: Vec<String>,
    /// Path or host[:port] where an index MP4 or server manifest may point, besides its own folder.
    /// May be repeated
    #[arg(long, value_name = "PLACE")]
    pub(crate) allow: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Access to object storage. Credentials come from the environment, a web identity, the container
/// or the instance.
#[derive(Debug, ClapArgs)]
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
