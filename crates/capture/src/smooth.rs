//! Tracks of Smooth Streaming, which has no init segments: what they would say is in the manifest ([MS-SSTR] 2.2.2.5).

use crate::{
    CaptureError,
    entry::{self, Entry},
    flv::aac,
    frames::{Coding, Sound},
    nal::{self, PictureCoding},
};
use latemux_client::presentation::StatedCoding;
use latemux_isobmff::codec::Media;

/// Bytes of a WAVEFORMATEXTENSIBLE between its WAVEFORMATEX and what a coding adds: samples, channel mask, sub-format.
const EXTENSIBLE: usize = 22;

/// The sample entry of a track.
pub(super) fn entry(stated: &StatedCoding) -> Result<Entry, CaptureError> {
    let made = match stated.four_cc.as_str() {
        "H264" | "AVC1" | "X264" | "DAVC" => picture(stated, PictureCoding::Avc, *b"avc1", *b"avcC"),
        "HVC1" => picture(stated, PictureCoding::Hevc, *b"hvc1", *b"hvcC"),
        "HEV1" | "HEVC" => picture(stated, PictureCoding::Hevc, *b"hev1", *b"hvcC"),
        "AACL" | "AACH" | "AAC" | "" if stated.sampling_rate > 0 => advanced_audio(stated),
        "EC-3" => enhanced_ac3(stated),
        "TTML" | "DFXP" => Some(entry::timed_text()),
        other => return Err(CaptureError::Unsupported(format!("Smooth Streaming with FourCC '{other}'"))),
    };
    let what = || format!("Smooth Streaming with {} whose CodecPrivateData cannot be read", stated.four_cc);
    made.ok_or_else(|| CaptureError::Unsupported(what()))
}

fn picture(stated: &StatedCoding, coding: PictureCoding, format: [u8; 4], kind: [u8; 4]) -> Option<Entry> {
    let sets: Vec<Vec<u8>> = nal::units(&stated.private_data).into_iter().map(<[u8]>::to_vec).collect();
    let record = coding.record(&sets)?;
    let size = Some(stated.size).filter(|(width, height)| *width > 0 && *height > 0);
    // The manifest says the most there is among renditions; the configuration what there is.
    entry::visual(format, kind, &record, None).or_else(|| entry::visual(format, kind, &record, size))
}

fn advanced_audio(stated: &StatedCoding) -> Option<Entry> {
    if !stated.private_data.is_empty() {
        return aac(&stated.private_data).map(|(entry, ..)| entry);
    }
    // A decoder is then expected to know: LC of that rate and those channels (ISO/IEC 14496-3 §1.6.2.1).
    let rate = match stated.sampling_rate {
        96_000 => 0,
        88_200 => 1,
        64_000 => 2,
        48_000 => 3,
        44_100 => 4,
        32_000 => 5,
        24_000 => 6,
        22_050 => 7,
        16_000 => 8,
        _ => return None,
    };
    let channels = u32::from(stated.channels.min(7));
    aac(&super::bits::Written::default().put(5, 2).put(4, rate).put(4, channels).put(3, 0).bytes())
        .map(|(entry, ..)| entry)
}

fn enhanced_ac3(stated: &StatedCoding) -> Option<Entry> {
    let record = stated.private_data.get(EXTENSIBLE..).filter(|record| record.len() >= 5)?;
    let sound = Sound {
        coding: Coding::Eac3(record.to_vec()),
        rate: stated.sampling_rate,
        channels: stated.channels.max(1),
    };
    let made = entry::sound(&sound);
    entry::described(&made).filter(|codec| matches!(codec.media, Media::Audio(_))).map(|_| made)
}
