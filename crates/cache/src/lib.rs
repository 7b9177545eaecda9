//! A storage that caches byte ranges of source objects, in memory and on disk, for all protocols.
//!
//! [`RangeCache`] is a [`Storage`](latemux_storage::Storage) around another one. It keeps *units*:
//! extents of one version of one object, cut where requests were cut, which never overlap. A
//! request is served from all units that lie in its range, no matter which request fetched them,
//! and only missing bytes are fetched. See `docs/caching.md` for details and reasons.
//!
//! ```
//! # use latemux_cache::{Cache, Config};
//! # use latemux_storage::{Key, Memory, ReadRequest, Storage};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = Memory::new();
//! let key = Key::new("film.mp4").ok_or("no key")?;
//! let version = source.put(key.clone(), vec![7; 100_000]);
//!
//! let cache = Cache::open(Config { memory: 1 << 20, ..Config::default() })?;
//! let storage = cache.around(Arc::new(source), "films");
//! for _ in 0..2 {
//!     let read = storage.read(ReadRequest::range(&key, 5_000..60_000).pinned(&version)).await?;
//!     latemux_storage::conformance::collect(read).await?;
//! }
//! assert_eq!(cache.figures().storage_requests, 1);
//! # Ok(())
//! # }
//! ```

mod cache;
mod config;
mod counters;
mod disk;
mod fetch;
mod memory;
mod range_cache;
pub mod records;
pub mod segments;
mod store;

pub use cache::Cache;
pub use config::{Config, DiskConfig};
pub use counters::CacheFigures;
pub use disk::device::OpenError;
#[cfg(any(test, feature = "testing"))]
pub use disk::failing::DiskFaults;
pub use latemux_storage::{Outcome, ReadObserver, Tier};
pub use range_cache::RangeCache;
pub use records::Records;
pub use segments::SegmentCache;
