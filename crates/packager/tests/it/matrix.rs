//! Every way of storing a title with every protocol: the packets that come out are the same, and
//! equal those that ffprobe finds in the title's plainest form.
//!
//! Most ways of storing give the same bytes, so ffprobe runs for few of them; see
//! [`crate::media::probed`].

use crate::{
    cmaf, hds, hls,
    media::{Source, avc_aac},
    smooth, ts,
};
use bytes::Bytes;
use latemux_index::media::IndexSource::{self, RandomAccess, SampleTables, Scan, SegmentIndex};
use latemux_testmedia::origin::{Origin, index};
use latemux_testmedia::{
    fragmented::{DecodeTime, Fragmented, Index, OffsetBase, SampleValues, fragmented},
    probe::{Stream, probe},
    recipe::{folder, make},
    rewrite::{Variant, progressive},
};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

/// A title stored in one way.
struct Stored {
    what: String,
    source: Source,
    /// Way in which its index is found.
    index: IndexSource,
    /// True if ffprobe reads it correctly.
    ffprobe_reads: bool,
    /// Durations that ffprobe assumes for the last samples.
    rate: smooth::Rate,
}

impl Stored {
    fn new(what: String, source: Source, index: IndexSource) -> Self {
        // ffprobe does not follow one `sidx` to another, and assumes that data without a stated
        // offset starts at the base.
        let ffprobe_reads = !what.contains("Runs") && matches!(index, SampleTables | Scan);
        // If a file is cut within an audio frame, ffprobe adds the cut duration to the last frame.
        let rate = if what == "cut" { smooth::Rate::Variable } else { smooth::Rate::Constant };
        Self { what, source, index, ffprobe_reads, rate }
    }
}

/// Returns the streams of a file, stored by ffmpeg in another way.
fn copy(name: &str, file: &Path, args: &str) -> Vec<u8> {
    fs::read(make(name, "mp4", &format!("-i {} -c copy {args}", file.display()))).unwrap()
}

/// Options for fragments that can be rewritten in every way.
const FRAGMENTS: &str = "-movflags frag_keyframe+delay_moov+default_base_moof+skip_trailer";

fn tables() -> Vec<Stored> {
    let file = avc_aac();
    let source = Source::files(&[&file]);
    let bytes = source.objects[0].to_vec();
    let first = Variant::default();
    let last = Variant { moov_last: true, ..first };
    let all = Variant { moov_last: true, co64: true, stz2: true, wide_mdat: true, wide_boxes: true };
    let variants = [
        first,
        last,
        Variant { co64: true, ..first },
        Variant { stz2: true, ..first },
        Variant { wide_mdat: true, ..last },
        Variant { wide_boxes: true, ..first },
        all,
    ];
    let stored = |what, bytes| Stored::new(what, source.stored_as(bytes), SampleTables);
    let mut found = vec![stored("as ffmpeg writes it".to_owned(), bytes.clone())];
    found.extend(variants.map(|variant| stored(format!("{variant:?}"), progressive(&bytes, variant))));
    found
}

/// Returns tables with other times. Each is compared with ffprobe's reading of itself.
fn times() -> Vec<Stored> {
    let file = avc_aac();
    let path = file.display();
    let late = format!("-itsoffset 0.7 -i {path} -i {path} -map 0:v -map 1:a -c copy");
    // Cut at a sync sample; `crate::edits` has cuts inside GOPs.
    let cut = format!("-ss 2 -t 5.2 -i {path} -c copy");
    let negative = format!("-i {path} -c copy -movflags negative_cts_offsets");
    let unedited = format!("-i {path} -c copy -use_editlist 0");
    [("late", late), ("cut", cut), ("ctts-1", negative), ("unedited", unedited)]
        .map(|(what, args)| {
            let file = make(&format!("matrix-{what}"), "mp4", &args);
            Stored::new(what.to_owned(), Source::files(&[file]), SampleTables)
        })
        .into()
}

/// Returns all combinations of index, decode time and base of offsets, each with one of the ways to
/// store the other values, in turn.
fn fragments() -> Vec<Stored> {
    use DecodeTime::{Absent, Narrow, Wide};
    let file = avc_aac();
    let source = Source::files(&[&file]);
    let plain = copy("matrix-fragments", &file, FRAGMENTS);
    let mut turns = [SampleValues::Tfhd, SampleValues::Trex, SampleValues::Samples, SampleValues::Runs]
        .into_iter()
        .cycle();
    let mut found = Vec::new();
    for index in [Index::Neither, Index::Sidx, Index::SidxTree, Index::Mfra, Index::Both] {
        for decode_time in [Narrow, Wide, Absent] {
            for base in [OffsetBase::Moof, OffsetBase::Stated, OffsetBase::Implied] {
                let values = turns.next().unwrap();
                let separate_moofs = found.len() % 2 == 1;
                let variant = Fragmented { index, decode_time, base, values, separate_moofs, nal_lengths: 4 };
                let index = match index {
                    Index::Neither => Scan,
                    Index::Sidx | Index::SidxTree | Index::Both => SegmentIndex,
                    _ => RandomAccess,
                };
                let source = source.stored_as(fragmented(&plain, variant));
                found.push(Stored::new(format!("{variant:?}"), source, index));
            }
        }
    }
    found
}

/// Returns the forms that only files of one track have.
fn fragments_of_one_track() -> Vec<Stored> {
    let file = avc_aac();
    let alone = make("matrix-video", "mp4", &format!("-i {} -map 0:v -c copy", file.display()));
    let source = Source::files(&[&alone]);
    let plain = copy("matrix-fragments", &alone, FRAGMENTS);
    let stored = |what: &str, bytes| Stored::new(what.to_owned(), source.stored_as(bytes), SegmentIndex);
    let chain = |decode_time| Fragmented { index: Index::SidxChain, decode_time, ..Fragmented::default() };
    vec![
        stored("chain", fragmented(&plain, chain(DecodeTime::Narrow))),
        stored("chain without times", fragmented(&plain, chain(DecodeTime::Absent))),
        stored("ffmpeg's sidx", copy("matrix-sidx", &alone, &format!("{FRAGMENTS}+global_sidx"))),
    ]
}

fn all() -> Vec<Stored> {
    [tables(), times(), fragments(), fragments_of_one_track()].into_iter().flatten().collect()
}

/// Runs a check for every way of storing, and reports all that fail.
fn each(check: impl Fn(&Stored)) {
    let stored = all();
    let failed: Vec<String> = stored
        .iter()
        .filter_map(|stored| {
            let done = catch_unwind(AssertUnwindSafe(|| check(stored)));
            let why = *done.err()?.downcast::<String>().unwrap_or_default();
            Some(format!("{}: {}", stored.what, why.chars().take(400).collect::<String>()))
        })
        .collect();
    assert!(stored.len() > 50);
    assert!(failed.is_empty(), "{} of {}: {failed:#?}", failed.len(), stored.len());
}

fn packets(streams: &[Stream]) -> Vec<Vec<(i64, i64, String)>> {
    let of = |s: &Stream| s.packets.iter().map(|p| (p.dts, p.pts, p.hash.clone())).collect();
    streams.iter().map(of).collect()
}

/// Checks the test data itself: ffprobe finds the same packets in every form that it can read.
#[test]
fn ffprobe_reads_the_same_packets_from_every_form() {
    each(|stored| {
        assert_eq!(index(&stored.source.objects[0]).unwrap().source, stored.index);
        if stored.ffprobe_reads {
            let file = folder().join(format!("matrix-{}.mp4", std::process::id()));
            fs::write(&file, &stored.source.objects[0]).unwrap();
            let probe = probe(&file, &[]);
            assert_eq!(probe.warnings, "");
            assert_eq!(packets(&probe.streams), packets(&stored.source.files[0].1));
            fs::remove_file(file).unwrap();
        }
    });
}

#[test]
fn dash_and_cmaf_hold_the_same_packets() {
    each(|stored| cmaf::assert_source_packets("matrix", &stored.source));
}

#[test]
fn hls_in_cmaf_equals_dash() {
    each(|stored| hls::assert_equals_dash(&stored.source.objects));
}

#[test]
fn hls_in_ts_holds_the_same_packets() {
    each(|stored| drop(ts::assert_source_packets("matrix", &stored.source, &ts::AAC)));
}

#[test]
fn smooth_streaming_holds_the_same_packets() {
    each(|stored| smooth::assert_source_packets("matrix-smooth", &stored.source, stored.rate));
}

#[test]
fn http_dynamic_streaming_holds_the_same_packets() {
    each(|stored| hds::assert_source_packets("matrix-hds", &stored.source, true));
}

/// TS replaces NAL lengths, so two-byte lengths make no difference to it. DASH keeps them.
#[test]
fn two_byte_nal_lengths_are_supported() {
    let file = avc_aac();
    let source = Source::files(&[&file]);
    let plain = copy("matrix-fragments", &file, FRAGMENTS);
    for index in [Index::Neither, Index::Sidx] {
        let variant = Fragmented { index, nal_lengths: 2, ..Fragmented::default() };
        let short = source.stored_as(fragmented(&plain, variant));
        let whole = ts::assert_source_packets("matrix-short", &short, &ts::AAC);
        let long = source.stored_as(fragmented(&plain, Fragmented { nal_lengths: 4, ..variant }));
        assert!(whole == ts::assert_source_packets("matrix-long", &long, &ts::AAC), "{index:?}");
        let mut origin = Origin::of(short.objects, Duration::from_secs(2)).unwrap();
        let name = origin.names(latemux_index::media::TrackKind::Video).remove(0);
        let (init, segments) = origin.cmaf(&name);
        let bytes: Bytes = [vec![init], segments].concat().concat().into();
        let streams = crate::media::probe_without_warnings("matrix-short", &bytes);
        assert_eq!(streams[0].packets.len(), source.files[0].1[0].packets.len());
    }
}
