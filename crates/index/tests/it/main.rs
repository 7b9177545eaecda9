//! The index crate against real files and independent oracles.

mod generated;
mod locating;
mod oracle;
mod packets;
mod shared_media;
