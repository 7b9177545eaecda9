//! The packager from outside: files in, manifests and segments out, judged by tools that are not ours.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod carry;
mod clip;
mod cmaf;
mod dash;
mod fmp4;
mod hds;
mod hls;
mod matrix;
mod media;
mod moved;
mod oracles;
mod origin;
mod pack;
mod player;
mod selection;
mod smooth;
mod smooth_init;
mod ts;
