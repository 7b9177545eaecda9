//! Segments in order of importance: cut off anywhere, they still play what arrived.
//!
//! ffmpeg decodes what is restored from each truncation at a sample edge. Each frame must equal the
//! frame of that time in the segment in decode order.

use crate::{
    media::{avc_aac, hevc, hevc_open, shared, signed, write},
    player::{BASE, fetch},
};
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_isobmff::{codec::Config, cursor::Cursor, fragment::Moof};
use latemux_packager::{address::Resource, restore::restore};
use latemux_testmedia::{origin::Origin, recipe};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

pub(crate) const TARGET: Duration = Duration::from_secs(2);
/// Number of files that one ffmpeg process decodes.
const AT_ONCE: usize = 24;

/// The hash of each frame by its presentation time since the first frame.
pub(crate) type Frames = BTreeMap<i64, String>;

/// Decodes the first video track. Returns its frames, and what ffmpeg reports as errors.
pub(crate) fn decode(name: &str, file: &[u8]) -> (Frames, String) {
    let (mut frames, problems) = decode_all(name, std::slice::from_ref(&file));
    (frames.remove(0), problems)
}

/// Decodes the first video track of each file. Returns the frames of each, and what ffmpeg reports
/// as errors in any of them. One process decodes many files, because most of the time of a short
/// file is that of starting ffmpeg.
///
/// ffmpeg moves the times of all frames by the lowest composition offset if that is negative.
pub(crate) fn decode_all<T: AsRef<[u8]>>(name: &str, files: &[T]) -> (Vec<Frames>, String) {
    let mut all = Vec::new();
    let mut problems = String::new();
    for files in files.chunks(AT_ONCE) {
        let paths: Vec<PathBuf> = (0..)
            .zip(files)
            .map(|(at, file): (u32, _)| write(&format!("{name}-{at}.mp4"), file.as_ref()))
            .collect();
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-v", "error", "-nostdin", "-copyts", "-y"]);
        for path in &paths {
            command.args(["-threads", "1", "-i"]).arg(path);
        }
        for (at, path) in paths.iter().enumerate() {
            command.args(["-map", &format!("{at}:v:0"), "-fps_mode", "passthrough"]);
            // MD5 would take longer than decoding.
            command.args(["-enc_time_base", "-1", "-f", "framehash", "-hash", "murmur3"]);
            command.arg(path.with_extension("hashes"));
        }
        let run = command.output().unwrap();
        problems += &String::from_utf8(run.stderr).unwrap();
        for path in paths {
            let hashes = path.with_extension("hashes");
            all.push(frames(&fs::read_to_string(&hashes).unwrap_or_default()));
            fs::remove_file(path).unwrap();
            fs::remove_file(hashes).ok();
        }
    }
    (all, problems)
}

/// Reads the output of the muxer `framehash`.
fn frames(text: &str) -> Frames {
    let frames = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        (fields[2].parse::<i64>().unwrap(), fields[5].to_owned())
    });
    let frames: BTreeMap<i64, String> = frames.collect();
    let first = frames.keys().next().copied().unwrap_or(0);
    frames.into_iter().map(|(time, hash)| (time - first, hash)).collect()
}

/// A segment of a video track.
pub(crate) struct Segment {
    pub(crate) init: Vec<u8>,
    /// Its bytes in decode order, and in order of importance.
    pub(crate) plain: Vec<u8>,
    pub(crate) prioritised: Vec<u8>,
}

/// A sample of a segment in order of importance.
#[derive(Debug, Clone)]
struct Placed {
    importance: u8,
    /// Its presentation time, counted from any moment.
    time: i64,
    bytes: std::ops::Range<usize>,
}

impl Segment {
    /// Fetches segment `number` of the first video track.
    pub(crate) fn fetch(origin: &mut Origin, number: u32) -> Self {
        let name = origin.names(TrackKind::Video).remove(0);
        let url = format!("{BASE}dash/x-{}={}-{number}.m4s", name.stem, name.bitrate);
        let plain = fetch(origin, &url).unwrap();
        let prioritised = fetch(origin, &format!("{url}?order=priority")).unwrap();
        assert_eq!(prioritised.content_length, prioritised.bytes.len() as u64);
        assert_eq!(plain.digest == prioritised.digest, plain.bytes == prioritised.bytes);
        let init = origin.get(&Resource::DashInit(name)).unwrap().bytes;
        Self { init, plain: plain.bytes, prioritised: prioritised.bytes }
    }

    /// Fetches the second segment of the first video track of a file, or the only one.
    fn of(file: &Path) -> Self {
        let mut origin = Origin::open(&[file], TARGET);
        let name = origin.names(TrackKind::Video).remove(0);
        let number = origin.segment_count(&name).min(2);
        Self::fetch(&mut origin, number)
    }

    /// Returns the samples in decode order, as the runs of the prioritised segment state them.
    fn samples(&self) -> Vec<Placed> {
        let bytes = Bytes::from(self.prioritised.clone());
        let found = Cursor::new(&bytes, 0).find(b"moof").unwrap();
        let moof = Moof::parse(&found.raw(), found.offset).unwrap();
        let start = usize::try_from(found.offset).unwrap();
        let mdat = Cursor::new(&bytes, 0).find(b"mdat").unwrap();
        // A segment whose samples are in order already states no importance.
        let is_same = self.prioritised == self.plain;
        let importance = |position: usize| if is_same { 0 } else { mdat.payload.peek()[position] };
        let mut samples = Vec::new();
        let mut time = 0_i64;
        for run in &moof.tracks[0].runs {
            let mut at = start + usize::try_from(run.data_offset.unwrap()).unwrap();
            for sample in run.iter() {
                let size = sample.size.or(moof.tracks[0].default_size).unwrap() as usize;
                samples.push(Placed {
                    importance: importance(samples.len()),
                    time: time + i64::from(sample.composition_offset),
                    bytes: at..at + size,
                });
                time += i64::from(sample.duration.or(moof.tracks[0].default_duration).unwrap());
                at += size;
            }
        }
        samples
    }

    /// Cuts the segment off at each sample edge, or only at every so many of them, and asserts that
    /// everything that is left plays. Returns the number of edges.
    fn assert_restored(&self, what: &str, every: usize) -> usize {
        let whole = [&self.init[..], &self.plain].concat();
        let (frames, problems) = decode(what, &whole);
        assert_eq!(problems, "", "{what}");
        assert_eq!(decode(what, &[&self.init[..], &self.prioritised].concat()), (frames.clone(), problems));
        let mut samples = self.samples();
        let hidden = samples.len().checked_sub(frames.len()).unwrap();
        samples.sort_by_key(|sample| sample.bytes.start);
        assert!(samples.is_sorted_by_key(|sample| sample.importance), "{what}: order of importance");
        assert!(hidden < samples.len(), "{what}: no frame is shown");
        let counts = || (1..=samples.len()).step_by(every);
        let restored: Vec<_> = counts().map(|count| self.restored(what, &samples, count)).collect();
        let (decoded, problems) = decode_all(what, &restored);
        assert_eq!(problems, "", "{what}");
        let first = samples.iter().map(|sample| sample.time).min().unwrap();
        for (count, decoded) in counts().zip(&decoded) {
            let what = format!("{what}-{count}");
            for (time, hash) in decoded {
                assert_eq!(frames.get(time), Some(hash), "{what}: the frame at {time}");
            }
            if hidden > 0 {
                assert!((count - hidden.min(count)..=count).contains(&decoded.len()), "{what}");
                continue;
            }
            // The frames that are lost are those of the least important samples.
            let mut times: Vec<i64> = samples[..count].iter().map(|sample| sample.time - first).collect();
            times.sort_unstable();
            assert!(decoded.keys().eq(&times), "{what}: {:?} for {times:?}", decoded.keys());
        }
        decoded.len()
    }

    /// Returns the file that is restored from the first `count` samples. Half of the next sample is
    /// of no use.
    fn restored(&self, what: &str, samples: &[Placed], count: usize) -> Bytes {
        let end = samples[count - 1].bytes.end;
        let next = samples.get(count).map_or(0, |next| next.bytes.len() / 2);
        let restored = |len: usize| {
            let cut = Bytes::copy_from_slice(&self.prioritised[..len]);
            let restored = restore(&self.init.clone().into(), &cut).unwrap();
            let lost = (samples.len() - count) as u64;
            assert_eq!((restored.kept, restored.lost), (count as u64, lost), "{what}");
            restored.file
        };
        let file = restored(end);
        assert!(restored(end + next) == file, "{what}-{count}");
        file
    }
}

/// Makes AVC whose P-frames depend on the reference B-frames before them.
fn pyramid() -> PathBuf {
    recipe::make(
        "priority-pyramid",
        "mp4",
        "-f lavfi -i testsrc2=size=320x180:rate=25:duration=4 -c:v libx264 -preset medium -bf 7 -b_strategy 0 \
         -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -x264-params b-pyramid=normal:ref=4",
    )
}

/// Makes AVC with two key frames in a segment.
fn short_gops() -> PathBuf {
    recipe::make(
        "priority-gops",
        "mp4",
        "-f lavfi -i testsrc2=size=320x180:rate=25:duration=4 -c:v libx264 -preset veryfast -bf 2 -b_strategy 0 \
         -g 13 -keyint_min 13 -sc_threshold 0 -pix_fmt yuv420p",
    )
}

/// Asserts that the second segment of a file, or the only one, plays wherever it is cut off.
#[track_caller]
pub(crate) fn assert_file(what: &str, file: &Path) {
    Segment::of(file).assert_restored(what, 1);
}

#[test]
fn avc_that_is_cut_off_plays_what_arrived() {
    assert_file("priority-avc", &avc_aac());
    assert_file("priority-pyramid", &pyramid());
}

#[test]
fn several_gops_that_are_cut_off_play_what_arrived() {
    assert_file("priority-gops", &short_gops());
}

#[test]
fn hevc_that_is_cut_off_plays_what_arrived() {
    assert_file("priority-hevc", &hevc());
    assert_file("priority-hevc-open", &hevc_open());
}

#[test]
fn fragments_that_are_cut_off_play_what_arrived() {
    assert_file("priority-signed", &signed());
}

/// Real files of AVC of other encoders, whose order of importance differs from the decode order.
const SHARED_AVC: [&str; 10] = [
    "androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4",
    "androidx/bt601.mov",
    "androidx/emsg1.mp4",
    "androidx/sample.mp4",
    "androidx/sample_2_byte_NAL_length.mp4",
    "androidx/sample_fragmented.mp4",
    "androidx/sample_portrait.mp4",
    "mp4ff/bbb_prog_10s.mp4",
    "mp4ff/prog_8s.mp4",
    "mp4ff/v300_multiple_segments.mp4",
];

/// Real files of HEVC of other encoders, whose order of importance differs from the decode order.
const SHARED_HEVC: [&str; 3] =
    ["androidx/fragmented_captions_h265.mp4", "androidx/h265_bframes.mp4", "mp4ff/ed_hevc.mp4"];

/// Real files of codecs without reordering.
const SHARED_IN_ORDER: [&str; 3] =
    ["androidx/bbb_800x640_768kbps_30fps_vp9.mp4", "androidx/hdr10-av1.mp4", "androidx/sample_av1.mp4"];

/// Checks those of the shared files that are present, and names all that fail.
fn check_shared(names: &[&str], is_reordered: bool) {
    let mut edges = 0;
    let mut failed = Vec::new();
    let present: Vec<_> = names.iter().filter_map(|name| Some((*name, shared(name)?))).collect();
    for (name, file) in &present {
        let check = || {
            let what = format!("priority-{}", name.replace('/', "-"));
            let segment = Segment::of(file);
            assert_eq!(segment.prioritised != segment.plain, is_reordered, "{name}");
            // Cutting off a segment in decode order proves little.
            segment.assert_restored(&what, if is_reordered { 1 } else { 30 })
        };
        match std::panic::catch_unwind(check) {
            Ok(count) => edges += count,
            Err(_) => failed.push(name),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(edges > 0 || present.is_empty(), "no file was cut off");
}

#[test]
fn shared_avc_that_is_cut_off_at_any_sample_plays_what_arrived() {
    check_shared(&SHARED_AVC[..5], true);
}

#[test]
fn more_shared_avc_that_is_cut_off_at_any_sample_plays_what_arrived() {
    check_shared(&SHARED_AVC[5..], true);
}

#[test]
fn shared_hevc_that_is_cut_off_at_any_sample_plays_what_arrived() {
    check_shared(&SHARED_HEVC, true);
}

#[test]
fn shared_media_in_order_that_is_cut_off_plays_what_arrived() {
    check_shared(&SHARED_IN_ORDER, false);
}

/// Returns `nal_ref_idc` of the first slice of an AVC sample (ITU-T H.264 §7.4.1). It is 0 in
/// frames that no other frame depends on.
fn nal_ref_idc(mut sample: &[u8], nal_length_size: usize) -> u8 {
    loop {
        let (length, rest) = sample.split_at(nal_length_size);
        let length = length.iter().fold(0_usize, |length, &byte| length << 8 | usize::from(byte));
        // Parameter sets and SEI come before the slices.
        if matches!(rest[0] & 0x1f, 1 | 5) {
            break rest[0] >> 5 & 3;
        }
        sample = &rest[length..];
    }
}

/// Asserts that frames of AVC come last only if the encoder marks them as frames that no other
/// depends on. Returns how many come last, and of how many.
#[track_caller]
fn assert_marked(what: &str, file: &Path) -> (usize, usize) {
    let mut origin = Origin::open(&[file], TARGET);
    let track = origin.title.of_kind(TrackKind::Video).next().unwrap();
    let Config::Avc(avc) = &origin.title.track(&origin.title.tracks()[track]).codec.config else {
        panic!("{what}: not AVC");
    };
    let size = avc.nal_length_size.into();
    let segment = Segment::fetch(&mut origin, 1);
    let samples = segment.samples();
    let last: Vec<_> = samples.iter().filter(|sample| sample.importance == 2).collect();
    let marked = |placed: &&Placed| nal_ref_idc(&segment.prioritised[placed.bytes.clone()], size) == 0;
    let wrong = last.iter().filter(|placed| !marked(placed)).count();
    assert_eq!(wrong, 0, "{what}: {wrong} of {} that come last are references", last.len());
    (last.len(), samples.len())
}

#[test]
fn only_frames_that_no_frame_depends_on_come_last() {
    for (what, file) in [("avc", avc_aac()), ("pyramid", pyramid()), ("gops", short_gops())] {
        let (last, all) = assert_marked(what, &file);
        // Between two references, x264 codes frames one after the other: each may depend on the one
        // before it, as far as the index tells.
        assert!(last * 5 > all, "{what}: {last} of {all} come last");
    }
}

#[test]
fn only_frames_that_no_frame_depends_on_come_last_in_shared_media() {
    for name in SHARED_AVC {
        let Some(file) = shared(name) else { continue };
        let (last, all) = assert_marked(name, &file);
        assert!(last * 4 > all, "{name}: {last} of {all} come last");
    }
}

#[test]
fn audio_and_video_without_reordering_have_one_body_and_etag() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let name = origin.names(TrackKind::Audio).remove(0);
    let url = format!("{BASE}dash/x-{}={}-1.m4s", name.stem, name.bitrate);
    let plain = fetch(&mut origin, &url).unwrap();
    let prioritised = fetch(&mut origin, &format!("{url}?order=priority")).unwrap();
    assert_eq!((plain.bytes, plain.digest), (prioritised.bytes, prioritised.digest));
}
