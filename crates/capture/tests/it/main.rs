//! Captures of streams that ffmpeg packaged, compared with their sources by ffprobe.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod capturing;
mod timelines;
