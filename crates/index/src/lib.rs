//! Where every sample of a title lies and where its segments begin. Holds no media bytes, does no I/O.
//!
//! ```text
//! bytes of moov, sidx, mfra ──► locate ──► MediaIndex (one object) ──► Title (several objects, one grid)
//! ```
//!
//! - [`locate`]: says which bytes to read next until an object's index is complete
//! - [`media`]: [`MediaIndex`], the packed index of one object, and its tracks
//! - [`external`]: index MP4s: whose samples lie in another object
//! - [`index_file`]: writing one
//! - [`persist`]: indexes as bytes, to be kept on disk
//! - [`column`]: packed columns of numbers with O(log n) search
//! - [`samples`]: the sample table of a track: columns for timing, size, position, sync
//! - [`stretches`]: going through a whole table, column by column
//! - [`fragments`]: tracks whose samples are known only fragment by fragment
//! - [`presentation`]: edit lists: which samples play, and when
//! - [`grid`]: where segments begin, the same for all protocols and renditions
//! - [`title`]: several objects as one presentation

pub mod error;
pub mod grid;
pub mod locate;
pub mod media;
pub mod persist;
pub mod table;
pub mod title;

pub use error::IndexError;
pub use media::{MediaIndex, Track};
pub use table::samples::Sample;
pub use title::Title;
