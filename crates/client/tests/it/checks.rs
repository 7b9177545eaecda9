//! Checks of segments that ffmpeg made: whole, in pieces and damaged. Their times are compared with
//! ffprobe.

use bytes::Bytes;
use latemux_client::{
    check::{Check, Init, Span},
    failure::{Failure, Reason},
    presentation::Container,
};
use latemux_testmedia::{
    probe::{Stream, probe},
    streams::{dash, hds, hls, packed_audio, smooth},
};
use proptest::{prelude::*, sample::Index};
use std::{fs, path::Path, sync::Arc};

/// A segment, and what is needed to check it.
#[derive(Debug, Clone)]
struct Segment {
    container: Container,
    init: Option<Arc<Init>>,
    timescale: u64,
    body: Vec<u8>,
}

impl Segment {
    fn new(container: Container, body: Vec<u8>) -> Self {
        Self { container, init: None, timescale: 10_000_000, body }
    }

    /// Checks a body that arrives in pieces of a size.
    fn check_in_pieces(&self, size: usize) -> Result<Vec<Span>, Failure> {
        let mut check = Check::segment(self.container, self.init.as_ref(), self.timescale);
        self.body.chunks(size.max(1)).for_each(|piece| check.push(piece));
        check.finish()
    }

    fn check(&self) -> Result<Vec<Span>, Failure> {
        self.check_in_pieces(self.body.len())
    }

    /// Returns the reason why a changed body fails.
    fn reason(&self, change: impl FnOnce(&mut Vec<u8>)) -> Option<Reason> {
        let mut changed = self.clone();
        change(&mut changed.body);
        changed.check().err().map(|failure| failure.reason)
    }
}

fn init(folder: &Path, name: &str) -> Option<Arc<Init>> {
    let body = Bytes::from(fs::read(folder.join(name)).unwrap());
    Some(Arc::new(Init::read(&body).unwrap()))
}

fn cmaf() -> Segment {
    let folder = dash("template-timeline", "");
    let body = fs::read(folder.join("chunk-stream0-00003.m4s")).unwrap();
    Segment { init: init(&folder, "init-stream0.m4s"), ..Segment::new(Container::Cmaf, body) }
}

fn ts() -> Segment {
    Segment::new(Container::Ts, fs::read(hls("ts", "").join("index2.ts")).unwrap())
}

fn f4f() -> Segment {
    Segment::new(Container::F4f, fs::read(hds().join("stream0Seg1-Frag3")).unwrap())
}

fn smooth_fragment() -> Segment {
    let folder = smooth();
    let level = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let names = fs::read_dir(level.unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let name = names.filter(|path| path.to_string_lossy().contains("Fragments(")).min().unwrap();
    Segment::new(Container::Smooth, fs::read(name).unwrap())
}

fn packed() -> Segment {
    Segment::new(Container::PackedAudio, packed_audio().segments[1].clone())
}

fn all() -> [Segment; 5] {
    [cmaf(), ts(), f4f(), smooth_fragment(), packed()]
}

/// Returns the first decode time, the first presentation time and the end of a stream, in seconds.
fn times(stream: &Stream) -> (f64, f64, f64) {
    let scale = f64::from(stream.timescale);
    #[expect(clippy::cast_precision_loss, reason = "ticks of a short stream")]
    let seconds = |ticks: i64| ticks as f64 / scale;
    let decode = seconds(stream.packets[0].dts);
    let presentation = stream.packets.iter().map(|packet| packet.pts).min().unwrap();
    let last = stream.packets.last().unwrap().dts;
    let step = last - stream.packets[stream.packets.len() - 2].dts;
    (decode, seconds(presentation), seconds(last + step))
}

fn probed(parts: &[&[u8]], suffix: &str) -> Vec<Stream> {
    let path = std::env::temp_dir().join(format!("latemux-checks-{}-{suffix}", std::process::id()));
    fs::write(&path, parts.concat()).unwrap();
    let streams = probe(&path, &[]).streams;
    fs::remove_file(&path).unwrap();
    streams
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 0.001, "{what}: {found} instead of {expected}");
}

#[test]
fn spans_of_a_transport_stream_are_those_that_ffprobe_finds() {
    let segment = ts();
    let streams = probed(&[&segment.body], "a.ts");
    let spans = segment.check().unwrap();
    assert_eq!((spans.len(), streams.len()), (2, 2));
    for (span, stream) in spans.iter().zip(&streams) {
        // ffprobe splits the PES packets of audio into frames, whose end is later by up to a
        // packet.
        let (decode, presentation, end) = times(stream);
        assert_near(span.decode, decode, &stream.kind);
        assert_near(span.begins, presentation, &stream.kind);
        assert!((span.end - end).abs() <= span.slack, "{}: {span:?}, not {end}", stream.kind);
    }
    assert_near(spans[0].end, times(&streams[0]).2, "video");
}

#[test]
fn spans_of_fragments_are_those_that_ffprobe_finds() {
    let segment = cmaf();
    let head = fs::read(dash("template-timeline", "").join("init-stream0.m4s")).unwrap();
    let streams = probed(&[&head, &segment.body], "a.mp4");
    let [span] = segment.check().unwrap()[..] else { panic!("one track") };
    let (decode, presentation, end) = times(&streams[0]);
    // The edit list of two frames shifts both of ffprobe's times, and decode times count without
    // it.
    assert_near(span.begins, presentation, "presentation");
    let shift = span.decode - decode;
    assert_near(shift, 0.08, "the edit list");
    assert_near(span.end - shift, end, "end");
    assert_near(span.slack, 0.02, "half a frame");
}

#[test]
fn packed_audio_lasts_as_long_as_its_frames() {
    let title = packed_audio();
    let wrap = f64::from(u32::MAX) * 2.0 / 90_000.0;
    let spans = title.segments.map(|body| Segment::new(Container::PackedAudio, body).check().unwrap());
    let [first, second] = [spans[0][0], spans[1][0]];
    assert_near(first.end - first.begins, 100.0 * 1024.0 / 48_000.0, "a hundred frames");
    assert!((first.end - wrap).abs() < 0.01 && second.begins == 0.0, "{first:?} {second:?}");
    let frames = probe(&title.source, &[]).streams[1].packets.len();
    let frames = f64::from(u32::try_from(frames - 100).unwrap());
    assert_near(second.end, frames * 1024.0 / 48_000.0, "the other frames");
}

#[test]
fn the_size_of_pieces_does_not_matter() {
    for segment in all() {
        let whole = segment.check().unwrap();
        assert!(!whole.is_empty(), "{:?}", segment.container);
        for size in [1, 7, 188, 4096] {
            assert_eq!(segment.check_in_pieces(size).unwrap(), whole, "{:?}, {size}", segment.container);
        }
    }
}

#[test]
fn truncated_and_empty_segments_fail() {
    let expected =
        [Reason::BadBoxes, Reason::BadTs, Reason::BadBoxes, Reason::BadBoxes, Reason::BadAudio].into_iter();
    for (segment, reason) in all().into_iter().zip(expected) {
        for length in [0, 1, 11, segment.body.len() / 2 + 1, segment.body.len() - 1] {
            let found = segment.reason(|body| body.truncate(length));
            assert_eq!(found, Some(reason), "{:?}, {length} bytes", segment.container);
        }
    }
}

fn position(body: &[u8], kind: &[u8; 4]) -> usize {
    body.windows(4).position(|window| window == kind).unwrap()
}

#[test]
fn samples_must_lie_within_the_media_data() {
    let segment = cmaf();
    // The flags in the header of tfhd state a base; without it, run offsets count from the moof.
    let run_offset = |offset: u32| {
        segment.reason(|body| {
            let at = position(body, b"trun") + 12;
            body[at..at + 4].copy_from_slice(&offset.to_be_bytes());
        })
    };
    let right = {
        let at = position(&segment.body, b"trun") + 12;
        u32::from_be_bytes(segment.body[at..at + 4].try_into().unwrap())
    };
    assert_eq!(run_offset(right), None);
    for wrong in [0, right - 1, right + 1, u32::MAX] {
        assert_eq!(run_offset(wrong), Some(Reason::BadBoxes), "{wrong}");
    }
}

#[test]
fn fragments_need_their_moof_and_a_known_track() {
    let segment = cmaf();
    let media = position(&segment.body, b"mdat") - 4;
    let head = position(&segment.body, b"moof") - 4;
    assert_eq!(segment.reason(|body| body.truncate(media)), Some(Reason::BadBoxes), "a moof alone");
    assert_eq!(segment.reason(|body| drop(body.drain(head..media))), Some(Reason::BadBoxes), "an mdat alone");
    assert_eq!(segment.reason(|body| body.truncate(head)), Some(Reason::BadBoxes), "neither");
    let track = position(&segment.body, b"tfhd") + 8;
    assert_eq!(segment.reason(|body| body[track + 3] = 9), Some(Reason::BadBoxes), "another track");
    let twice = segment.reason(|body| body.extend_from_within(..));
    assert_eq!(twice, Some(Reason::TimelineGap), "the same times again");
}

#[test]
fn init_segments_need_a_moov_with_tracks() {
    let folder = dash("template-timeline", "");
    let bytes = fs::read(folder.join("init-stream0.m4s")).unwrap();
    assert!(Init::read(&Bytes::from(bytes.clone())).is_ok());
    let reason = |bytes: &[u8]| Init::read(&Bytes::copy_from_slice(bytes)).unwrap_err().reason;
    let moov = position(&bytes, b"moov") - 4;
    assert_eq!(reason(&bytes[..moov]), Reason::BadBoxes, "no moov");
    assert_eq!(reason(&bytes[..bytes.len() - 1]), Reason::BadBoxes, "cut");
    assert_eq!(reason(&bytes[moov..moov + 8]), Reason::BadBoxes);
    let mut without_track = bytes.clone();
    let track = position(&bytes, b"trak");
    without_track[track..track + 4].copy_from_slice(b"free");
    assert_eq!(reason(&without_track), Reason::BadBoxes, "no tracks");
}

#[test]
fn flv_tags_repeat_their_size() {
    let segment = f4f();
    assert_eq!(segment.reason(|body| *body.last_mut().unwrap() ^= 1), Some(Reason::BadFlv));
    let kind = position(&segment.body, b"mdat") + 4;
    assert_eq!(segment.reason(|body| body[kind] = 10), Some(Reason::BadFlv), "an unknown type");
}

#[test]
fn opaque_bodies_pass() {
    let opaque = Segment::new(Container::Opaque, vec![1, 2, 3]);
    assert_eq!(opaque.check(), Ok(Vec::new()));
    let vtt = Segment::new(Container::WebVtt, b"WEBVTT\n".to_vec());
    assert_eq!(vtt.check(), Ok(Vec::new()));
    assert_eq!(vtt.reason(|body| body[0] = b'w'), Some(Reason::BadText));
    let ttml = Segment::new(Container::Ttml, b"<tt/>".to_vec());
    assert_eq!(ttml.check(), Ok(Vec::new()));
    assert_eq!(ttml.reason(|body| body.truncate(4)), Some(Reason::BadText));
    let large = Segment::new(Container::WebVtt, [&b"WEBVTT\n"[..], &[b' '; 16 << 20]].concat());
    assert_eq!(large.check().unwrap_err().reason, Reason::TooLarge);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_segments_neither_panic_nor_depend_on_pieces(
        which in 0..5_usize,
        changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..12),
        size in 1..400_usize,
    ) {
        let mut segment = all()[which].clone();
        let length = segment.body.len();
        for (index, byte) in changes {
            // Most of a segment is media; damage to headers matters more.
            let at = index.index(length) % if byte % 2 == 0 { length } else { length.min(1200) };
            segment.body[at] = byte;
        }
        let whole = segment.check().map_err(|failure| failure.reason);
        let pieces = segment.check_in_pieces(size).map_err(|failure| failure.reason);
        prop_assert_eq!(whole, pieces);
    }
}
