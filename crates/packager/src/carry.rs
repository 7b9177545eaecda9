//! Which protocol carries which codec. What a protocol cannot carry is left out of its manifest, with the reason in the log
//! and in `inspect`; it is never sent broken.
//!
//! | | DASH | HLS CMAF | HLS TS | why |
//! |---|---|---|---|---|
//! | AVC | ✓ | ✓ | ✓ | with NAL lengths of 1 or 2 bytes, a TS segment is read before the answer starts |
//! | HEVC | ✓ | ✓ | – | Apple's authoring specification 1.5: HEVC shall be in fMP4 |
//! | AV1, VP9 | ✓ | ✓ | – | no TS mapping in HLS; hls.js and Shaka play VP9 in CMAF, though Apple lists none |
//! | AAC | ✓ | ✓ | what ADTS can say | ISO/IEC 14496-3 §1.A.2: profiles 1–4, 13 rates, frames of 1024 |
//! | MP3, AC-3, E-AC-3 | ✓ | ✓ | ✓ | |
//! | AC-4, DTS, Opus, FLAC | ✓ | ✓ | – | in fMP4 each has a binding and a CODECS name, in HLS TS none |
//! | `wvtt`, `stpp` | ✓ | ✓ | – | HLS carries timed text beside TS, not in it |

use latemux_index::Track;
use latemux_isobmff::codec::{Aac, Config};

/// A protocol and container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// MPEG-DASH with CMAF segments.
    Dash,
    /// HLS with CMAF segments.
    HlsCmaf,
    /// HLS with MPEG-2 TS segments.
    HlsTs,
}

impl Protocol {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dash => "DASH",
            Self::HlsCmaf => "HLS CMAF",
            Self::HlsTs => "HLS TS",
        }
    }
}

/// `Err` says why a protocol cannot carry a track, for people.
///
/// # Errors
/// The reason, e.g. "HLS TS has no mapping for av01".
pub fn carries(protocol: Protocol, track: &Track) -> Result<(), String> {
    let codec = &track.codec;
    if let Some(scheme) = codec.protection {
        return Err(format!("{} is encrypted ({scheme})", codec.format));
    }
    match (protocol, &codec.config) {
        (
            Protocol::Dash | Protocol::HlsCmaf,
            Config::Avc(_)
            | Config::Hevc(_)
            | Config::Av1
            | Config::Vp9
            | Config::Aac(_)
            | Config::Mp3
            | Config::Ac3
            | Config::Eac3
            | Config::Ac4
            | Config::Opus
            | Config::Flac
            | Config::Dts
            | Config::Wvtt
            | Config::Stpp,
        )
        | (Protocol::HlsTs, Config::Avc(_) | Config::Mp3 | Config::Ac3 | Config::Eac3) => Ok(()),
        (Protocol::HlsTs, Config::Aac(aac)) => in_adts(aac),
        (Protocol::HlsTs, Config::Wvtt | Config::Stpp) => {
            Err(format!("HLS TS carries no timed text ({})", codec.format))
        }
        (protocol, _) => Err(format!("{} has no mapping for {}", protocol.name(), codec.format)),
    }
}

/// Sampling frequencies ADTS has an index for, in Hz (ISO/IEC 14496-3 table 1.18).
const ADTS_RATES: [u32; 13] =
    [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350];

/// Whether an ADTS header can say what the configuration says (ISO/IEC 14496-3 §1.A.2.2): SBR and PS ride along implicitly.
fn in_adts(aac: &Aac) -> Result<(), String> {
    if !(1..=4).contains(&aac.core_object_type) {
        return Err(format!("ADTS cannot carry audio object type {}", aac.core_object_type));
    }
    if !ADTS_RATES.contains(&aac.core_sample_rate) {
        return Err(format!("ADTS has no index for {} Hz", aac.core_sample_rate));
    }
    if aac.channel_config > 7 {
        return Err(format!("ADTS cannot say channel configuration {}", aac.channel_config));
    }
    if aac.channel_config == 0 && !aac.program_config {
        return Err("the channels are neither in a configuration nor in a program config element".to_owned());
    }
    if aac.frame_length != 1024 {
        return Err(format!("ADTS implies frames of 1024 samples, these have {}", aac.frame_length));
    }
    Ok(())
}
