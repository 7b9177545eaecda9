//! Sample entries for Smooth Streaming, whose manifest states what other protocols have in an init
//! segment ([MS-SSTR] 2.2.2.5).

use crate::{
    CaptureError,
    audio_frames::{AudioCoding, AudioFormat, aac_config},
    flv::aac,
    nal::{self, VideoCoding},
    sample_entry::{self, TrackEntry},
};
use latemux_client::{packed_audio::AAC_RATES, presentation::DeclaredCoding};
use latemux_isobmff::codec::Media;

/// Bytes of a WAVEFORMATEXTENSIBLE between its WAVEFORMATEX and the data of the coding: samples, channel
/// mask and sub-format.
const EXTENSIBLE: usize = 22;

/// Returns the sample entry of a track.
pub(super) fn entry(stated: &DeclaredCoding) -> Result<TrackEntry, CaptureError> {
    let made = match stated.four_cc.as_str() {
        "H264" | "AVC1" | "X264" | "DAVC" => video(stated, VideoCoding::Avc, *b"avc1", *b"avcC"),
        "HVC1" => video(stated, VideoCoding::Hevc, *b"hvc1", *b"hvcC"),
        "HEV1" | "HEVC" => video(stated, VideoCoding::Hevc, *b"hev1", *b"hvcC"),
        "AACL" | "AACH" | "AAC" | "" if stated.sampling_rate > 0 => advanced_audio(stated),
        "EC-3" => enhanced_ac3(stated),
        "TTML" | "DFXP" => Some(sample_entry::ttml_entry()),
        other => return Err(CaptureError::Unsupported(format!("Smooth Streaming with FourCC '{other}'"))),
    };
    let what = || format!("Smooth Streaming with {} whose CodecPrivateData cannot be read", stated.four_cc);
    made.ok_or_else(|| CaptureError::Unsupported(what()))
}

fn video(stated: &DeclaredCoding, coding: VideoCoding, format: [u8; 4], kind: [u8; 4]) -> Option<TrackEntry> {
    let sets: Vec<Vec<u8>> = nal::units(&stated.private_data).into_iter().map(<[u8]>::to_vec).collect();
    let record = coding.record(&sets)?;
    let size = Some(stated.size).filter(|(width, height)| *width > 0 && *height > 0);
    // The manifest may state the largest size of all renditions. The configuration has the actual one.
    sample_entry::video_entry(format, kind, &record, None)
        .or_else(|| sample_entry::video_entry(format, kind, &record, size))
}

fn advanced_audio(stated: &DeclaredCoding) -> Option<TrackEntry> {
    if !stated.private_data.is_empty() {
        return aac(&stated.private_data).map(|(entry, ..)| entry);
    }
    // Without private data the coding is AAC LC of that rate and those channels.
    let rate = AAC_RATES.iter().position(|rate| *rate == stated.sampling_rate)?;
    let channels = u32::from(stated.channels.min(7));
    aac(&aac_config(2, u32::try_from(rate).ok()?, channels)).map(|(entry, ..)| entry)
}

fn enhanced_ac3(stated: &DeclaredCoding) -> Option<TrackEntry> {
    let record = stated.private_data.get(EXTENSIBLE..).filter(|record| record.len() >= 5)?;
    let format = AudioFormat {
        coding: AudioCoding::Eac3(record.to_vec()),
        rate: stated.sampling_rate,
        channels: stated.channels.max(1),
    };
    let made = sample_entry::audio_entry(&format);
    sample_entry::describe_entry(&made).filter(|codec| matches!(codec.media, Media::Audio(_))).map(|_| made)
}
