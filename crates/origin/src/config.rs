//! Everything about the origin that can be set, with its defaults. In text, durations are written `4s` and sizes `64KiB`;
//! unknown keys are refused.

pub mod quantity;
mod urls;

pub use urls::{NginxVodConfig, UrlsConfig};

use http::HeaderValue;
use latemux_packager::plan::Class;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Settings of an [`crate::Origin`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginConfig {
    /// Target duration of a segment. A part of every segment's identity: nodes that share URLs must agree.
    #[serde(with = "quantity::span")]
    pub segment_duration: Duration,
    /// A manifest made from an index that was last compared with storage longer ago than this compares again first.
    /// Segments need not: their reads name the version.
    #[serde(with = "quantity::span")]
    pub recheck_after: Duration,
    /// Longest time to index a title.
    #[serde(with = "quantity::span")]
    pub load_timeout: Duration,
    /// Most objects in one title.
    pub max_objects: usize,
    /// Where index MP4s and server manifests may lead.
    pub sources: SourcesConfig,
    /// Forms of URL beside the native one.
    pub urls: UrlsConfig,
    /// Reading the index of an object.
    pub index: IndexConfig,
    /// What is remembered, and how much of it.
    pub memory: MemoryConfig,
    /// Reading media.
    pub read: ReadConfig,
    /// How long clients and caches may keep answers.
    pub cache_control: CacheControlConfig,
    /// The HTTP server.
    pub http: HttpConfig,
    /// Answers say how they were made: `Server-Timing`, `Latemux-Cache`, `Latemux-Storage-Requests`.
    pub debug_headers: bool,
}

impl Default for OriginConfig {
    fn default() -> Self {
        Self {
            segment_duration: Duration::from_secs(4),
            recheck_after: Duration::from_secs(10),
            load_timeout: Duration::from_secs(120),
            max_objects: 64,
            sources: SourcesConfig::default(),
            urls: UrlsConfig::default(),
            index: IndexConfig::default(),
            memory: MemoryConfig::default(),
            read: ReadConfig::default(),
            cache_control: CacheControlConfig::default(),
            http: HttpConfig::default(),
            debug_headers: false,
        }
    }
}

/// Where index MP4s and server manifests may lead. A name in the file's own folder, or below it, always may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourcesConfig {
    /// `/folder` of this machine and all below it; `host` or `host:port` reached by http or https; `.` for everything in the
    /// storage that is served.
    pub allow: Vec<String>,
}

/// Reading the index of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IndexConfig {
    /// Bytes read from the start of an object before anything is known of it.
    #[serde(with = "quantity::size")]
    pub head: u64,
    /// Bytes read from its end where its head shows that the index may be there.
    #[serde(with = "quantity::size")]
    pub tail: u64,
    /// Most bytes read from the start, and at once from the end, of an object whose size a folder's listing told: a sixty-fourth of it,
    /// at least `head` and `tail`. With 0 neither is more than that.
    #[serde(with = "quantity::size")]
    pub ahead: u64,
    /// Largest `moov`, `sidx` chain or `mfra` accepted, in bytes.
    #[serde(with = "quantity::size")]
    pub max_index: u64,
    /// Writes index MP4s beside media that has none, into the storage that is served.
    pub write: bool,
}

impl Default for IndexConfig {
    fn default() -> Self {
        let limits = latemux_index::locate::limits::Limits::default();
        Self {
            head: limits.head,
            tail: limits.tail,
            ahead: limits.ahead,
            max_index: limits.max_index,
            write: false,
        }
    }
}

/// What is remembered, in bytes. What does not fit is made anew each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Packed indexes of objects and titles.
    #[serde(with = "quantity::size")]
    pub index: u64,
    /// Samples of fragments that were read along with their media.
    #[serde(with = "quantity::size")]
    pub fragments: u64,
    /// Manifests, plain and compressed.
    #[serde(with = "quantity::size")]
    pub manifests: u64,
    /// Finished segments, kept as they were sent; 0 keeps none. With a range cache they save making a segment again, which costs
    /// little: worth it for TS that is asked for again and again.
    #[serde(with = "quantity::size")]
    pub segments: u64,
    /// Index bytes being read or parsed at one time, over all objects.
    #[serde(with = "quantity::size")]
    pub loading: u64,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { index: 512 << 20, fragments: 64 << 20, manifests: 64 << 20, segments: 0, loading: 512 << 20 }
    }
}

/// What a cache reads along, where it has to read at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nothing: written `exact`.
    Exact,
    /// The blocks of so many bytes, counted from the start of the object, in which it lies: written `1MiB`.
    Block(u64),
    /// What of the object belongs to the same part of the segment grid, whichever track: written `grid`.
    Grid,
}

/// Reading media.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadConfig {
    /// Two ranges of one object that lie at most this many bytes apart are read by one request.
    #[serde(with = "quantity::size")]
    pub gap: u64,
    /// Most bytes read for one response only to be thrown away; the widest gaps are then not read across.
    #[serde(with = "quantity::size")]
    pub waste: u64,
    /// How long the head of a segment waits for what storage answers, which may still become a status. Then it is sent all the same,
    /// and a refusal that comes later breaks the answer off.
    #[serde(with = "quantity::span")]
    pub patience: Duration,
    /// What a cache reads along: `grid`, `exact`, or the size of blocks.
    pub reach: Reach,
    /// Most requests to storage open at one time for one response.
    pub open: usize,
    /// Most requests to storage for one response; a segment scattered wider is refused.
    pub requests: usize,
    /// Most bytes of a segment whose length only its media tells, which must be held before the answer starts.
    #[serde(with = "quantity::size")]
    pub held: u64,
    /// So many segments behind one that is asked for are read into the range cache beside it.
    pub prefetch: u32,
    /// Most segments read ahead at one time, and no more than an eighth of the requests that may be in flight to storage.
    pub prefetch_open: usize,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self {
            gap: 1 << 20,
            waste: 8 << 20,
            patience: Duration::from_micros(500),
            reach: Reach::Grid,
            open: 16,
            requests: 256,
            held: 64 << 20,
            prefetch: 0,
            prefetch_open: 16,
        }
    }
}

/// `Cache-Control` by kind of answer; empty text sends none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheControlConfig {
    /// Manifests and playlists.
    #[serde(with = "quantity::header")]
    pub manifest: Option<HeaderValue>,
    /// Init segments.
    #[serde(with = "quantity::header")]
    pub init: Option<HeaderValue>,
    /// Media segments.
    #[serde(with = "quantity::header")]
    pub media: Option<HeaderValue>,
}

impl Default for CacheControlConfig {
    fn default() -> Self {
        let day = Some(HeaderValue::from_static("public, max-age=86400"));
        let minute = Some(HeaderValue::from_static("public, max-age=60"));
        Self { manifest: minute, init: day.clone(), media: day }
    }
}

impl CacheControlConfig {
    /// The value for a class.
    pub(crate) fn of(&self, class: Class) -> Option<HeaderValue> {
        match class {
            Class::Manifest => self.manifest.clone(),
            Class::Init => self.init.clone(),
            Class::Media => self.media.clone(),
        }
    }
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Most connections open at one time; more wait in the kernel's queue.
    pub max_connections: usize,
    /// Longest time from connection, or the previous answer, to the end of a request's head; also of a TLS handshake.
    #[serde(with = "quantity::span")]
    pub header_timeout: Duration,
    /// Longest time a client may take no bytes of an answer.
    #[serde(with = "quantity::span")]
    pub stall_timeout: Duration,
    /// Longest time open answers may take after shutdown was asked for.
    #[serde(with = "quantity::span")]
    pub drain_timeout: Duration,
    /// Largest request head, in bytes; at least 8192.
    pub max_header_bytes: u32,
    /// Most requests open at one time on one HTTP/2 connection.
    pub max_streams: u32,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            header_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            max_header_bytes: 16 << 10,
            max_streams: 128,
        }
    }
}
