//! URLs of the native form, printed and parsed by one grammar (parse ∘ print is the identity).
//!
//! A path is `BASE/REST`: the base names the title, the rest what is asked of it. Any basename before the
//! extension is accepted and ignored, as the servers people come from do.

use latemux_index::title::TrackName;

/// What a URL path asks of which title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The base, percent-decoded, without leading or trailing `/`: a media file, a folder, or a `.urlset` list.
    pub base: String,
    /// What is asked.
    pub resource: Resource,
}

/// What can be asked of a title.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// `/.mpd`
    DashManifest(DashTemplate),
    /// `/dash/NAME-REPID.dash`
    DashInit(TrackName),
    /// `/dash/NAME-REPID-TIME.dash`; presentation time in track ticks.
    DashSegmentAt(TrackName, u64),
    /// `/dash/NAME-REPID-NUMBER.m4s`; 1-based.
    DashSegment(TrackName, u32),
    /// `/.m3u8`
    HlsMultivariant(HlsContainer),
    /// `/NAME-REPID[-REPID].m3u8`
    HlsPlaylist(Vec<TrackName>, HlsContainer),
    /// `/NAME-REPID[-REPID]-N.ts`; 1-based. One track, or audio and video muxed.
    HlsTsSegment(Vec<TrackName>, u32),
    /// `/hls/NAME-REPID.m4s`
    HlsInit(TrackName),
    /// `/hls/NAME-REPID-N.m4s`; 1-based.
    HlsSegment(TrackName, u32),
    /// `/keyframes/NAME-REPID.m3u8`
    HlsIFramePlaylist(TrackName, HlsContainer),
    /// `/keyframes/NAME-REPID-N.ts`: the I-frame a segment starts with, alone; 1-based.
    HlsIFrameTs(TrackName, u32),
    /// `/keyframes/NAME-REPID-N.m4s`
    HlsIFrameCmaf(TrackName, u32),
}

/// How a DASH manifest addresses segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DashTemplate {
    /// `$Time$`
    #[default]
    Time,
    /// `$Number$` (query `mpd_segment_template=number`)
    Number,
}

/// How HLS segments are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HlsContainer {
    /// MPEG-2 TS where it carries the codecs, else CMAF.
    #[default]
    Auto,
    /// CMAF (query `hls_fmp4`).
    Cmaf,
}
