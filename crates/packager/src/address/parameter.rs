//! Names of the parameters that URLs carry.

/// Name of the parameter that holds a filter.
pub(crate) const FILTER: &str = "filter";
/// Name of the parameter that holds a clip's start, in seconds with decimals.
pub(crate) const BEGIN: &str = "vbegin";
/// Name of the parameter that holds a clip's end, in seconds with decimals.
pub(crate) const END: &str = "vend";
/// Name of the parameter that holds the shortest length of HLS segments, in seconds with decimals.
pub const MINIMUM_SEGMENT: &str = "hls_minimum_fragment_length";

/// Name of the parameter that holds the order of samples in a media segment.
pub(super) const ORDER: &str = "order";

/// Name of the parameter that holds the form of text in DASH.
pub(super) const TEXT: &str = "text";

/// Folder of nginx-vod-module's form that precedes a clip's start, in milliseconds.
pub(super) const CLIP_FROM: &str = "clipFrom";
/// Folder of nginx-vod-module's form that precedes a clip's end, in milliseconds.
pub(super) const CLIP_TO: &str = "clipTo";
