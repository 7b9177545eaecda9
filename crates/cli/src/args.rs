//! The command line as typed.

use clap::{Args as ClapArgs, Parser, Subcommand};
use latemux_origin::config::quantity::{Bytes, Span};
use std::{net::SocketAddr, path::PathBuf};

/// Video-on-demand origin: titles stored once, served in every player's protocol.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a folder, an HTTP server or a bucket
    Serve(Box<Serve>),
    /// Show what is in a file: tracks, codecs, segment grid, and what is wrong with it
    Inspect(Inspect),
    /// Write an index MP4: where every sample of a file lies, without the media, so that a cold title starts with one small read
    Index(Index),
    /// Write a server manifest (.ism) of all tracks of some files
    Manifest(Manifest),
    /// Write a title as fragmented MP4: CMAF track files with a segment index, or one ismv
    Pack(Box<Pack>),
    /// Play titles of any server as many viewers do, check what comes, and measure it
    Load(Box<crate::load::Load>),
    /// Keep a stream as a client gets it: its media as one MP4, and its requests
    Capture(crate::capture::Capture),
    /// Add up what runs of `load` measured, and show it
    Report(crate::report::Report),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Where the media is: ./folder, https://host/path/, s3://bucket/prefix, gs://…, az://…
    pub(crate) source: Option<String>,
    /// Configuration file (TOML); flags win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the resulting configuration and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Address of metrics, health and purging; keep it from clients [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Say in each answer's head how it was made: Server-Timing, Latemux-Cache, Latemux-Storage-Requests
    #[arg(long)]
    pub(crate) debug_headers: bool,
    /// Target duration of segments [default: 4s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) segment_duration: Option<Span>,
    /// Certificate chain (PEM): serves HTTPS with HTTP/2
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Memory for indexes of titles [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) index_memory: Option<Bytes>,
    /// Write index MP4s beside media that has none, so that other nodes read one small file: the storage must let us write
    #[arg(long)]
    pub(crate) write_index: bool,
    /// Serve nginx-vod-module's URLs too, below /hls/, /dash/, /mss/ and /hds/ or what the configuration says
    #[arg(long)]
    pub(crate) nginx_vod_urls: bool,
    /// Memory for byte ranges of sources; 0 keeps none [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache_memory: Option<Bytes>,
    /// Folder for byte ranges of sources, which outlive a restart
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Bytes in that folder [default: 50GiB]
    #[arg(long, value_name = "SIZE", requires = "cache_dir")]
    pub(crate) cache_disk: Option<Bytes>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inspect {
    /// A file, or the URL of one: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) target: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Target duration of segments
    #[arg(long, value_name = "DURATION", default_value = "4s")]
    pub(crate) segment_duration: Span,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Index {
    /// The file, or the URL of one: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) source: String,
    /// Where the index goes: a path, or s3://, gs://, az:// [default: movie.index.mp4 beside the file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Where the index says the media is, if not in the index's folder or below: a path or URL that readers must allow
    #[arg(long, value_name = "URL")]
    pub(crate) location: Option<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Manifest {
    /// Where the manifest goes: title.ism, or s3://, gs://, az://
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Media files or index MP4s, in the manifest's folder or below
    #[arg(required = true, value_name = "FILE")]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// Writes the very segments that `serve` sends for the same target duration, with an index of them around: CMAF track files
/// (ftyp, moov, sidx, segments), or with --ismv one file of Smooth Streaming fragments (ftyp, moov, fragments, mfra).
///
/// A CMAF file holds one track. What is named .cmfv, .cmfa or .cmft takes the video, audio or text track of its source; where
/// there are several, say which with --track, or write each to a file of its own: `-o out/` names them after their tracks and bit
/// rates (out/video-1200k.cmfv, out/audio_eng-128k.cmfa), `-o 'out/film-{track}.{ext}'` as you like. An ismv holds all tracks that
/// Smooth Streaming carries.
///
/// A file is there when all of it is written, or not at all; where there are several, they appear together at the end.
#[derive(Debug, ClapArgs)]
pub(crate) struct Pack {
    /// What `serve` takes for a title: a media file, an index MP4, a server manifest (.ism), or a folder of files that play together; a
    /// path or URL: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) source: String,
    /// Where it goes: a path, or s3://, gs://, az://. With a `/` at the end or {track} in it: a file for each track
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Target duration of fragments: they begin at the first key frame at or after each multiple of it
    #[arg(long, value_name = "DURATION", default_value = "4s")]
    pub(crate) fragment: Span,
    /// Smooth Streaming: one file of all tracks, with tfxd and mfra
    #[arg(long)]
    pub(crate) ismv: bool,
    /// Only this track: video, audio or text, or a name as in URLs (audio_eng, video=1200000); may be given several times
    #[arg(long, value_name = "TRACK")]
    pub(crate) track: Vec<String>,
    /// Where the files that an index MP4 or server manifest names may be, beside its own folder: a path, or host[:port]; may be given
    /// several times
    #[arg(long, value_name = "PLACE")]
    pub(crate) allow: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
}

/// How to reach object storage. Credentials come from the environment, web identity, container or instance metadata.
#[derive(Debug, ClapArgs)]
pub(crate) struct Storage {
    /// S3-compatible endpoint, e.g. https://minio.example:9000
    #[arg(long, value_name = "URL")]
    pub(crate) s3_endpoint: Option<String>,
    /// S3 region
    #[arg(long, value_name = "REGION")]
    pub(crate) s3_region: Option<String>,
}
