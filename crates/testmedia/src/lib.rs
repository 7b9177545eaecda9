//! Media for tests. Nothing here is part of the server.
//!
//! - [`recipe`]: files made with ffmpeg's test sources, once, and kept in the target folder
//! - [`rewrite`]: the same media in the box variants ffmpeg does not write
//! - [`probe`]: what ffprobe, who knows nothing of us, says is in a file

pub mod probe;
pub mod recipe;
pub mod rewrite;
