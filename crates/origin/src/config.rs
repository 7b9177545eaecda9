//! Settings of the origin with their defaults. Text forms are those of [`latemux_quantity`]:
//! durations such as `4s`, sizes such as `64KiB`. Unknown keys of a section are refused.

mod cache_control;
mod drm;
mod http;
mod network;
mod read;
mod urls;

pub use cache_control::CacheControlConfig;
pub use drm::{DrmRule, FairPlayConfig, KeysConfig};
pub use http::HttpConfig;
pub use network::Network;
pub use read::{Reach, ReadConfig};
pub use urls::{NginxVodConfig, UrlsConfig};

use latemux_quantity::{ByteSize, TimeSpan, text};
use serde::{Deserialize, Serialize};
use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

/// Settings of an [`crate::Origin`].
///
/// A configuration file has them at its top level. The type that reads such a file nests this one,
/// and refuses top-level keys that neither of them has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OriginConfig {
    /// Target duration of a segment, between 100ms and 10m. Nodes behind the same URLs need the
    /// same value, because segment boundaries depend on it.
    #[serde(with = "TimeSpan")]
    pub segment_duration: Duration,
    /// Age after which the index of a title in memory is compared with storage before a manifest is
    /// served. Segments need no such check, because their reads name the version of the object. If
    /// a file or title was missing or could not be served, it is looked for again after a tenth of
    /// this time.
    #[serde(with = "TimeSpan")]
    pub recheck_after: Duration,
    /// Time after the last successful comparison of a title with storage in which its manifests are
    /// still served from memory if storage fails. With `0s`, requests for them get the error of
    /// storage. Since 0.2.0.
    #[serde(with = "TimeSpan")]
    pub stale_if_error: Duration,
    /// Time for which all requests to storage must have failed before `/healthz/ready` gives status
    /// 503. It does so until storage answers again. With `0s`, failures after the start never make
    /// it give status 503, since titles in memory and cached segments can be served without
    /// storage. Since 0.2.0.
    #[serde(with = "TimeSpan")]
    pub unready_after: Duration,
    /// Longest time to index a title.
    #[serde(with = "TimeSpan")]
    pub load_timeout: Duration,
    /// Most objects in one title.
    pub max_objects: usize,
    /// Access to media outside the folder of an index MP4 or a server manifest.
    pub sources: SourcesConfig,
    /// Forms of URL served besides the native one, and limits of parameters.
    pub urls: UrlsConfig,
    /// Reading and writing indexes of media files.
    pub index: IndexConfig,
    /// Memory for the caches other than the range cache, and for work in progress. Evicted entries
    /// are made again when needed.
    pub memory: MemoryConfig,
    /// Reading media.
    pub read: ReadConfig,
    /// Value of the `Cache-Control` header for each kind of response. If it is empty, no such
    /// header is sent.
    pub cache_control: CacheControlConfig,
    /// The HTTP server.
    pub http: HttpConfig,
    /// If true, the player page is served at `/`, and folders and titles are listed at
    /// `/api/library`. If false, clients find only titles whose URLs they know. Since 0.2.0.
    pub page: bool,
    /// The list of titles.
    pub library: LibraryConfig,
    /// Files of text.
    pub text: TextConfig,
    /// Encryption of titles as they are sent, by the first rule that matches. Other titles are sent
    /// clear. Since 0.2.0.
    pub drm: Vec<DrmRule>,
    /// If true, responses carry the headers `Server-Timing`, `Latemux-Cache` and
    /// `Latemux-Storage-Requests`, which say how they were made.
    pub debug_headers: bool,
    /// If true, a base that is neither a folder nor a known file is read as media whatever its
    /// extension. For commands that the owner of the files runs.
    #[serde(skip)]
    pub any_extension: bool,
}

impl Default for OriginConfig {
    fn default() -> Self {
        Self {
            segment_duration: Duration::from_secs(4),
            recheck_after: Duration::from_secs(10),
            stale_if_error: Duration::from_secs(60 * 60),
            unready_after: Duration::from_secs(60),
            load_timeout: Duration::from_secs(120),
            max_objects: 64,
            sources: SourcesConfig::default(),
            urls: UrlsConfig::default(),
            index: IndexConfig::default(),
            memory: MemoryConfig::default(),
            read: ReadConfig::default(),
            cache_control: CacheControlConfig::default(),
            http: HttpConfig::default(),
            page: true,
            library: LibraryConfig::default(),
            text: TextConfig::default(),
            drm: Vec::new(),
            debug_headers: false,
            any_extension: false,
        }
    }
}

impl OriginConfig {
    /// Target durations of a segment that can be served.
    pub const SEGMENT_DURATIONS: RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_secs(600);

    /// Checks the values that no type rules out.
    ///
    /// # Errors
    /// Returns a sentence for the operator that names the first key with a value out of range.
    pub fn check(&self) -> Result<(), String> {
        if !Self::SEGMENT_DURATIONS.contains(&self.segment_duration) {
            let duration = TimeSpan(self.segment_duration);
            return Err(format!("segment_duration must be between 100ms and 10m, not {duration}"));
        }
        self.sources.check()?;
        self.urls.check()?;
        self.drm.iter().enumerate().try_for_each(|(number, rule)| rule.check(number))?;
        if self.index.head < 1024 {
            return Err("index.head must be at least 1KiB".to_owned());
        }
        // With these, the server would start and then fail every request.
        let zeros = [
            ("load_timeout", self.load_timeout.is_zero()),
            ("max_objects", self.max_objects == 0),
            ("memory.responses", self.memory.responses == 0),
            ("read.open", self.read.open == 0),
            ("read.requests", self.read.requests == 0),
            ("http.max_connections", self.http.max_connections == 0),
            ("http.header_timeout", self.http.header_timeout.is_zero()),
            ("http.stall_timeout", self.http.stall_timeout.is_zero()),
            ("http.max_streams", self.http.max_streams == 0),
        ];
        if self.http.proxy_protocol && self.http.trusted_proxies.is_empty() {
            return Err(
                "http.proxy_protocol needs http.trusted_proxies, the networks of the proxies".to_owned()
            );
        }
        match zeros.iter().find(|(_, is_zero)| *is_zero) {
            Some((key, _)) => Err(format!("{key} must be more than 0")),
            None => Ok(()),
        }
    }
}

/// Access to media outside the folder of an index MP4 or a server manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourcesConfig {
    /// Places where index MP4s and server manifests may point, besides their own folder and the
    /// folders below it. `/folder` allows that local folder and everything below it, `host` or
    /// `host:port` a server reached by http or https, and `.` the whole storage that is served.
    pub allow: Vec<String>,
}

/// The list of titles, at `/api/library` and on the player page. What a URL plays does not depend
/// on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LibraryConfig {
    /// Folders whose media files are listed as one title. `by-name`: folders whose files are named
    /// as renditions of one film. `always`: all folders with at most `max_objects` files. `never`:
    /// none. Since 0.2.0.
    #[serde(with = "text")]
    pub folders: FolderTitles,
}

/// Files of text beside the media.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextConfig {
    /// If true, files of text beside a single media file are tracks of its title, such as
    /// `film.eng.srt` beside `film.mp4`. The folder of the file is then listed whenever the title
    /// is loaded or compared with storage. Nodes behind the same URLs need the same value. Since
    /// 0.2.0.
    pub beside: bool,
}

/// Folders whose media files are listed as one title.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FolderTitles {
    /// Those whose files are named as renditions of one film: written `by-name`.
    #[default]
    ByName,
    /// All folders with media files: written `always`.
    Always,
    /// None: written `never`.
    Never,
}

impl FromStr for FolderTitles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "by-name" => Ok(Self::ByName),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(format!("'{text}' is neither by-name nor always nor never")),
        }
    }
}

impl fmt::Display for FolderTitles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByName => "by-name",
            Self::Always => "always",
            Self::Never => "never",
        })
    }
}

/// Reading and writing indexes of media files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IndexConfig {
    /// Number of bytes of the first read of an object whose size is unknown.
    #[serde(with = "ByteSize")]
    pub head: u64,
    /// Number of bytes read from the end of an object if its head shows that the index may be
    /// there.
    #[serde(skip)]
    pub tail: u64,
    /// Most bytes first read from each end of an object whose size is known from the listing of its
    /// folder. Within this limit, a sixty-fourth of the object is read, but no less than `head`
    /// from its start and 64 KiB from its end.
    #[serde(with = "ByteSize")]
    pub ahead: u64,
    /// Most bytes of `moov`, of all `sidx` together, and of all `moof` that a scan reads. Files
    /// with more are refused. A larger `mfra` is not used: the file is scanned.
    #[serde(with = "ByteSize")]
    pub max_index: u64,
    /// If true, index MP4s are written beside media that has none, into the storage that is served.
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

/// Memory for the caches other than the range cache, and for work in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Memory for the packed indexes of objects and titles. An eighth of it is for titles whose
    /// indexes have left memory.
    #[serde(with = "ByteSize")]
    pub index: u64,
    /// Memory for the sample tables of fragments whose `moof` was read along with their media.
    #[serde(with = "ByteSize")]
    pub fragments: u64,
    /// Memory for the places of slices in encrypted video: some 6 bytes a frame. Since 0.2.0.
    #[serde(with = "ByteSize")]
    pub cuts: u64,
    /// Memory for manifests, plain and compressed.
    #[serde(with = "ByteSize")]
    pub manifests: u64,
    /// Memory for finished segments, as they were sent. 0 keeps none. If there is a range cache,
    /// this saves only the work of packaging, which pays off for TS segments that are requested
    /// very often.
    #[serde(with = "ByteSize")]
    pub segments: u64,
    /// Most memory for the work on titles that is done at one time: reading and parsing indexes,
    /// and making titles and manifests. Titles that wait for such work may take as much again.
    #[serde(with = "ByteSize")]
    pub loading: u64,
    /// Memory for responses on their way to clients: plans, frames that clients have not taken yet,
    /// and source bytes that arrived before their turn. Responses for which there is no room get
    /// status 503. A slow client takes some 64 KiB for each response, a fast one up to 2 MiB.
    /// Since 0.2.0.
    #[serde(with = "ByteSize")]
    pub responses: u64,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            index: 512 << 20,
            fragments: 64 << 20,
            cuts: 64 << 20,
            manifests: 64 << 20,
            segments: 0,
            loading: 512 << 20,
            responses: 512 << 20,
        }
    }
}
