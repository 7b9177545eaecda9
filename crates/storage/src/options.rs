//! Settings of every back end: the `[storage]` section of a configuration file.

use crate::Registry;
use latemux_quantity::TimeSpan;
use serde::{Deserialize, Serialize};
use std::time::Duration;

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
    /// Most retries for one read. Fetching the rest of an interrupted body counts as one.
    pub retries: u32,
    /// Longest time that the failed attempts of one read and the waits between them may take
    /// together. An attempt that fails later is not retried, and a longer `Retry-After` is not
    /// waited for.
    #[serde(with = "TimeSpan")]
    pub retry_within: Duration,
    /// Most retries of all requests to one back end, in percent of those requests. Second reads of
    /// `hedge_after` count as retries.
    pub retry_percent: u32,
    /// Most retries that can be saved up. The budget is full at the start, and `retry_percent`
    /// refills it.
    pub retry_burst: u32,
    /// If true, connections are kept open for further requests. If false, each request opens its
    /// own.
    pub reuse_connections: bool,
    /// Most requests in flight to one HTTP server or object store. A request is in flight from its
    /// start until its body has ended or is dropped, and later requests wait in order. Slow clients
    /// hold their requests open, so a limit below their number delays other clients. Reads from a
    /// folder are not limited.
    pub max_in_flight: usize,
    /// Longest time a request waits while `max_in_flight` requests are in flight. Then it fails
    /// with the reason `storage_busy`.
    #[serde(with = "TimeSpan")]
    pub queue_timeout: Duration,
    /// A read that has no response after this time is sent a second time, and the first response
    /// wins. `0s` sends no second reads.
    #[serde(with = "TimeSpan")]
    pub hedge_after: Duration,
    /// A storage with the same objects, asked if the one that is served fails.
    pub mirror: Vec<MirrorOptions>,
    /// S3 options that no configuration file can set.
    #[serde(skip)]
    pub s3: S3Overrides,
    /// Registry of the counters of every back end opened with these options.
    #[serde(skip)]
    pub registry: Registry,
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
            max_in_flight: 512,
            queue_timeout: Duration::from_secs(10),
            hedge_after: Duration::ZERO,
            mirror: Vec::new(),
            s3: S3Overrides::default(),
            registry: Registry::default(),
        }
    }
}

/// A storage to fall back on. All other settings are those of `[storage]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorOptions {
    /// Folder, URL of an HTTP server, or bucket that holds the same objects under the same names.
    /// Of an object in use, it serves only the same version: with the same strong `ETag` and size
    /// or, without an `ETag`, the same size and modification time. Since 0.2.0.
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
