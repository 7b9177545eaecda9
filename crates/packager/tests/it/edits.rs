//! Edit lists that start inside the media, in every protocol: every packet is the one that ffprobe
//! finds in the source, and players, which drop what is presented before 0, show all that the edit
//! list shows.

use crate::{
    cmaf, hds, hls,
    media::{Source, assert_same_packets, avc_aac, probe_without_warnings},
    oracles::{Fragment, moov},
    smooth, ts,
};
use bytes::Bytes;
use latemux_index::media::{IndexSource, TrackKind};
use latemux_testmedia::{
    edits::{Edit, movie_timescale, with_edits},
    origin::Origin,
    probe::{Stream, probe},
    recipe::{folder, make},
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

const TARGET: Duration = Duration::from_secs(2);

/// Writes a copy of a file whose tracks have edits, and returns its path. `edits` are those of
/// video and audio.
fn edited(name: &str, file: &Path, edits: [&[Edit]; 2]) -> PathBuf {
    let bytes = with_edits(&fs::read(file).unwrap(), &[(b"vide", edits[0]), (b"soun", edits[1])]);
    let path = folder().join(format!("edits-{}-{name}.mp4", std::process::id()));
    fs::write(&path, bytes).unwrap();
    path
}

/// Copies a file so that the presentation starts `into` milliseconds after the sync sample at 4 s.
fn starting(name: &str, file: &Path, into: u32) -> PathBuf {
    let plain = edited("plain", file, [&[], &[]]);
    let streams = probe(&plain, &[]).streams;
    fs::remove_file(plain).unwrap();
    let video = &streams[0];
    let four_seconds = i64::from(video.timescale) * 4;
    let key = video.packets.iter().find(|p| p.key && p.dts >= four_seconds).unwrap();
    let ticks = |scale: u32, millis: u32| scale * millis / 1000;
    let start = u32::try_from(key.pts).unwrap() + ticks(video.timescale, into);
    // To the end of the media.
    let lasts = ticks(movie_timescale(&fs::read(file).unwrap()), 5200 - into);
    let sound = ticks(streams[1].timescale, 4000 + into);
    edited(name, file, [&[(lasts, Some(start))], &[(lasts, Some(sound))]])
}

fn in_fragments(file: &Path, more: &str) -> PathBuf {
    let flags = format!("frag_keyframe+delay_moov+default_base_moof+skip_trailer{more}");
    make("edits-fragments", "mp4", &format!("-i {} -c copy -movflags {flags}", file.display()))
}

/// Returns the first decode time of a track's first segment, and the start of the presentation in
/// its init segment's edit list, in seconds.
fn decode_and_edit(origin: &mut Origin, kind: TrackKind) -> (f64, f64) {
    let (init, segments) = origin.cmaf(&origin.names(kind)[0].clone());
    let moov = moov(&init);
    let scale = f64::from(moov.trak[0].mdia.mdhd.timescale);
    // Without the edit list, times are those of the media.
    let mut unedited = moov.clone();
    unedited.trak[0].edts = None;
    let edit = (Fragment::read(&unedited, &segments[0]).start() - Fragment::read(&moov, &segments[0]).start())
        as f64;
    let at = segments[0].windows(4).position(|w| w == b"tfdt").unwrap();
    let wide = segments[0][at + 4] == 1;
    let field = &segments[0][at + 8..at + if wide { 16 } else { 12 }];
    (field.iter().fold(0_u64, |n, &b| n << 8 | u64::from(b)) as f64 / scale, edit / scale)
}

/// hls.js and Shaka Player subtract the first `tfdt` of a playlist from all times, and the browser
/// the edit list: 4 s were subtracted twice, so playback ended 4 s early.
#[test]
fn media_before_the_start_was_subtracted_by_the_player_and_by_the_browser() {
    for fragments in [None, Some(""), Some("+global_sidx")] {
        let file = fragments.map_or_else(avc_aac, |more| in_fragments(&avc_aac(), more));
        let file = starting(&format!("sync{}", fragments.unwrap_or("-tables")), &file, 0);
        let source = Source::files(&[&file]);
        let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
        assert_eq!(reported(&origin), [""; 0]);
        for kind in [TrackKind::Video, TrackKind::Audio] {
            let (decode, edit) = decode_and_edit(&mut origin, kind);
            assert!(decode == 0.0 && edit < 0.25, "{fragments:?} {kind:?}: {decode} and {edit}");
        }
        hls::assert_equals_dash(&source.objects);
        // ffprobe does not leave out what an edit list hides in fragments, nor does its sidx
        // reader.
        if fragments.is_none() {
            for (stream, kind) in source.files[0].1.iter().zip([TrackKind::Video, TrackKind::Audio]) {
                let (init, segments) = origin.cmaf(&origin.names(kind)[0].clone());
                let bytes = [vec![init], segments].concat().concat();
                let got = probe_without_warnings("edits-sync", &bytes).remove(0);
                assert_same_packets("edits-sync", &got, stream);
            }
            ts::assert_source_packets("edits-sync", &source, &ts::AAC);
            // ffprobe adds the rest of the edit to the last frame.
            smooth::assert_source_packets("edits-sync", &source, smooth::Rate::Variable);
            hds::assert_source_packets("edits-sync", &source, true);
        } else {
            assert_eq!(origin.title.objects()[0].source, IndexSource::Scan);
        }
        fs::remove_file(file).unwrap();
    }
}

/// Returns the details of the problem `hidden_frames` of a title.
fn reported(origin: &Origin) -> Vec<String> {
    let hidden = origin.title.problems().iter().filter(|problem| problem.reason == "hidden_frames");
    hidden.map(|problem| problem.detail.clone()).collect()
}

/// Returns the source with the times of hidden frames and of the frames that follow them as they
/// are in CMAF, after checking them against the source's own.
fn with_presented_frames(what: &str, source: &Source) -> Source {
    let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
    let name = origin.names(TrackKind::Video).remove(0);
    let (init, segments) = origin.cmaf(&name);
    let bytes: Bytes = [vec![init], segments].concat().concat().into();
    let got = probe_without_warnings(what, &bytes).remove(0);
    let mut files = source.files.clone();
    let want = files[0].1.iter_mut().find(|stream| stream.kind == "video").unwrap();
    check_presented(what, &got, want);
    for (want, got) in want.packets.iter_mut().zip(&got.packets) {
        (want.dts, want.pts) = (got.dts, got.pts);
    }
    want.timescale = got.timescale;
    Source { objects: source.objects.clone(), files }
}

fn check_presented(what: &str, got: &Stream, want: &Stream) {
    let factor = i64::from(got.timescale / want.timescale);
    assert_eq!(i64::from(got.timescale), factor * i64::from(want.timescale), "{what}");
    let hidden = want.packets.iter().filter(|p| p.pts < 0).count();
    assert!(hidden > 5, "{what}: {hidden} hidden");
    assert_eq!(got.packets.len(), want.packets.len(), "{what}");
    let second = i64::from(got.timescale);
    for (n, (got, want)) in got.packets.iter().zip(&want.packets).enumerate() {
        assert_eq!((&got.hash, got.key), (&want.hash, want.key), "{what}: packet {n}");
        assert!(got.pts >= 0 && got.dts <= got.pts, "{what}: packet {n} at {}", got.pts);
        let dts = want.dts * factor;
        let pts = want.pts * factor;
        match want.pts {
            ..0 => assert!(got.pts < second / 50, "{what}: packet {n} at {}", got.pts),
            // A few frames may be presented meanwhile.
            _ if pts < second / 50 => {
                assert!((pts..pts + second / 50).contains(&got.pts), "{what}: packet {n}");
            }
            _ => assert_eq!(got.pts, pts, "{what}: packet {n}"),
        }
        if dts > second / 2 {
            assert_eq!(got.dts, dts, "{what}: packet {n}");
        }
    }
    let mut times: Vec<i64> = got.packets.iter().map(|p| p.pts).collect();
    times.sort_unstable();
    times.dedup();
    assert_eq!((times[0], times.len()), (0, got.packets.len()), "{what}: every frame has its own time");
    assert!(got.packets.windows(2).all(|w| w[0].dts < w[1].dts), "{what}");
}

/// Media Source Extensions drop frames before 0, and with them all up to the next sync sample: a
/// title that was cut inside a GOP began with up to a whole GOP of nothing.
#[test]
fn an_edit_inside_a_gop_lost_all_frames_up_to_the_next_sync_sample() {
    let coarse = || {
        let args = "-f lavfi -i testsrc2=size=192x108:rate=25:duration=9 -f lavfi -i sine=duration=9 -c:v libx264 \
                    -preset veryfast -g 50 -bf 0 -sc_threshold 0 -pix_fmt yuv420p -c:a aac -video_track_timescale 50";
        make("edits-coarse", "mp4", args)
    };
    for (name, file, into) in
        [("gop", avc_aac(), 800), ("frames", avc_aac(), 480), ("coarse", coarse(), 1600)]
    {
        let path = starting(name, &file, into);
        let source = Source::files(&[&path]);
        let what = format!("edits-{name}");
        let details = reported(&Origin::of(source.objects.clone(), TARGET).unwrap());
        assert!(details.len() == 1 && details[0].ends_with(&format!(": {}", into / 40)), "{details:?}");
        hls::assert_equals_dash(&source.objects);
        let presented = with_presented_frames(&what, &source);
        ts::assert_source_packets(&what, &presented, &ts::Expect { tolerance: 4, ..ts::AAC });
        smooth::assert_source_packets(&what, &presented, smooth::Rate::Variable);
        hds::assert_source_packets(&what, &presented, false);
        fs::remove_file(path).unwrap();
    }
}

/// The same packets whether samples are in tables, in fragments or in indexed fragments.
#[test]
fn hidden_frames_have_the_same_times_in_fragments() {
    let mut segments = Vec::new();
    for more in ["", "+global_sidx"] {
        let file = starting(&format!("fragments{more}"), &in_fragments(&avc_aac(), more), 800);
        let mut origin = Origin::open(&[&file], TARGET);
        assert_eq!(origin.title.objects()[0].source, IndexSource::Scan);
        let (decode, edit) = decode_and_edit(&mut origin, TrackKind::Video);
        assert!(decode == 0.0 && edit < 0.25, "{more}: {decode} and {edit}");
        segments.push(origin.cmaf(&origin.names(TrackKind::Video)[0].clone()).1);
        fs::remove_file(file).unwrap();
    }
    assert!(segments[0] == segments[1]);
    let file = starting("tables", &avc_aac(), 800);
    let mut origin = Origin::open(&[&file], TARGET);
    let in_tables = origin.cmaf(&origin.names(TrackKind::Video)[0].clone()).1;
    assert!(in_tables[0] == segments[0][0]);
    fs::remove_file(file).unwrap();
}

/// The list only delays, and everything played from 0 on. It is taken for one that plays all media
/// after the delay.
#[test]
fn a_title_with_only_an_empty_edit_started_at_0() {
    let delay = 3 * movie_timescale(&fs::read(avc_aac()).unwrap());
    let only: &[Edit] = &[(delay, None)];
    let unedited = edited("unedited", &avc_aac(), [&[], &[]]);
    let delayed = edited("delayed", &avc_aac(), [only, only]);
    let mut source = Source::files(&[&unedited]);
    for stream in source.files.iter_mut().flat_map(|(_, streams)| streams) {
        let shift = 3 * i64::from(stream.timescale);
        stream.packets.iter_mut().for_each(|p| (p.dts, p.pts) = (p.dts + shift, p.pts + shift));
    }
    let source = source.stored_as(fs::read(&delayed).unwrap());
    cmaf::assert_source_packets("edits-delayed", &source);
    hls::assert_equals_dash(&source.objects);
    ts::assert_source_packets("edits-delayed", &source, &ts::AAC);
    // Smooth Streaming and HDS begin every title at 0.
    let from_zero = Source::files(&[&unedited]).stored_as(fs::read(&delayed).unwrap());
    smooth::assert_source_packets("edits-delayed", &from_zero, smooth::Rate::Constant);
    hds::assert_source_packets("edits-delayed", &from_zero, true);
    for file in [unedited, delayed] {
        fs::remove_file(file).unwrap();
    }
}
