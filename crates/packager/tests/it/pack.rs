//! Packed files: the served segments with an index. Other readers read them, and packing them again
//! gives the same bytes.

use crate::{
    media::{
        assert_same_packets, avc_aac, fragmented, hevc, hevc_open, ladder, probe_without_warnings, shared,
        with_mfra, with_sidx, write,
    },
    smooth::tfxd,
};
use latemux_index::{
    media::{IndexSource, TrackKind},
    title::TrackName,
};
use latemux_packager::{
    PackError, Resource,
    carry::{Protocol, carries},
    pack::{Fragment, cmaf, ismv::IsmvFile},
};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::{
    probe::{Probe, Stream, probe},
    recipe::make,
};
use mp4_atom::{Any, DecodeMaybe as _};
use std::{
    io::Cursor,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

const TARGET: Duration = Duration::from_secs(2);
const SCALE: i128 = 10_000_000;

/// Packs a track into a file, and returns the ranges of its segments in it.
fn packed_cmaf(origin: &mut Origin, name: &TrackName) -> (Vec<u8>, Vec<Range<usize>>) {
    let track = origin.title.find(name).unwrap();
    let resources: Vec<_> =
        (1..=origin.segment_count(name)).map(|n| Resource::DashSegment(name.clone(), n)).collect();
    let fragments: Vec<Fragment> =
        resources.iter().map(|r| Fragment::of(&origin.plan(r).unwrap()).unwrap()).collect();
    let init = origin.get(&Resource::DashInit(name.clone())).unwrap().bytes;
    let mut file = cmaf::header(&origin.title, track, &init, &fragments).unwrap().to_vec();
    let mut ranges = Vec::new();
    for resource in &resources {
        let start = file.len();
        file.extend(origin.get(resource).unwrap().bytes);
        ranges.push(start..file.len());
    }
    (file, ranges)
}

/// The range of each fragment in a file.
type FragmentRanges = Vec<(Resource, Range<usize>)>;

/// Packs tracks that Smooth Streaming carries (by index) into one file, and returns the ranges of
/// its fragments.
fn packed_ismv(origin: &mut Origin, tracks: &[usize]) -> Result<(Vec<u8>, FragmentRanges), PackError> {
    let layout = IsmvFile::new(&origin.title, tracks)?;
    let mut file = layout.header().to_vec();
    let fragments = layout.fragments().collect::<Vec<_>>();
    let mut written = Vec::new();
    let mut ranges = Vec::new();
    for place in fragments {
        let start = file.len();
        let fragment = Fragment::of(&origin.plan(&place.resource)?)?;
        written.push((place.track, start as u64, fragment));
        file.extend(origin.get(&place.resource)?.bytes);
        ranges.push((place.resource, start..file.len()));
    }
    file.extend(IsmvFile::new(&origin.title, tracks)?.index(&written));
    Ok((file, ranges))
}

fn carried(origin: &Origin, protocol: Protocol) -> Vec<usize> {
    let carried = |&i: &usize| carries(protocol, origin.title.track(&origin.title.tracks()[i])).is_ok();
    (0..origin.title.tracks().len()).filter(carried).collect()
}

/// Reads every box to its end with an independent parser, and returns their offsets too.
fn boxes(bytes: &[u8]) -> Vec<(u64, Any)> {
    let mut cursor = Cursor::new(bytes);
    let mut found = Vec::new();
    loop {
        let at = cursor.position();
        let Some(any) = Any::decode_maybe(&mut cursor).unwrap() else { break };
        found.push((at, any));
    }
    assert_eq!(cursor.position(), bytes.len() as u64);
    found
}

fn kind_of(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video",
        TrackKind::Audio => "audio",
        TrackKind::Text => "subtitle",
    }
}

/// Returns the stream of a source that a track comes from.
fn source_of<'a>(sources: &'a [Vec<Stream>], origin: &Origin, track: usize) -> &'a Stream {
    let title_track = &origin.title.tracks()[track];
    let tracks = &origin.title.objects()[title_track.object].tracks;
    let kind = tracks[title_track.track].kind;
    let nth = tracks[..title_track.track].iter().filter(|t| t.kind == kind).count();
    sources[title_track.object].iter().filter(|s| s.kind == kind_of(kind)).nth(nth).unwrap()
}

/// Returns the presentation times of a track's samples, from the `tfxd` of each fragment and the
/// edit list.
fn presented(found: &[(u64, Any)], file: &[u8], trak: &mp4_atom::Trak) -> Vec<i128> {
    let edit = trak.edts.as_ref().and_then(|edts| edts.elst.as_ref());
    let edit = i128::from(edit.map_or(0, |elst| elst.entries[0].media_time.unwrap()));
    let mut times = Vec::new();
    for (n, (at, any)) in found.iter().enumerate() {
        let Any::Moof(moof) = any else { continue };
        let [traf] = moof.traf.as_slice() else { panic!("one track") };
        if traf.tfhd.track_id != trak.tkhd.track_id {
            continue;
        }
        // The fragment with its `mdat`, up to the next one.
        let [start, end] = [*at, found[n + 2].0].map(|at| usize::try_from(at).unwrap());
        let mut time = i128::from(tfxd(&file[start..end]).0);
        for sample in &traf.trun[0].samples {
            times.push(time + i128::from(sample.cts.unwrap_or(0)) - edit);
            time += i128::from(sample.duration.or(traf.tfhd.default_sample_duration).unwrap());
        }
    }
    times
}

/// Packs each track as a CMAF file and checks that other readers find the same packets and that
/// packing it again gives the same file. Returns the number of tracks.
fn check_cmaf_files(what: &str, files: &[&Path]) -> usize {
    let sources: Vec<Vec<Stream>> = files.iter().map(|file| probe(file, &[]).streams).collect();
    let mut origin = Origin::open(files, TARGET);
    let tracks = carried(&origin, Protocol::Dash);
    for &track in &tracks {
        let name = origin.title.tracks()[track].name.clone();
        let what = format!("{what} {name}");
        let (file, ranges) = packed_cmaf(&mut origin, &name);

        // Other readers find the served segments in the ranges that `sidx` states.
        let (init, segments) = origin.cmaf(&name);
        let found = boxes(&file);
        let [(_, Any::Ftyp(_)), (_, Any::Moov(_)), (sidx_at, Any::Sidx(sidx)), rest @ ..] = found.as_slice()
        else {
            panic!("{what}: {:?}", found.first())
        };
        assert_eq!(file[..init.len()], init, "{what}: init segment");
        assert_eq!((*sidx_at, sidx.first_offset), (init.len() as u64, 0), "{what}");
        assert_eq!(rest.len(), 3 * segments.len(), "{what}: styp, moof, mdat for each segment");
        let mut at = usize::try_from(rest[0].0).unwrap();
        assert_eq!(sidx.references.len(), segments.len(), "{what}");
        for (n, ((reference, range), segment)) in
            sidx.references.iter().zip(&ranges).zip(&segments).enumerate()
        {
            let end = at + reference.referenced_size as usize;
            assert_eq!(at..end, *range, "{what}: {n}");
            assert_eq!(file[at..end], *segment, "{what}: {n}");
            assert!(reference.starts_with_sap, "{what}: {n}");
            at = end;
        }
        assert_eq!(at, file.len(), "{what}");
        let durations: u64 = sidx.references.iter().map(|r| u64::from(r.subsegment_duration)).sum();
        let source_track = origin.title.track(&origin.title.tracks()[track]);
        let end = i64::try_from(sidx.earliest_presentation_time + durations).unwrap();
        assert_eq!(end, source_track.end + source_track.presentation.media_time, "{what}");
        let slices: Vec<&[u8]> = ranges.iter().map(|range| &file[range.clone()]).collect();
        let issues = transmux::validate::validate_cmaf_track(&init, &slices);
        assert!(issues.is_empty(), "{what}: {issues:#?}");

        let streams = probe_without_warnings(&what.replace(['/', ' '], "-"), &file);
        assert_eq!(streams.len(), 1, "{what}");
        assert_same_packets(&what, &streams[0], source_of(&sources, &origin, track));

        // The packed file as a source.
        let mut again = Origin::of(vec![file.clone().into()], TARGET).unwrap();
        assert_eq!(again.title.objects()[0].source, IndexSource::SegmentIndex, "{what}: the index is used");
        let name = again.title.tracks()[0].name.clone();
        let packed = packed_cmaf(&mut again, &name).0;
        assert!(packed == file, "{what}: packed again it differs");
    }
    tracks.len()
}

/// Packs all tracks, and then each of them alone, as an ismv file. Checks that other readers find
/// the same packets at times rounded down, and that packing it again gives the same file. Returns
/// the number of tracks.
fn check_ismv_file(what: &str, files: &[&Path]) -> usize {
    let sources: Vec<Vec<Stream>> = files.iter().map(|file| probe(file, &[]).streams).collect();
    let mut origin = Origin::open(files, TARGET);
    let tracks = carried(&origin, Protocol::Smooth);
    if tracks.is_empty() {
        return 0;
    }
    let alone = tracks.iter().map(|&track| vec![track]).filter(|_| tracks.len() > 1);
    for (n, chosen) in std::iter::once(tracks.clone()).chain(alone).enumerate() {
        let what = format!("{what} {chosen:?}");
        let (file, ranges) = packed_ismv(&mut origin, &chosen).unwrap();
        let found = boxes(&file);
        let [(_, Any::Ftyp(ftyp)), (_, Any::Moov(moov)), fragments @ .., (_, Any::Mfra(mfra))] =
            found.as_slice()
        else {
            panic!("{what}: {found:?}")
        };
        assert_eq!(ftyp.major_brand.to_string(), "isml");
        assert_eq!(fragments.len(), 2 * ranges.len(), "{what}: moof, mdat for each fragment");
        for (resource, range) in &ranges {
            assert!(file[range.clone()] == origin.get(resource).unwrap().bytes, "{what}: {resource:?}");
        }
        assert_eq!(moov.trak.len(), chosen.len(), "{what}");
        // The entries of `mfra` lead to all fragments of their tracks.
        let mut offsets: Vec<u64> = Vec::new();
        for (trak, tfra) in moov.trak.iter().zip(&mfra.tfra) {
            assert_eq!(trak.tkhd.track_id, tfra.track_id, "{what}");
            for entry in &tfra.entries {
                let moof = found.iter().find(|(at, _)| *at == entry.moof_offset);
                let Some((at, Any::Moof(moof))) = moof else {
                    panic!("{what}: no moof at {}", entry.moof_offset)
                };
                assert_eq!(moof.traf[0].tfhd.track_id, tfra.track_id, "{what}");
                offsets.push(*at);
            }
        }
        offsets.sort_unstable();
        let moofs = found.iter().filter(|(_, any)| matches!(any, Any::Moof(_)));
        assert!(offsets.iter().eq(moofs.map(|(at, _)| at)), "{what}");

        let name = format!("{}-{n}", what.replace(['/', ' ', '[', ']', ','], "-"));
        let path = write(&format!("{name}.ismv"), &file);
        let Probe { streams, warnings } = probe(&path, &[]);
        // ffprobe does not support this form of timed text, and says so.
        let unknown = |line: &&str| line.starts_with("Unsupported codec with id 0");
        let warnings: Vec<_> = warnings.lines().filter(|line| !unknown(line)).collect();
        assert_eq!(warnings, Vec::<&str>::new(), "{what}");
        std::fs::remove_file(path).unwrap();
        let layout = IsmvFile::new(&origin.title, &chosen).unwrap();
        assert_eq!(streams.len(), chosen.len(), "{what}");
        for ((got, &track), trak) in streams.iter().zip(layout.tracks()).zip(&moov.trak) {
            let want = source_of(&sources, &origin, track);
            assert_eq!((&got.kind, &got.codec), (&want.kind, &want.codec), "{what}");
            let hidden = want.packets.len() - got.packets.len();
            let (hidden, want_packets) = want.packets.split_at(hidden);
            assert!(
                hidden.iter().all(|p| p.pts + p.duration <= 0),
                "{what}: a packet that is shown is absent"
            );
            let presented = presented(&found, &file, trak);
            assert_eq!(presented.len(), want_packets.len(), "{what}");
            let floor = |ticks: i64| (i128::from(ticks) * SCALE).div_euclid(want.timescale.into());
            // ffmpeg does not read `tfxd`, and starts the media of every track at 0.
            let offset = i128::from(got.packets[0].pts) - floor(want_packets[0].pts);
            for (n, ((got, want), time)) in got.packets.iter().zip(want_packets).zip(presented).enumerate() {
                assert_eq!((&got.hash, got.key), (&want.hash, want.key), "{what}: packet {n}");
                assert_eq!(i128::from(got.pts) - offset, floor(want.pts), "{what}: packet {n}");
                assert_eq!(time, floor(want.pts), "{what}: packet {n}");
            }
        }

        let mut again = Origin::of(vec![file.clone().into()], TARGET).unwrap();
        let all: Vec<usize> = (0..again.title.tracks().len()).collect();
        let packed = packed_ismv(&mut again, &all).unwrap().0;
        assert!(packed == file, "{what}: packed again it differs");
    }
    tracks.len()
}

fn check_packed_files(what: &str, files: &[&Path]) {
    let cmaf = check_cmaf_files(what, files);
    let smooth = check_ismv_file(what, files);
    assert!(cmaf > 0 && smooth <= cmaf, "{what}: {cmaf} CMAF files, {smooth} tracks in an ismv");
}

#[test]
fn avc_and_aac_with_edits_are_packed() {
    check_packed_files("pack-avc-aac", &[&avc_aac()]);
}

#[test]
fn hevc_with_closed_and_open_gops_is_packed() {
    check_packed_files("pack-hevc", &[&hevc()]);
    check_packed_files("pack-hevc-open", &[&hevc_open()]);
}

#[test]
fn fragments_with_every_kind_of_index_are_packed() {
    check_packed_files("pack-fragmented", &[&fragmented()]);
    check_packed_files("pack-sidx", &[&with_sidx()]);
    check_packed_files("pack-mfra", &[&with_mfra()]);
}

#[test]
fn renditions_and_languages_are_packed() {
    let mut files = ladder();
    // Without B-frames, this rendition reorders less than the others.
    files.push(make(
        "pack-no-b-frames",
        "mp4",
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=9 -c:v libx264 -preset veryfast -g 25 \
         -keyint_min 25 \
         -sc_threshold 0 -pix_fmt yuv420p -bf 0 -b:v 60k",
    ));
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    check_packed_files("pack-ladder", &files);
}

/// Key frames lie at scene changes, just before and just after multiples of the target, at rates
/// that round.
#[test]
fn irregular_key_frames_are_packed() {
    for (rate, audio, frames) in [
        ("30000/1001", 44100, "0,1.97,2.4,3.99,5.5,5.99,8.2"),
        ("60", 48000, "0,1.99,3.98,4.01,6.5,7.99,9.9"),
        ("24000/1001", 32000, "0,0.5,3.1,3.97,7.9"),
    ] {
        let file = make(
            "pack-irregular",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=192x108:rate={rate}:duration=11 \
                 -f lavfi -i sine=frequency=440:sample_rate={audio}:duration=11 \
                 -c:v libx264 -preset veryfast -bf 2 \
                 -g 500 -sc_threshold 0 -force_key_frames {frames} -pix_fmt yuv420p -c:a aac -b:a 64k"
            ),
        );
        check_packed_files(&format!("pack-irregular-{audio}"), &[&file]);
    }
}

#[test]
fn every_codec_is_packed() {
    let source = "-f lavfi -i testsrc2=size=192x108:rate=25:duration=5 \
        -f lavfi -i sine=frequency=440:sample_rate=48000:duration=5";
    for (video, audio) in [
        ("libx264 -preset ultrafast -g 25 -pix_fmt yuv420p", "eac3 -b:a 192k"),
        (
            "libx265 -preset ultrafast -x265-params keyint=25:log-level=error:pools=none -tag:v hvc1",
            "ac3 -b:a 192k",
        ),
        ("libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -b:v 100k", "libopus -b:a 64k"),
        ("libaom-av1 -cpu-used 8 -usage realtime -g 25 -b:v 100k", "flac"),
        ("libx264 -preset ultrafast -bf 3 -g 25 -pix_fmt yuv420p", "libmp3lame -b:a 96k"),
    ] {
        let file = make("pack-codec", "mp4", &format!("{source} -c:v {video} -c:a {audio} -strict -2"));
        let what: Vec<&str> = [video, audio].iter().filter_map(|c| c.split(' ').next()).collect();
        check_packed_files(&format!("pack-{}", what.join("-")), &[&file]);
    }
}

/// Real files from other writers.
#[test]
fn shared_media_are_packed() {
    let files = [
        "androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4",
        "androidx/edit_list_positive_shift.mp4",
        "androidx/fragmented_captions_h265.mp4",
        "androidx/h265_bframes.mp4",
        "androidx/hdr10-av1.mp4",
        "androidx/long_edit_list_audioonly.mp4",
        "androidx/sample.mp4",
        "androidx/sample_2_byte_NAL_length.mp4",
        "androidx/sample_ac3_aac.mp4",
        "androidx/sample_eac3joc.mp4",
        "androidx/sample_fragmented_seekable_multiple_sidx.mp4",
        "androidx/sample_opus_fragmented.mp4",
        "androidx/sample_portrait.mp4",
        "mp4ff/bbb_prog_10s.mp4",
        "mp4ff/ed_hevc.mp4",
        "mp4ff/v300_multiple_segments.mp4",
    ];
    let present: Vec<_> = files.iter().filter_map(|name| Some((*name, shared(name)?))).collect();
    let failed: Vec<_> = present
        .iter()
        .filter(|(name, file)| {
            std::panic::catch_unwind(|| check_packed_files(&format!("pack-{name}"), &[file])).is_err()
        })
        .map(|(name, _)| name)
        .collect();
    let skipped = files.len() - present.len();
    eprintln!("{} of {} shared files are present, {skipped} skipped", present.len(), files.len());
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn files_that_cannot_be_packed_are_refused() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let name = origin.names(TrackKind::Video).remove(0);
    let track = origin.title.find(&name).unwrap();
    let plan = origin.plan(&Resource::DashSegment(name.clone(), 1)).unwrap();
    let fragment = Fragment::of(&plan).unwrap();
    assert_eq!((fragment.bytes, fragment.moof_at, fragment.sync), (plan.content_length, 24, true));
    let reason =
        |fragments: &[Fragment]| cmaf::header(&origin.title, track, &[], fragments).map_err(|e| e.reason());
    assert!(reason(&[fragment]).is_ok());
    assert_eq!(reason(&[Fragment { bytes: (1 << 31) - 1, ..fragment }]).map(drop), Ok(()));
    assert_eq!(reason(&[Fragment { bytes: 1 << 31, ..fragment }]), Err("segment_too_large"));
    let ascending = |n: i64| Fragment { earliest: n, first: n, ..fragment };
    let many: Vec<Fragment> = (0..65535).map(ascending).collect();
    assert!(reason(&many).is_ok());
    assert_eq!(reason(&[many, vec![ascending(65535)]].concat()), Err("segment_too_large"));
    assert_eq!(
        cmaf::header(&origin.title, 7, &[], &[fragment]).map_err(|e| e.reason()),
        Err("no_such_track")
    );

    assert_eq!(IsmvFile::new(&origin.title, &[]).map(drop).map_err(|e| e.reason()), Err("no_such_track"));
    assert_eq!(IsmvFile::new(&origin.title, &[7]).map(drop).map_err(|e| e.reason()), Err("no_such_track"));
    // TS is neither CMAF nor Smooth Streaming.
    let ts = origin.plan(&Resource::HlsTsSegment(vec![name], 1)).unwrap();
    assert!(Fragment::of(&ts).is_err());
}
