//! The client from outside: manifests of all protocols, and connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checks;
mod chunks;
mod connections;
mod manifests;
mod requests;
mod restored;
mod several;
