//! The public description of a track's codec.

use crate::FourCc;
use bytes::Bytes;

/// The codec of a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codec {
    /// Coding name; for an encrypted entry (`encv`, `enca`) the original one from `frma`.
    pub format: FourCc,
    /// Codec string (RFC 6381 and the codec's own ISOBMFF binding), e.g. `avc1.64001f`,
    /// `mp4a.40.2`, `hvc1.2.4.L120.90`.
    pub rfc6381: String,
    /// Protection scheme of `sinf/schm` (`cenc`, `cbcs`, …; PIFF as `piff`) if the entry is
    /// encrypted.
    pub protection: Option<FourCc>,
    /// Decoder configuration.
    pub config: Config,
    /// Media type, with the facts that manifests state.
    pub media: Media,
    /// Bit rates of `btrt`, else of the ES descriptor; zeros are left out.
    pub declared_bitrate: DeclaredBitrate,
}

/// Bit rates that a file declares, in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeclaredBitrate {
    /// Maximum over any second.
    pub max: Option<u32>,
    /// Average over the whole track.
    pub average: Option<u32>,
}

/// Media type of a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Media {
    /// Video.
    Video(Video),
    /// Audio.
    Audio(Audio),
    /// Timed text (`wvtt`, `stpp`, `tx3g`), or captions described as [`Config::Other`].
    Text,
}

/// Facts about video that manifests state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Video {
    /// Coded width in pixels after cropping, from the sample entry; from the codec's configuration
    /// if the entry states 0.
    pub width: u16,
    /// Coded height in pixels after cropping, from the same source.
    pub height: u16,
    /// Pixel aspect ratio, horizontal to vertical, in lowest terms: from `pasp`, else from the
    /// codec's configuration, else (1, 1).
    pub pixel_aspect: (u32, u32),
    /// Dynamic range (`VIDEO-RANGE` of HLS), from `colr`, else from the codec's configuration.
    pub range: VideoRange,
    /// Transfer, primaries and matrix (ISO/IEC 23091-2), if stated.
    pub colour: Option<Colour>,
    /// `SUPPLEMENTAL-CODECS` of HLS: Dolby Vision on a base layer that other decoders can play,
    /// e.g. `dvh1.08.07/db4h`.
    pub supplemental: Option<String>,
}

/// Colour description by code points of ISO/IEC 23091-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// ColourPrimaries.
    pub primaries: u8,
    /// TransferCharacteristics.
    pub transfer: u8,
    /// MatrixCoefficients.
    pub matrix: u8,
}

/// Dynamic range as named in HLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VideoRange {
    /// Standard.
    Sdr,
    /// Hybrid log-gamma (transfer 18). Transfer 14 with HLG signalled in SEI counts as SDR, unless
    /// Dolby Vision declares it HLG.
    Hlg,
    /// Perceptual quantiser (transfer 16).
    Pq,
}

/// Facts about audio that manifests state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audio {
    /// Number of channels as decoded (parametric stereo counts 2); 0 if unknown.
    pub channels: u16,
    /// Samples per second as decoded (SBR counts doubled).
    pub sample_rate: u32,
    /// Complexity index of E-AC-3 with Joint Object Coding (`CHANNELS="16/JOC"` in HLS).
    pub joc: Option<u8>,
}

/// Decoder configuration, as far as a protocol needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Config {
    /// AVC (ISO/IEC 14496-15 §5.3.3.1).
    Avc(Avc),
    /// Scalable AVC in the sample entries `svc1` and `svc2` (ISO/IEC 14496-15 §6).
    Svc(Svc),
    /// HEVC (ISO/IEC 14496-15 §8.3.3.1).
    Hevc(Hevc),
    /// AV1 (AV1-ISOBMFF §2.3).
    Av1(Av1),
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
    /// The DTS family (ETSI TS 102 114 Annex E).
    Dts,
    /// WebVTT (ISO/IEC 14496-30).
    Wvtt,
    /// TTML in XML (ISO/IEC 14496-30).
    Stpp,
    /// 3GPP timed text (3GPP TS 26.245). Its codec string is that of WebVTT, in which it is sent.
    Tx3g,
    /// JPEG pictures: `jpeg`, `mjpg`, or `mp4v` with object type 0x6C (ISO/IEC 14496-1 Table 5).
    Jpeg,
    /// A codec that no output protocol carries (PCM, ALAC, VVC, H.263, …).
    Other,
}

/// AVC decoder configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avc {
    /// Size in bytes of the length before each NAL unit: 1, 2 or 4.
    pub nal_length_size: u8,
    /// AVCProfileIndication, profile_compatibility, AVCLevelIndication.
    pub profile: [u8; 3],
    /// Sequence parameter sets, without start codes.
    pub sps: Box<[Bytes]>,
    /// Picture parameter sets.
    pub pps: Box<[Bytes]>,
    /// Sequence parameter set extensions.
    pub sps_ext: Box<[Bytes]>,
    /// True if the samples may have layers of SVC: the sample entry has `svcC` too.
    pub has_layers: bool,
}

/// Decoder configuration of scalable AVC without `avcC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Svc {
    /// Size in bytes of the length before each NAL unit: 1, 2 or 4.
    pub nal_length_size: u8,
    /// True if the track has the base layer: there is a sequence parameter set for it.
    pub has_base: bool,
}

/// HEVC decoder configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hevc {
    /// Size in bytes of the length before each NAL unit: 1, 2 or 4.
    pub nal_length_size: u8,
    /// Parameter sets and SEI of the configuration in order, without start codes.
    pub nal_units: Box<[Bytes]>,
}

/// AV1 decoder configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Av1 {
    /// OBUs of the configuration in order: a sequence header, and metadata of all samples.
    pub obus: Bytes,
}

/// MPEG-4 audio configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aac {
    /// AudioSpecificConfig of the ES descriptor.
    pub asc: Bytes,
    /// Object type of the core: 2 LC, 1 Main, 42 xHE, …
    pub core_object_type: u8,
    /// Signalled object type: 5 SBR, 29 PS, else the core's.
    pub object_type: u8,
    /// Sampling frequency of the core in Hz; for xHE-AAC that of its output.
    pub core_sample_rate: u32,
    /// channelConfiguration; 0 if a program config element states the channels.
    pub channel_config: u8,
    /// True if the configuration holds a program config element. ADTS with configuration 0 needs it
    /// in band.
    pub program_config: bool,
    /// Samples in a frame at [`core_sample_rate`](Self::core_sample_rate): 1024, 960, 2048, …
    pub frame_length: u16,
}
