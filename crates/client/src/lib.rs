//! A client of any HLS, DASH, Smooth Streaming or HDS server. It reads manifests as players do,
//! fetches the resources that they name, checks each body, and measures each request.
//!
//! This crate shares no code with the packager that writes manifests and segments. Its readers are
//! third-party crates, or were written from the standards alone, so that a mistake of the packager
//! is detected.
//!
//! - [`http`]: an HTTP client that measures each request
//! - [`manifest`]: readers for the manifests of all four protocols
//! - [`presentation`]: the content of a manifest: renditions, and the address of each segment
//! - [`check`]: validation of bodies while they arrive
//! - [`failure`]: the reasons for which a request can fail
//! - [`ts`], [`flv`], [`packed_audio`]: the structure of segments that are not ISO base media

pub mod check;
pub mod failure;
pub mod flv;
pub mod http;
pub mod manifest;
mod manifest_error;
pub mod packed_audio;
pub mod presentation;
pub mod ts;
