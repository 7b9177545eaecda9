//! Sample entries and codec configuration: what a track is coded in, and its RFC 6381 name.

mod aac;
mod ac3;
mod ac4;
mod audio;
mod av1;
mod av1_sequence;
mod avc;
mod bits;
mod children;
mod colour;
mod dolby_vision;
mod dts;
mod esds;
mod flac;
mod hevc;
mod hevc_sps;
mod mp3;
mod opus;
mod other;
mod sample_entry;
mod sinf;
mod text;
mod usac;
mod video;
mod vp9;

#[cfg(test)]
mod aac_tests;
#[cfg(test)]
mod describe_tests;
#[cfg(test)]
mod parameter_sets_tests;
#[cfg(test)]
mod testing;

use crate::{Error, FourCc, boxes::stsd::SampleEntry};
use bytes::Bytes;

/// What a track is coded in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codec {
    /// The coding name; for an encrypted entry (`encv`, `enca`) the original one of `frma`.
    pub format: FourCc,
    /// `CODECS` value (RFC 6381 and the codec's own ISOBMFF binding), e.g. `avc1.64001f`, `mp4a.40.2`, `hvc1.2.4.L120.90`.
    pub rfc6381: String,
    /// Protection scheme of `sinf/schm` (`cenc`, `cbcs`, …, PIFF as `piff`) where the entry is encrypted.
    pub protection: Option<FourCc>,
    /// Decoder configuration.
    pub config: Config,
    /// What kind of media, with what manifests say of it.
    pub media: Media,
    /// Bit rates of `btrt`, or of the ES descriptor, in bits per second; zeros are left out.
    pub declared_bitrate: DeclaredBitrate,
}

/// Bit rates a file states of itself, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeclaredBitrate {
    /// Highest in any second.
    pub max: Option<u32>,
    /// Over the whole track.
    pub average: Option<u32>,
}

/// What kind of media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media {
    /// Video.
    Video(Video),
    /// Audio.
    Audio(Audio),
    /// Timed text (`wvtt`, `stpp`), or captions in a form that is [`Config::Other`].
    Text,
}

/// What manifests say of video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Video {
    /// Coded width in pixels, after cropping, as the sample entry states it; the codec's configuration where it says 0.
    pub width: u16,
    /// Coded height in pixels.
    pub height: u16,
    /// Pixel aspect ratio, horizontal : vertical, reduced: of `pasp`, else of the codec's configuration, else (1, 1).
    pub pixel_aspect: (u32, u32),
    /// Dynamic range (`VIDEO-RANGE` of HLS), from `colr nclx`, else the codec's configuration.
    pub range: VideoRange,
    /// Transfer, primaries and matrix (ISO/IEC 23091-2), where stated.
    pub colour: Option<Colour>,
    /// `SUPPLEMENTAL-CODECS`: Dolby Vision on a base layer another decoder can play, e.g. `dvh1.08.07/db4h`.
    pub supplemental: Option<String>,
}

/// Colour description (ISO/IEC 23091-2 code points).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// ColourPrimaries.
    pub primaries: u8,
    /// TransferCharacteristics.
    pub transfer: u8,
    /// MatrixCoefficients.
    pub matrix: u8,
}

/// Dynamic range as HLS names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VideoRange {
    /// Standard.
    Sdr,
    /// Hybrid log-gamma (transfer 18; 14 with HLG signalled by SEI counts as SDR, unless Dolby Vision says it is HLG).
    Hlg,
    /// Perceptual quantiser (transfer 16).
    Pq,
}

/// What manifests say of audio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audio {
    /// Channels as decoded (parametric stereo counts 2), 0 where unknown.
    pub channels: u16,
    /// Samples per second as decoded (SBR counts doubled).
    pub sample_rate: u32,
    /// E-AC-3 with Joint Object Coding: complexity index (`CHANNELS="16/JOC"`).
    pub joc: Option<u8>,
}

/// Decoder configuration, as far as a protocol needs to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Config {
    /// AVC (ISO/IEC 14496-15 §5.3.3.1).
    Avc(Avc),
    /// HEVC (ISO/IEC 14496-15 §8.3.3.1).
    Hevc(Hevc),
    /// AV1 (AV1-ISOBMFF §2.3).
    Av1,
    /// VP9 (vp-codec-iso-media-file-format).
    Vp9,
    /// MPEG-4 audio (ISO/IEC 14496-3 §1.6.2.1).
    Aac(Aac),
    /// MPEG-1/2 audio layer 3 (`mp4a.6B`, `mp4a.69`, or sample entry `.mp3`).
    Mp3,
    /// AC-3 (ETSI TS 102 366 Annex F).
    Ac3,
    /// E-AC-3.
    Eac3,
    /// AC-4 (ETSI TS 103 190-2 Annex E).
    Ac4,
    /// Opus.
    Opus,
    /// FLAC.
    Flac,
    /// DTS and its kin (ETSI TS 102 114 Annex E).
    Dts,
    /// WebVTT (ISO/IEC 14496-30).
    Wvtt,
    /// TTML in XML (ISO/IEC 14496-30).
    Stpp,
    /// Known to exist, not carried by any protocol here (PCM, ALAC, VVC, H.263, …).
    Other,
}

/// AVC decoder configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avc {
    /// `avc1`: parameter sets only in the configuration; `avc3`: also in band.
    pub in_band_parameters: bool,
    /// Bytes of the length before each NAL unit: 1, 2 or 4.
    pub nal_length_size: u8,
    /// AVCProfileIndication, profile_compatibility, AVCLevelIndication.
    pub profile: [u8; 3],
    /// Sequence parameter sets, without start codes.
    pub sps: Box<[Bytes]>,
    /// Picture parameter sets.
    pub pps: Box<[Bytes]>,
    /// Sequence parameter set extensions.
    pub sps_ext: Box<[Bytes]>,
}

/// HEVC decoder configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hevc {
    /// Bytes of the length before each NAL unit: 1, 2 or 4.
    pub nal_length_size: u8,
    /// Parameter sets and SEI of the configuration in order, each without start code.
    pub nal_units: Box<[Bytes]>,
}

/// MPEG-4 audio configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aac {
    /// AudioSpecificConfig as in the ES descriptor.
    pub asc: Bytes,
    /// Object type of the core: 2 LC, 1 Main, 42 xHE, …
    pub core_object_type: u8,
    /// Object type signalled: 5 SBR, 29 PS, else the core's.
    pub object_type: u8,
    /// Sampling frequency of the core in Hz; of xHE-AAC that of its output.
    pub core_sample_rate: u32,
    /// channelConfiguration; 0 where a program config element says.
    pub channel_config: u8,
    /// The program config element is in the configuration (needed in band for ADTS with configuration 0).
    pub program_config: bool,
    /// Samples in a frame at [`core_sample_rate`](Self::core_sample_rate): 1024, 960, 2048…
    pub frame_length: u16,
}

/// Reads a sample entry of a track with the given handler.
///
/// # Errors
/// [`Error::Missing`], [`Error::Truncated`] or [`Error::BadValue`] where the configuration record is not sound;
/// [`Error::Unsupported`] where the coding name is not known at all.
pub fn describe(entry: &SampleEntry, handler: FourCc) -> Result<Codec, Error> {
    let entry = sample_entry::SampleEntry::new(entry)?;
    let format = entry.format;
    // QuickTime calls both uncompressed pictures and unsigned 8-bit PCM `raw `: only the handler tells.
    let raw_sound = format == b"raw " && handler == b"soun";
    if video::is_video(format) && !raw_sound {
        video::describe(&entry)
    } else if audio::is_audio(format) {
        audio::describe(&entry)
    } else if text::is_text(format) {
        text::describe(&entry)
    } else {
        Err(entry.at.unsupported("coding name"))
    }
}

/// The payload of a box inside a sample entry of video or sound, as it stands in the file: a codec's configuration record such as
/// `avcC` or `dec3`. `None` where there is none.
#[must_use]
pub fn configuration_record(entry: &SampleEntry, kind: &[u8; 4]) -> Option<Bytes> {
    let entry = sample_entry::SampleEntry::new(entry).ok()?;
    let boxes = if video::is_video(entry.format) { entry.visual().ok()?.1 } else { entry.sound().ok()?.1 };
    boxes.first(kind).map(|record| record.body)
}
