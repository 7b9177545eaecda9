//! Manifests as text, from the index alone.

pub mod dash;
pub mod hls;
