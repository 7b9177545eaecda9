//! The index of a title: where every sample lies and where segments begin. It holds no media bytes
//! and does no I/O.
//!
//! ```text
//! bytes of moov, sidx, mfra ──► Locator ──► MediaIndex (one object)
//!                                               └──► Title (several objects, one grid)
//! ```
//!
//! - [`locate`]: requests bytes of an object until its index is complete
//! - [`table`]: sample tables and fragment tables, packed into columns
//! - [`media`]: [`MediaIndex`], the packed index of one object, and its tracks
//! - [`grid`]: the boundaries of segments, the same for all protocols and renditions
//! - [`title`]: several objects as one presentation, and clips of it
//! - [`persist`]: indexes on disk and index MP4s
//! - [`error`]: the errors of indexing an object and of making a title
//!
//! A folder uses only folders above it in this order: error, table, media, then locate and grid,
//! then title and persist.

pub mod error;
pub mod grid;
pub mod locate;
pub mod media;
pub mod persist;
pub mod table;
pub mod title;

pub use error::IndexError;
pub use media::{MediaIndex, Track};
pub use table::column::unpacked::UnpackedValues;
pub use table::samples::Sample;
pub use title::Title;
