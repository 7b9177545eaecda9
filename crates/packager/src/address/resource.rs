//! The resources of a title.

use latemux_index::title::TrackName;
use std::fmt;

/// A resource that can be requested of a title.
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
    HlsInit(Vec<TrackName>),
    /// `/hls/NAME-REPID-lead.m4s`: the init segment of the clear lead of an encrypted track.
    HlsLeadInit(TrackName),
    /// `/hls/NAME-REPID-N.m4s`; 1-based.
    HlsSegment(Vec<TrackName>, u32),
    /// `/NAME-REPID-N.webvtt` beside TS, `/hls/NAME-REPID-N.webvtt` beside CMAF; 1-based. Text in
    /// WebVTT, whose times correspond to those of the container's segments.
    HlsText(TrackName, u32, HlsContainer),
    /// `/keyframes/NAME-REPID.m3u8`
    HlsIFramePlaylist(TrackName, HlsContainer),
    /// `/keyframes/NAME-REPID-N[-PLACE].ts`: one I-frame alone.
    HlsIFrameTs(TrackName, IFrameNumber),
    /// `/keyframes/NAME-REPID-N[-PLACE].m4s`
    HlsIFrameCmaf(TrackName, IFrameNumber),
    /// `/keyframes/NAME-REPID-N.dash`: one I-frame that lasts until the next one. I-frames are
    /// counted from 1 in the whole title.
    DashIFrame(TrackName, u32),
    /// `/images/NAME-REPID-N.jpg`: a sheet of thumbnails, 1-based.
    ThumbnailSheet(TrackName, u32),
    /// `/images/NAME-REPID.m3u8`
    ThumbnailPlaylist(TrackName),
    /// `/NAME-thumbs.vtt`: the tiles of the first thumbnails, with their times.
    Storyboard,
    /// `/Manifest`
    SmoothManifest,
    /// `/QualityLevels(BITRATE)/Fragments(STEM=TIME)`; start of the fragment in units of 100 ns.
    SmoothFragment(TrackName, u64),
    /// `/.f4m`
    HdsManifest,
    /// `/NAME-REPID[-REPID].abst`
    HdsBootstrap(Vec<TrackName>),
    /// `/NAME-REPID[-REPID]-Seg1-FragN`; 1-based. One track, or audio and video muxed.
    HdsFragment(Vec<TrackName>, u32),
}

/// The number of an I-frame in HLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IFrameNumber {
    /// Number of its segment in the whole title, 1-based.
    pub segment: u32,
    /// Its place among the I-frames of that segment, 1-based. URLs leave out the first place.
    pub place: u32,
}

impl IFrameNumber {
    /// Returns the number of the I-frame that a segment (1-based) starts with.
    pub const fn first_of(segment: u32) -> Self {
        Self { segment, place: 1 }
    }
}

impl fmt::Display for IFrameNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            0 | 1 => write!(f, "{}", self.segment),
            place => write!(f, "{}-{place}", self.segment),
        }
    }
}

/// The way a DASH manifest addresses segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DashTemplate {
    /// `$Time$`
    #[default]
    Time,
    /// `$Number$` (query `mpd_segment_template=number`)
    Number,
}

/// The container of HLS segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HlsContainer {
    /// MPEG-2 TS if it carries the codecs, else CMAF.
    #[default]
    Auto,
    /// CMAF (query `hls_fmp4`).
    Cmaf,
}

impl Resource {
    /// True for media segments of one track in ISO boxes: their samples can be ordered.
    pub(super) fn has_sample_order(&self) -> bool {
        match self {
            Self::DashSegmentAt(..) | Self::DashSegment(..) => true,
            Self::HlsSegment(tracks, _) => tracks.len() == 1,
            _ => false,
        }
    }

    /// True for resources of DASH that depend on the form of text.
    pub(super) fn has_text_form(&self) -> bool {
        matches!(
            self,
            Self::DashManifest(_) | Self::DashInit(_) | Self::DashSegmentAt(..) | Self::DashSegment(..)
        )
    }

    /// True for one I-frame alone.
    fn is_iframe(&self) -> bool {
        matches!(self, Self::HlsIFrameTs(..) | Self::HlsIFrameCmaf(..) | Self::DashIFrame(..))
    }

    /// True for media that is the same in clips.
    pub(crate) fn is_of_whole_title(&self) -> bool {
        self.is_iframe() || matches!(self, Self::ThumbnailSheet(..))
    }

    /// True for resources that are made from the index alone and list others.
    pub fn is_manifest(&self) -> bool {
        matches!(
            self,
            Self::DashManifest(_)
                | Self::HlsMultivariant(_)
                | Self::HlsPlaylist(..)
                | Self::HlsIFramePlaylist(..)
                | Self::ThumbnailPlaylist(_)
                | Self::Storyboard
                | Self::SmoothManifest
                | Self::HdsManifest
                | Self::HdsBootstrap(_)
        )
    }
}
