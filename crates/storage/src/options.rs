//! Settings of every back end: the `[storage]` section of a configuration file.

use crate::Registry;
use latemux_quantity::{ByteSize, TimeSpan};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;
use std::{fmt, str::FromStr};

/// Access to HTTP servers and object stores. Credentials come from the environment, a web identity,
/// the container or the instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Address of an S3-compatible service, such as `https://host:9000`, if not Amazon's. An
    /// address that begins with `http://` allows requests without TLS.
    pub s3_endpoint: Option<String>,
    /// S3 region. If neither this nor the environment names one, it is `us-east-1`.
    pub s3_region: Option<String>,
    /// Longest time for name resolution, TCP and the TLS handshake together.
    #[serde(with = "TimeSpan")]
    pub connect_timeout: Duration,
    /// Longest time from the connected request to the head of its response.
    #[serde(with = "TimeSpan")]
    pub first_byte_timeout: Duration,
    /// Longest pause between two pieces of a response body.
    #[serde(with = "TimeSpan")]
    pub stall_timeout: Duration,
    /// Most retries for one read. A request for the rest of an interrupted body counts as one.
    pub retries: u32,
    /// Longest time that the failed attempts of one read and the waits between them may take
    /// together. If an attempt fails later, or if `Retry-After` asks for a longer wait, the read is
    /// not retried.
    #[serde(with = "TimeSpan")]
    pub retry_within: Duration,
    /// Most retries of all requests to one storage together, in percent of those requests. Reads
    /// that are sent a second time because of `hedge_after` count as retries.
    pub retry_percent: u32,
    /// Size of the reserve of retries. It is full at the start, each retry takes one from it, and
    /// requests refill it by `retry_percent`.
    pub retry_burst: u32,
    /// If true, connections are kept open for further requests. If false, each request opens its
    /// own.
    pub reuse_connections: bool,
    /// Number of connections to the served HTTP server or object store that are opened before
    /// requests need them, from the start on. A connection that a request takes, or that the server
    /// closes, is replaced. 0 opens none. Since 0.2.0.
    pub connections_ahead: usize,
    /// Most requests in flight to one HTTP server or object store. A request is in flight from its
    /// start until its body has ended or is dropped. Further requests wait, and clients get permits
    /// in turn. All requests for one client address together may be at most an eighth of this
    /// number, or 16 if that is more. Slow clients hold their requests open, so a limit below the
    /// number of slow clients delays other clients. Reads from a folder are not limited.
    pub max_in_flight: usize,
    /// Longest time a request waits while `max_in_flight` requests are in flight. Then it fails
    /// with the reason `storage_busy`.
    #[serde(with = "TimeSpan")]
    pub queue_timeout: Duration,
    /// Time after which a read that has no response yet is sent a second time. The first response
    /// is used. With `0s`, no read is sent a second time.
    #[serde(with = "TimeSpan")]
    pub hedge_after: Duration,
    /// Most requests among which a long read of a known version is split. Its parts, called chunks,
    /// are requested at once. The number grows only while this makes reads faster, compared with
    /// one request. `"auto"` splits reads among up to 16 requests if the round trip to storage
    /// takes at least 10 ms. 1 splits none. Reads from a folder are not split. Since 0.2.0.
    pub streams: StreamCount,
    /// Least size of a chunk. Only reads of at least two chunks are split. Since 0.2.0.
    #[serde(with = "ByteSize")]
    pub chunk: u64,
    /// Pause between the end of a chunk and the next request on the same stream, which leaves room
    /// for other traffic. With a pause, chunks are about `chunk` long. With `0s`, chunks are as
    /// long as possible, and most streams read only one. Since 0.2.0.
    #[serde(with = "TimeSpan")]
    pub gap: Duration,
    /// A storage with the same objects, which is used if the served one fails. Other settings are
    /// those of `[storage]`.
    pub mirror: Vec<MirrorOptions>,
    /// S3 options that no configuration file can set.
    #[serde(skip)]
    pub s3: S3Overrides,
    /// Registry of the counters of every back end opened with these options.
    #[serde(skip)]
    pub registry: Registry,
}

/// Part of the requests in flight that one client may have: an eighth. All responses to them may
/// arrive at one time, and then keep other clients waiting for the processor.
const CLIENT_SHARE: usize = 8;
/// Requests in flight that each client may have, if all may have so many.
const LEAST_CLIENT_SHARE: usize = 16;

impl Options {
    /// Returns the most requests in flight that one client may have of `max_in_flight`.
    pub fn in_flight_of_one_client(&self) -> usize {
        (self.max_in_flight / CLIENT_SHARE).max(LEAST_CLIENT_SHARE).min(self.max_in_flight).max(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            s3_endpoint: None,
            s3_region: None,
            connect_timeout: Duration::from_secs(5),
            first_byte_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(10),
            retries: 2,
            retry_within: Duration::from_secs(5),
            retry_percent: 20,
            retry_burst: 50,
            reuse_connections: true,
            connections_ahead: 16,
            max_in_flight: 512,
            queue_timeout: Duration::from_secs(10),
            hedge_after: Duration::ZERO,
            streams: StreamCount::Auto,
            chunk: 128 << 10,
            gap: Duration::ZERO,
            mirror: Vec::new(),
            s3: S3Overrides::default(),
            registry: Registry::default(),
        }
    }
}

/// The most requests among which a long read is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamCount {
    /// Depends on the round trip to storage.
    Auto,
    /// A number; not 0.
    AtMost(usize),
}

/// The largest [`StreamCount`].
const MOST_STREAMS: usize = 64;

impl FromStr for StreamCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(streams @ 1..=MOST_STREAMS) => Ok(Self::AtMost(streams)),
            _ => Err(format!("the number of streams must be auto, or from 1 to {MOST_STREAMS}")),
        }
    }
}

impl fmt::Display for StreamCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::AtMost(streams) => streams.fmt(f),
        }
    }
}

impl Serialize for StreamCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::AtMost(streams) => streams.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for StreamCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A storage to fall back on. All other settings are those of `[storage]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorOptions {
    /// Folder, URL of an HTTP server, or bucket that holds the same objects under the same names.
    /// It answers reads of a known version only with an object that has the same strong `ETag` and
    /// size or, without an `ETag`, the same size and modification time. Since 0.2.0.
    pub location: String,
    /// Address of an S3-compatible service, if not that of `[storage]`. Since 0.2.0.
    pub s3_endpoint: Option<String>,
    /// S3 region, if not that of `[storage]`. Since 0.2.0.
    pub s3_region: Option<String>,
}

impl MirrorOptions {
    /// Returns the options of the mirror, given those of the storage itself.
    pub(crate) fn over(&self, options: &Options) -> Options {
        let mut own = options.clone();
        own.s3_endpoint = self.s3_endpoint.clone().or(own.s3_endpoint);
        own.s3_region = self.s3_region.clone().or(own.s3_region);
        own.mirror = Vec::new();
        own
    }
}

/// Replacements for credentials, and for the addresses that serve them.
#[derive(Debug, Clone, Default)]
pub struct S3Overrides {
    /// Access keys. If `None`, they come from the environment, a web identity, the container or the
    /// instance, in this order, and are renewed as they expire.
    pub keys: Option<AccessKeys>,
    /// Address of the instance's metadata service, if not the usual link-local address.
    pub metadata_endpoint: Option<String>,
    /// Address (`http://host:port`) of the container's credentials service when the environment
    /// holds only a path, if not the usual link-local address.
    pub container_endpoint: Option<String>,
}

/// An access key and its secret.
#[derive(Clone)]
pub struct AccessKeys {
    /// Access key ID.
    pub id: String,
    /// Secret access key. Debug output leaves it out.
    pub secret: String,
}

impl std::fmt::Debug for AccessKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessKeys").field("id", &self.id).finish_non_exhaustive()
    }
}
