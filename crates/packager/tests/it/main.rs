//! Tests from outside the crate: files in, manifests and segments out, checked by independent
//! tools.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod carry;
mod clip;
mod cmaf;
mod dash;
mod default_audio;
mod delays;
mod edits;
mod fmp4;
mod hds;
mod hls;
mod just_indexed;
mod labels;
mod matrix;
mod media;
mod odd_options;
mod once_wrong;
mod oracles;
mod pack;
mod player;
mod priority;
mod quicktime;
mod rates;
mod scalable;
mod selection;
mod smooth;
mod smooth_init;
mod text;
mod thumbnails;
mod trick_play;
mod ts;
mod uneven;
