//! Simulated players. They read manifests as players do, fetch what the manifests name, check what comes, and measure it.
//!
//! Nothing here knows how latemux writes manifests: the readers are other people's crates, or were written from the standards alone, so
//! that a mistake of the packager is seen. Any server of HLS, DASH, Smooth Streaming or HDS can be played.
//!
//! - [`manifest`]: manifests of all four protocols, read into one [`presentation`]
//! - [`presentation`]: what there is to play: renditions, and where each segment lies

pub mod manifest;
pub mod presentation;
