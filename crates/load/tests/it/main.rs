//! Players against servers that behave and servers that do not, and reports of what they measured.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod misbehaviour;
mod playing;
mod reporting;
mod timelines;
