//! The `plan` stage of a request: from a URL and the index of a title to the exact bytes of a
//! response, known before a media byte is read.
//!
//! This crate is pure: no I/O, no clock, no randomness. The same title, grid and request give the
//! same bytes on every node.
//!
//! ```text
//! URL ──address──► Resource, Selection ──plan──► Plan { length, digest, parts }
//! ```
//!
//! - [`address`]: the grammars that print and parse URLs
//! - [`selection`]: the part of a title that a request selects: filter, clip, length of segments
//! - [`carry`]: the codecs that each protocol carries
//! - [`mod@plan`]: from a title and an address to a [`Plan`]
//! - [`protection`]: the encryption of a title: schemes and keys
//! - [`segment`]: CMAF, TS, Smooth Streaming and HDS segments, as inline bytes and source ranges
//! - [`manifest`]: DASH, HLS, Smooth Streaming and HDS manifests; server manifests
//! - [`sizes`]: exact segment sizes and bit rates for manifests
//! - [`pack`]: whole files of segments: CMAF track files and ismv
//! - [`mod@restore`]: playable files from segments that were cut off

pub mod address;
pub mod carry;
mod clear_lead;
mod digest;
pub mod error;
mod frame_rate;
pub mod manifest;
pub mod pack;
mod part;
mod peak;
pub mod plan;
pub mod protection;
pub mod restore;
pub mod segment;
pub mod selection;
pub mod sizes;
pub mod text_file;

pub use address::{Address, AddressError, Resource};
pub use error::PackError;
pub use plan::{Part, Plan, Planned, plan, plan_protected};
pub use protection::Protection;
