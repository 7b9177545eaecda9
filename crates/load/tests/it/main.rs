//! The crate from outside: manifests, and players against servers that behave and servers that do not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod capturing;
mod manifests;
mod misbehaviour;
mod playing;
mod reporting;
mod server;
mod several;
mod streams;
mod timelines;
