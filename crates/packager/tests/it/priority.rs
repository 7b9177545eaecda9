//! Segments in order of importance: cut off anywhere, they still play what arrived.
//!
//! ffmpeg decodes what is restored. Each frame must equal the frame of that time in the segment in
//! decode order. In the usual run, files are cut off at a few sample edges; with
//! `LATEMUX_EVERY_EDGE=1`, at each.

use crate::{
    media::{avc_aac, hevc, hevc_open, shared, signed, write},
    player::{BASE, fetch},
};
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_isobmff::{cursor::Cursor, fragment::Moof};
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
/// Sample edges of a file at which it is cut off in the usual run.
const EDGES: usize = 8;

/// Decodes the first video track. Returns the hash of each frame by its presentation time since the
/// first frame, and what ffmpeg reports as errors. ffmpeg moves the times of all frames by the
/// lowest composition offset if that is negative.
pub(crate) fn decode(name: &str, file: &[u8]) -> (BTreeMap<i64, String>, String) {
    let path = write(&format!("{name}.mp4"), file);
    let run = Command::new("ffmpeg")
        .args(["-hide_banner", "-v", "error", "-nostdin", "-copyts", "-i"])
        .arg(&path)
        .args(["-map", "0:v:0", "-fps_mode", "passthrough", "-enc_time_base", "-1", "-f", "framemd5", "-"])
        .output()
        .unwrap();
    fs::remove_file(path).unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let frames = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        (fields[2].parse().unwrap(), fields[5].to_owned())
    });
    let frames: BTreeMap<i64, String> = frames.collect();
    let first = frames.keys().next().copied().unwrap_or(0);
    let frames = frames.into_iter().map(|(time, hash)| (time - first, hash));
    (frames.collect(), String::from_utf8(run.stderr).unwrap())
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
        for run in &moof.tracks[0].runs {
            let mut at = start + usize::try_from(run.data_offset.unwrap()).unwrap();
            for sample in run.iter() {
                let size = sample.size.or(moof.tracks[0].default_size).unwrap() as usize;
                samples.push(Placed { importance: importance(samples.len()), bytes: at..at + size });
                at += size;
            }
        }
        samples
    }

    /// Cuts the segment off at sample edges, and asserts that everything that is left plays.
    /// Returns the number of frames.
    fn assert_restored(&self, what: &str) -> usize {
        let whole = [&self.init[..], &self.plain].concat();
        let (frames, problems) = decode(what, &whole);
        assert_eq!(problems, "", "{what}");
        assert_eq!(decode(what, &[&self.init[..], &self.prioritised].concat()), (frames.clone(), problems));
        let mut samples = self.samples();
        let hidden = samples.len().checked_sub(frames.len()).unwrap();
        samples.sort_by_key(|sample| sample.bytes.start);
        assert!(samples.is_sorted_by_key(|sample| sample.importance), "{what}: order of importance");
        let every =
            if std::env::var_os("LATEMUX_EVERY_EDGE").is_some() { 1 } else { samples.len().div_ceil(EDGES) };
        for (count, sample) in
            (1_usize..).zip(&samples).filter(|(count, _)| count % every == 0 || *count == 1)
        {
            // Half of the next sample is of no use.
            let next = samples.get(count).map_or(0, |next| next.bytes.len() / 2);
            let cut = Bytes::copy_from_slice(&self.prioritised[..sample.bytes.end + next]);
            let restored = restore(&self.init.clone().into(), &cut).unwrap();
            assert_eq!(
                (restored.kept, restored.lost),
                (count as u64, (samples.len() - count) as u64),
                "{what}"
            );
            let what = format!("{what}-{count}");
            let (decoded, problems) = decode(&what, &restored.file);
            assert_eq!(problems, "", "{what}");
            assert!(
                decoded.len() + hidden >= count && decoded.len() <= count,
                "{what}: {} frames",
                decoded.len()
            );
            for (time, hash) in &decoded {
                assert_eq!(frames.get(time), Some(hash), "{what}: the frame at {time}");
            }
        }
        frames.len()
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

#[track_caller]
pub(crate) fn assert_file(what: &str, file: &Path) {
    let mut origin = Origin::open(&[file], TARGET);
    let name = origin.names(TrackKind::Video).remove(0);
    let number = origin.segment_count(&name).min(2);
    let frames = Segment::fetch(&mut origin, number).assert_restored(what);
    assert!(frames > 0, "{what}");
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

/// Real files of other encoders.
#[test]
fn shared_media_that_is_cut_off_plays_what_arrived() {
    let files = [
        "androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4",
        "androidx/bbb_800x640_768kbps_30fps_vp9.mp4",
        "androidx/h265_bframes.mp4",
        "androidx/hdr10-av1.mp4",
        "androidx/sample.mp4",
        "androidx/sample_av1.mp4",
        "androidx/sample_fragmented.mp4",
        "androidx/sample_portrait.mp4",
        "mp4ff/bbb_prog_10s.mp4",
        "mp4ff/ed_hevc.mp4",
        "mp4ff/prog_8s.mp4",
    ];
    let present: Vec<_> = files.iter().filter_map(|name| Some((*name, shared(name)?))).collect();
    eprintln!("{} of {} shared files are present", present.len(), files.len());
    let failed: Vec<_> = present
        .iter()
        .filter(|(name, file)| {
            let what = format!("priority-{}", name.replace('/', "-"));
            std::panic::catch_unwind(|| assert_file(&what, file)).is_err()
        })
        .map(|(name, _)| name)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// The encoder marks frames that no other frame depends on: `nal_ref_idc` is 0 (ITU-T H.264
/// §7.4.1).
#[test]
fn only_frames_that_no_frame_depends_on_come_last() {
    for (what, file) in [("avc", avc_aac()), ("pyramid", pyramid()), ("gops", short_gops())] {
        let segment = Segment::fetch(&mut Origin::open(&[file], TARGET), 1);
        let reference = |placed: &Placed| {
            let mut sample = &segment.prioritised[placed.bytes.clone()];
            loop {
                let length = u32::from_be_bytes(sample[..4].try_into().unwrap()) as usize;
                // A slice. Parameter sets and SEI come before it.
                if matches!(sample[4] & 0x1f, 1 | 5) {
                    break sample[4] >> 5 & 3;
                }
                sample = &sample[4 + length..];
            }
        };
        let samples = segment.samples();
        let last: Vec<_> = samples.iter().filter(|sample| sample.importance == 2).collect();
        // Between two references, x264 codes frames one after the other: each may depend on the one
        // before it, as far as the index tells.
        assert!(last.len() * 5 > samples.len(), "{what}: {} of {} come last", last.len(), samples.len());
        assert!(last.iter().all(|sample| reference(sample) == 0), "{what}");
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
