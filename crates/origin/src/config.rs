//! Everything about the origin that can be set, with its defaults. Unknown keys are refused.
//!
//! Durations are in seconds (fractions allowed), sizes in bytes.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Settings of an [`crate::Origin`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OriginConfig {
    /// Target duration of a segment, in seconds. A part of every segment's identity: nodes that share URLs must agree.
    #[serde(with = "seconds")]
    pub segment_duration: Duration,
    /// A manifest made from an index that was last compared with storage longer ago than this (seconds) compares again
    /// first. Segments need not: their reads name the version.
    #[serde(with = "seconds")]
    pub recheck_after: Duration,
    /// Longest time to index a title, in seconds.
    #[serde(with = "seconds")]
    pub load_timeout: Duration,
    /// Most objects in one title.
    pub max_objects: usize,
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
}

impl Default for OriginConfig {
    fn default() -> Self {
        Self {
            segment_duration: Duration::from_secs(4),
            recheck_after: Duration::from_secs(10),
            load_timeout: Duration::from_secs(120),
            max_objects: 64,
            index: IndexConfig::default(),
            memory: MemoryConfig::default(),
            read: ReadConfig::default(),
            cache_control: CacheControlConfig::default(),
            http: HttpConfig::default(),
        }
    }
}

/// Reading the index of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IndexConfig {
    /// Bytes read from the start of an object before anything is known of it.
    pub head: u64,
    /// Bytes read from its end where its head shows that the index may be there.
    pub tail: u64,
    /// Largest `moov`, `sidx` chain or `mfra` accepted, in bytes.
    pub max_index: u64,
}

impl Default for IndexConfig {
    fn default() -> Self {
        let limits = latemux_index::locate::Limits::default();
        Self { head: limits.head, tail: limits.tail, max_index: limits.max_index }
    }
}

/// What is remembered, in bytes. What does not fit is made anew each time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Packed indexes of objects and titles.
    pub index: u64,
    /// Samples of fragments that were read along with their media.
    pub fragments: u64,
    /// Manifests, plain and compressed.
    pub manifests: u64,
    /// Index bytes being read or parsed at one time, over all objects.
    pub loading: u64,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { index: 512 << 20, fragments: 64 << 20, manifests: 64 << 20, loading: 512 << 20 }
    }
}

/// Reading media.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadConfig {
    /// Two ranges of one object that lie at most this many bytes apart are read by one request.
    pub gap: u64,
    /// Most bytes read for one response only to be thrown away; the widest gaps are then not read across.
    pub waste: u64,
    /// Most requests to storage open at one time for one response.
    pub open: usize,
    /// Most requests to storage for one response; a segment scattered wider is refused.
    pub requests: usize,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self { gap: 1 << 20, waste: 8 << 20, open: 16, requests: 256 }
    }
}

/// `max-age` by kind of answer, in seconds; 0 is `no-cache`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheControlConfig {
    /// Manifests and playlists.
    pub manifest: u32,
    /// Init segments.
    pub init: u32,
    /// Media segments.
    pub media: u32,
}

impl Default for CacheControlConfig {
    fn default() -> Self {
        Self { manifest: 60, init: 86_400, media: 86_400 }
    }
}

/// The HTTP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Most connections open at one time; more wait in the kernel's queue.
    pub max_connections: usize,
    /// Longest time from connection (or the previous answer) to the end of a request's headers, TLS handshake included
    /// each time it is one, in seconds.
    #[serde(with = "seconds")]
    pub header_timeout: Duration,
    /// Longest time a client may take no bytes of an answer, in seconds.
    #[serde(with = "seconds")]
    pub stall_timeout: Duration,
    /// Longest time open answers may take after shutdown was asked for, in seconds.
    #[serde(with = "seconds")]
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

/// Durations as a number of seconds.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(duration.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Number {
            Whole(u64),
            Fraction(f64),
        }
        match Number::deserialize(from)? {
            Number::Whole(seconds) => Ok(Duration::from_secs(seconds)),
            Number::Fraction(seconds) => Duration::try_from_secs_f64(seconds).map_err(D::Error::custom),
        }
    }
}
