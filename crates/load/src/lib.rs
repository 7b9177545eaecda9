//! Simulated players. They read manifests as players do, fetch what the manifests name, check what comes, and measure it.
//!
//! Nothing here knows how latemux writes manifests: the readers are other people's crates, or were written from the standards alone, so
//! that a mistake of the packager is seen. Any server of HLS, DASH, Smooth Streaming or HDS can be played.
//!
//! - [`manifest`]: manifests of all four protocols, read into one [`presentation`]
//! - [`presentation`]: what there is to play: renditions, and where each segment lies
//! - [`check`]: whether a body is what it should be
//! - [`failure`]: what can go wrong, by stable reasons
//! - [`capture`]: a stream as a client gets it, kept
//! - [`report`]: results for people
//! - [`usage`]: what this process takes of its machine, and what the machine does
//! - [`http`]: a client that measures
//! - [`player`]: one viewer
//! - [`run`]: many viewers, when each comes, and how it ends
//! - [`results`]: what was measured, which adds up exactly
//! - [`live`]: a page that shows a run while it lasts

pub mod capture;
pub mod check;
pub mod failure;
pub mod http;
pub mod live;
pub mod manifest;
pub mod player;
pub mod presentation;
pub mod report;
pub mod results;
pub mod run;
pub mod usage;
