//! The crate from outside: manifests, and players against servers that behave and servers that do not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod manifests;
mod misbehaviour;
mod playing;
mod server;
mod streams;
