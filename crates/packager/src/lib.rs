//! From a request and an index to a plan: the exact bytes of a manifest or segment, said before a media byte is read.
//!
//! Pure: no I/O, no clock, no randomness. The same title, grid and request give the same bytes on every node.
//!
//! ```text
//! URL ──address──► Resource ──plan──► Plan { length, ETag, parts } ──(origin reads)──► bytes
//! ```
//!
//! - [`address`]: the grammars that both print and parse URLs
//! - [`filter`]: which tracks of a title a request is about
//! - [`selected`]: what of a title a request is about
//! - [`carry`]: which protocol carries which codec, and why not
//! - [`mod@plan`]: request + title → [`Plan`]
//! - [`segment`]: CMAF, TS, Smooth Streaming and HDS segments: inline bytes and source ranges
//! - [`pack`]: whole files of such segments: CMAF track files and ismv
//! - [`sizes`]: exact segment sizes and bit rates for manifests
//! - [`manifest`]: DASH, HLS, Smooth Streaming and HDS manifests

pub mod address;
pub mod carry;
pub mod error;
pub mod filter;
pub mod manifest;
pub mod pack;
pub mod plan;
pub mod segment;
pub mod selected;
pub mod sizes;

pub use address::{Address, AddressError, Resource};
pub use error::PackError;
pub use plan::{Part, Plan, Planned, plan};
