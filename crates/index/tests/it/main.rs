//! The index crate against real files and independent oracles.

mod generated;
mod index_files;
mod locating;
mod oracle;
mod packets;
mod shared_media;
