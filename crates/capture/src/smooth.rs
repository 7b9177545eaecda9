//! Sample entries for Smooth Streaming. Its manifest states the coding that other protocols state
//! in an init segment ([MS-SSTR] 2.2.2.5).

use crate::{
    CaptureError,
    audio_frames::{AudioCoding, AudioFormat, aac_config},
    flv::aac,
    nal::{self, VideoCoding},
    sample_entry::{self, TrackEntry},
};
use latemux_client::{packed_audio::AAC_RATES, presentation::DeclaredCoding};
use latemux_isobmff::codec::Media;

/// Bytes of a WAVEFORMATEXTENSIBLE between its WAVEFORMATEX and the data of the coding: samples,
/// channel mask and sub-format.
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
        other => return Err(CaptureError::unsupported(format!("Smooth Streaming with FourCC '{other}'"))),
    };
    let what = || format!("Smooth Streaming with {} whose CodecPrivateData cannot be read", stated.four_cc);
    made.ok_or_else(|| CaptureError::unsupported(what()))
}

fn video(stated: &DeclaredCoding, coding: VideoCoding, format: [u8; 4], kind: [u8; 4]) -> Option<TrackEntry> {
    let sets: Vec<Vec<u8>> = nal::units(&stated.private_data).into_iter().map(<[u8]>::to_vec).collect();
    let record = coding.record(&sets)?;
    let size = Some(stated.size).filter(|(width, height)| *width > 0 && *height > 0);
    // The manifest may state the largest size of all renditions. The actual size is in the
    // parameter sets.
    sample_entry::video_entry(format, kind, &record, None)
        .or_else(|| sample_entry::video_entry(format, kind, &record, size))
}

fn advanced_audio(stated: &DeclaredCoding) -> Option<TrackEntry> {
    if !stated.private_data.is_empty() {
        return aac(&stated.private_data).map(|(entry, ..)| entry);
    }
    // Without private data, the coding is AAC LC with the stated sampling rate and channels.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(four_cc: &str, private_data: &[u8]) -> DeclaredCoding {
        DeclaredCoding {
            four_cc: four_cc.to_owned(),
            private_data: private_data.to_vec(),
            sampling_rate: 48_000,
            channels: 2,
            ..DeclaredCoding::default()
        }
    }

    fn codec(declared: &DeclaredCoding) -> Result<String, String> {
        let entry = entry(declared).map_err(|error| error.to_string())?;
        Ok(sample_entry::describe_entry(&entry).ok_or("no description")?.rfc6381)
    }

    /// Parameter sets of 320×180 in Constrained Baseline, by x264.
    const AVC: &[u8] = &[
        0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x0c, 0xda, 0x05, 0x06, 0x7e, 0x7c, 0x04, 0x40, 0, 0, 3, 0, 0x40, 0, 0,
        0x0c, 0x83, 0xc5, 0x0a, 0xa8, 0, 0, 0, 1, 0x68, 0xce, 0x0f, 0xc8,
    ];

    #[test]
    fn video_has_the_size_of_its_parameter_sets() {
        for four_cc in ["H264", "AVC1", "X264", "DAVC"] {
            let stated = DeclaredCoding { size: (1920, 1080), ..declared(four_cc, AVC) };
            assert_eq!(entry(&stated).unwrap().size, (320, 180), "{four_cc}");
            assert_eq!(codec(&stated).unwrap(), "avc1.42c00c");
        }
        let wrong = codec(&declared("H264", &AVC[..10])).unwrap_err();
        assert!(wrong.contains("H264 whose CodecPrivateData cannot be read"), "{wrong}");
    }

    #[test]
    fn aac_without_private_data_is_low_complexity() {
        for four_cc in ["AACL", "AAC", ""] {
            assert_eq!(codec(&declared(four_cc, &[])).unwrap(), "mp4a.40.2", "{four_cc}");
        }
        let with_data = entry(&declared("AACL", &[0x11, 0x90])).unwrap();
        assert_eq!(entry(&declared("AACL", &[])).unwrap(), with_data, "48 kHz, stereo");
        let slow = DeclaredCoding { sampling_rate: 12_000, ..declared("AACL", &[]) };
        assert_eq!(codec(&slow).unwrap(), "mp4a.40.2");
        let odd = DeclaredCoding { sampling_rate: 47_999, ..declared("AACL", &[]) };
        assert!(codec(&odd).is_err());
        let silent = DeclaredCoding { sampling_rate: 0, ..declared("", &[]) };
        assert_eq!(codec(&silent).unwrap_err(), "Smooth Streaming with FourCC '' cannot be captured");
    }

    #[test]
    fn enhanced_ac_3_is_described_after_the_extensible_format() {
        let record = [0x07, 0, 0x20, 0x0f, 0];
        let data = [&[0; EXTENSIBLE][..], &record].concat();
        assert_eq!(codec(&declared("EC-3", &data)).unwrap(), "ec-3");
        assert!(codec(&declared("EC-3", &data[..EXTENSIBLE + 4])).is_err(), "cut");
    }

    #[test]
    fn text_and_unknown_codings() {
        assert!(codec(&declared("TTML", &[])).unwrap().starts_with("stpp"));
        assert_eq!(
            codec(&declared("WVC1", &[])).unwrap_err(),
            "Smooth Streaming with FourCC 'WVC1' cannot be captured"
        );
    }
}
