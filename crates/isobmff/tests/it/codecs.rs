//! Every sample entry of the shared media: codec strings against a table that was read from the
//! boxes by hand, and the other values against ffprobe. Tests are skipped, with a message, without
//! media or ffprobe.

use crate::sample::{media, media_folder};
use latemux_isobmff::FourCc;
use latemux_isobmff::boxes::stsd::SampleEntry;
use latemux_isobmff::codec::{Codec, Config, Media, VideoRange, describe};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Returns the boxes of a payload: type, whole box, and payload. This walk is independent of the
/// crate under test.
fn boxes(bytes: &[u8]) -> Vec<([u8; 4], &[u8], &[u8])> {
    let mut found = Vec::new();
    let mut rest = bytes;
    while rest.len() >= 8 {
        let mut size = u64::from(u32::from_be_bytes(rest[..4].try_into().unwrap()));
        let mut header = 8;
        if size == 1 && rest.len() >= 16 {
            size = u64::from_be_bytes(rest[8..16].try_into().unwrap());
            header = 16;
        } else if size == 0 {
            size = rest.len() as u64;
        }
        let Some(whole) =
            usize::try_from(size).ok().filter(|&size| size >= header).and_then(|size| rest.get(..size))
        else {
            break;
        };
        found.push((rest[4..8].try_into().unwrap(), whole, &whole[header..]));
        rest = &rest[whole.len()..];
    }
    found
}

fn inside<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> Vec<&'a [u8]> {
    boxes(bytes).into_iter().filter(|found| found.0 == *kind).map(|found| found.2).collect()
}

/// Returns handler and first sample entry of every track.
fn tracks(file: &[u8]) -> Vec<(FourCc, SampleEntry)> {
    let mut found = Vec::new();
    for trak in inside(file, b"moov").into_iter().flat_map(|moov| inside(moov, b"trak")) {
        let mdia = inside(trak, b"mdia")[0];
        let handler = FourCc(inside(mdia, b"hdlr")[0][8..12].try_into().unwrap());
        let stbl = inside(inside(mdia, b"minf")[0], b"stbl")[0];
        let (format, raw, body) = boxes(&inside(stbl, b"stsd")[0][8..])[0];
        let data_reference_index = u16::from_be_bytes(body[6..8].try_into().unwrap());
        found.push((
            handler,
            SampleEntry { format: FourCc(format), data_reference_index, raw: raw.to_vec().into() },
        ));
    }
    found
}

/// Returns the media files that [`NAMES`] lists.
fn files() -> impl Iterator<Item = (String, bytes::Bytes)> {
    media().into_iter().filter(|(name, _)| NAMES.iter().any(|(listed, _)| listed == name))
}

/// Codec strings of every track in order, read from the configuration records by hand.
const NAMES: [(&str, &[&str]); 55] = [
    ("androidx/bbb_176x144_128kbps_15fps_h263.3gp", &["s263"]),
    ("androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4", &["avc1.64001f"]),
    ("androidx/bbb_800x640_768kbps_30fps_vp9.mp4", &["vp09.00.30.08.00.02.02.02.00"]),
    ("androidx/bt601.mp4", &["avc1.42c00d", "mp4a.40.2"]),
    ("androidx/edit_list_positive_shift.mp4", &["avc1.42c028", "mp4a.40.2"]),
    ("androidx/emsg1.mp4", &["avc1.f4001e"]),
    ("androidx/fragmented_captions_h265.mp4", &["hev1.1.6.L60.90"]),
    ("androidx/h265_bframes.mp4", &["hev1.1.6.L90.90"]),
    ("androidx/hdr10-av1.mp4", &["av01.0.31M.10.0.110.09.16.09.0", "mp4a.40.2"]),
    ("androidx/long_edit_list_audioonly.mp4", &["mp4a.40.2"]),
    ("androidx/sample.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_2_byte_NAL_length.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_ac3.mp4", &["ac-3"]),
    ("androidx/sample_ac3_aac.mp4", &["ac-3", "mp4a.40.2"]),
    ("androidx/sample_ac4.mp4", &["ac-4.02.02.00"]),
    ("androidx/sample_alac.mp4", &["alac"]),
    ("androidx/sample_av1.mp4", &["av01.0.05M.08", "mp4a.40.2"]),
    ("androidx/sample_dthd.mp4", &["mlpa"]),
    ("androidx/sample_dts_hd_ma.mp4", &["mp4a.A9"]),
    ("androidx/sample_eac3_fragmented.mp4", &["ec-3"]),
    ("androidx/sample_eac3joc.mp4", &["ec-3"]),
    ("androidx/sample_empty_track.mp4", &["avc1.640034", "avc1.640034", "mp4a.40.2"]),
    ("androidx/sample_fpcm_32be.mp4", &["fpcm"]),
    ("androidx/sample_fragmented.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_fragmented_seekable.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_fragmented_seekable_multiple_sidx.mp4", &["avc1.640028"]),
    ("androidx/sample_fragmented_widevine.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_ipcm_16be.mp4", &["avc1.64001f", "ipcm"]),
    ("androidx/sample_mdat_too_long.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_mhm1_bl_cicp1.mp4", &["mhm1.0x10"]),
    ("androidx/sample_mp2_audio.mp4", &["mp4a.6B"]),
    ("androidx/sample_opus.mp4", &["Opus"]),
    ("androidx/sample_opus_fragmented.mp4", &["Opus"]),
    ("androidx/sample_portrait.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_twos_pcm.mp4", &["avc1.64001f", "twos"]),
    ("androidx/sample_unsupported_brands.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_vvc.mp4", &["vvc1.1.L32"]),
    ("androidx/sample_with_btrt.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_with_invalid_nalu.mp4", &["avc1.64001f"]),
    ("androidx/sample_with_metadata.mp4", &["avc1.64001f", "mp4a.40.2"]),
    ("androidx/sample_with_vobsub.mp4", &["avc1.640034", "ac-3", "mp4s"]),
    ("androidx/ttml-in-mp4.mp4", &["stpp"]),
    ("androidx/webvtt-in-mp4.mp4", &["wvtt"]),
    ("mp4ff/bbb5s_aac.isma", &["mp4a.40.2"]),
    ("mp4ff/bbb_prog_10s.mp4", &["avc1.64000d", "mp4a.40.2"]),
    ("mp4ff/cbcs_audio.mp4", &["mp4a.40.2"]),
    ("mp4ff/cbcsdec.mp4", &["avc1.64001f", "c608"]),
    ("mp4ff/ed_hevc.mp4", &["hvc1.1.6.L120.90", "mp4a.40.2"]),
    ("mp4ff/iamf.mp4", &["iamf.001.001.Opus"]),
    ("mp4ff/main_1.mp4", &["avc1.64001f", "c608"]),
    ("mp4ff/piff_video.mp4", &["avc1.640015"]),
    ("mp4ff/prog_8s.mp4", &["mp4a.40.2", "avc1.64001e"]),
    ("mp4ff/prog_8s_enc_dashinit.mp4", &["avc1.64001e", "mp4a.40.2"]),
    ("mp4ff/stpp_combined.mp4", &["stpp"]),
    ("mp4ff/v300_multiple_segments.mp4", &["avc1.64001e"]),
];

/// Protected tracks: file, index of the track, scheme. All others are not protected.
const PROTECTED: [(&str, usize, [u8; 4]); 5] = [
    ("androidx/sample_fragmented_widevine.mp4", 0, *b"cenc"),
    ("mp4ff/cbcs_audio.mp4", 0, *b"cbcs"),
    ("mp4ff/piff_video.mp4", 0, *b"cenc"),
    ("mp4ff/prog_8s_enc_dashinit.mp4", 0, *b"cenc"),
    ("mp4ff/prog_8s_enc_dashinit.mp4", 1, *b"cenc"),
];

#[test]
fn codec_strings_match_those_read_by_hand() {
    if media_folder().is_none() {
        return;
    }
    let mut checked = 0;
    for (name, bytes) in files() {
        let codecs: Vec<Codec> =
            tracks(&bytes).iter().map(|(handler, entry)| describe(entry, *handler).expect(&name)).collect();
        let found: Vec<&str> = codecs.iter().map(|codec| codec.rfc6381.as_str()).collect();
        let listed = NAMES.iter().find(|(listed, _)| *listed == name);
        assert_eq!(Some(found.as_slice()), listed.map(|(_, codecs)| *codecs), "{name}");
        for (track, codec) in codecs.iter().enumerate() {
            let expected = PROTECTED.iter().find(|(file, of, _)| (*file, *of) == (name.as_str(), track));
            assert_eq!(
                codec.protection,
                expected.map(|(_, _, scheme)| FourCc(*scheme)),
                "{name} track {track}"
            );
            if let Config::Avc(avc) = &codec.config {
                let length = if name == "androidx/sample_2_byte_NAL_length.mp4" { 2 } else { 4 };
                assert_eq!((avc.nal_length_size, avc.sps.len(), avc.pps.len()), (length, 1, 1), "{name}");
            }
            if let Media::Audio(audio) = &codec.media {
                let expected = (name == "androidx/sample_eac3joc.mp4").then_some(16);
                assert_eq!(audio.joc, expected, "{name} track {track}");
            }
            if let Media::Video(video) = &codec.media {
                let expected =
                    if name == "androidx/hdr10-av1.mp4" { VideoRange::Pq } else { VideoRange::Sdr };
                assert_eq!((video.range, &video.supplemental), (expected, &None), "{name} track {track}");
            }
        }
        checked += codecs.len();
    }
    println!("{checked} sample entries");
    assert!(checked >= NAMES.iter().map(|(_, tracks)| tracks.len()).sum(), "files of the table are absent");
}

/// Returns the streams that ffprobe finds in a file; `None` if it cannot open the file.
fn probe(file: &Path) -> Option<Vec<Value>> {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-show_streams", "-of", "json"])
        .arg(file)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let report: Value = serde_json::from_slice(&output.stdout).ok()?;
    report["streams"].as_array().cloned()
}

/// Returns ffprobe's names of a codec; none if some version of ffprobe does not know it.
fn families(codec: &Codec) -> &'static [&'static str] {
    match &codec.config {
        Config::Avc(_) => &["h264"],
        Config::Hevc(_) => &["hevc"],
        Config::Av1(_) => &["av1"],
        Config::Vp9 => &["vp9"],
        Config::Aac(_) => &["aac"],
        // Only the frames state the layer.
        Config::Mp3 => &["mp3", "mp2"],
        Config::Ac3 => &["ac3"],
        Config::Eac3 => &["eac3"],
        Config::Opus => &["opus"],
        Config::Flac => &["flac"],
        Config::Dts => &["dts"],
        Config::Other => match &codec.format.0 {
            b"s263" => &["h263"],
            b"alac" => &["alac"],
            b"mlpa" => &["truehd"],
            b"ipcm" | b"twos" => &["pcm_s16be"],
            b"mhm1" => &["mpegh_3d_audio"],
            b"mp4s" => &["dvd_subtitle"],
            b"c608" => &["eia_608"],
            _ => &[],
        },
        _ => &[],
    }
}

/// Fields that differ from ffprobe's, with the reason.
const EXCEPTIONS: [(&str, &str); 3] = [
    // TrueHD: the entry states 2, the frames have 8.
    ("androidx/sample_dthd.mp4", "channels"),
    // MPEG-H: ffprobe does not read `mhaC`.
    ("androidx/sample_mhm1_bl_cicp1.mp4", "channels"),
    // IAMF: the entry states no rate, and its codec configurations are not parsed.
    ("mp4ff/iamf.mp4", "sample_rate"),
];

/// Returns ffprobe's names of ISO/IEC 23091-2 code points, as far as the media have them.
fn code_point(field: &str, code: u8) -> &'static str {
    match (field, code) {
        (_, 1) => "bt709",
        (_, 2) => "",
        (_, 6) => "smpte170m",
        ("color_primaries", 9) => "bt2020",
        ("color_space", 9) => "bt2020nc",
        ("color_transfer", 16) => "smpte2084",
        _ => "another",
    }
}

/// Returns fields with our value and that of ffprobe.
fn fields(codec: &Codec, stream: &Value) -> Vec<(&'static str, String, String)> {
    let text = |field: &str| match &stream[field] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    };
    let mut fields = Vec::new();
    let mut compare = |field, ours: String| fields.push((field, ours, text(field)));
    match &codec.media {
        Media::Video(video) => {
            compare("width", video.width.to_string());
            compare("height", video.height.to_string());
            let (horizontal, vertical) = video.pixel_aspect;
            compare("sample_aspect_ratio", format!("{horizontal}:{vertical}"));
            let points = video.colour.map(|colour| (colour.primaries, colour.transfer, colour.matrix));
            let points = points.map_or([None; 3], |(p, t, m)| [Some(p), Some(t), Some(m)]);
            for (field, point) in ["color_primaries", "color_transfer", "color_space"].into_iter().zip(points)
            {
                compare(field, point.map_or(String::new(), |point| code_point(field, point).to_owned()));
            }
        }
        Media::Audio(audio) => {
            compare("channels", audio.channels.to_string());
            compare("sample_rate", audio.sample_rate.to_string());
        }
        Media::Text => {}
    }
    // ffprobe leaves out an aspect ratio that is not stated, which counts as square.
    fields.retain(|(field, ours, theirs)| {
        !(*field == "sample_aspect_ratio" && ours == "1:1" && theirs.is_empty())
    });
    fields
}

#[test]
fn descriptions_match_those_of_ffprobe() {
    let Some(folder) = media_folder() else { return };
    if Command::new("ffprobe").arg("-version").output().is_err() {
        println!("skipped 1: no ffprobe");
        return;
    }
    let mut compared = 0;
    let mut unopened = Vec::new();
    for (name, bytes) in files() {
        let tracks = tracks(&bytes);
        let Some(streams) = probe(&folder.join(&name)) else {
            unopened.push(name);
            continue;
        };
        assert_eq!(streams.len(), tracks.len(), "{name}");
        for ((handler, entry), stream) in tracks.iter().zip(&streams) {
            let codec = describe(entry, *handler).expect(&name);
            let family = families(&codec);
            assert!(
                family.is_empty() || family.iter().any(|family| stream["codec_name"] == *family),
                "{name}: {stream}"
            );
            for (field, ours, theirs) in fields(&codec, stream) {
                let excepted = EXCEPTIONS.contains(&(name.as_str(), field));
                assert_eq!(ours == theirs, !excepted, "{name} {field}: {ours}, by ffprobe {theirs}");
            }
            compared += 1;
        }
    }
    println!("{compared} sample entries compared; ffprobe cannot open {unopened:?}");
    assert!(compared >= 75);
    assert!(unopened.len() <= 2, "{unopened:?}");
}

/// If the sample entry states no size, the parameter sets alone give the same size.
#[test]
fn parameter_sets_give_the_size_of_the_entry() {
    if media_folder().is_none() {
        return;
    }
    let mut compared = 0;
    for (name, bytes) in files() {
        for (handler, mut entry) in tracks(&bytes) {
            let Codec { config: Config::Avc(_) | Config::Hevc(_), media: Media::Video(stated), .. } =
                describe(&entry, handler).expect(&name)
            else {
                continue;
            };
            let mut raw = entry.raw.to_vec();
            // Width and height of a VisualSampleEntry.
            raw[32..36].fill(0);
            entry.raw = raw.into();
            let Media::Video(coded) = describe(&entry, handler).expect(&name).media else { panic!("{name}") };
            assert_eq!((coded.width, coded.height), (stated.width, stated.height), "{name}");
            compared += 1;
        }
    }
    println!("{compared} parameter sets");
    assert!(compared >= 30);
}
