//! Clips in every protocol: they hold the source's packets between two sync samples, at the times
//! that the manifest states.

use crate::{
    hds,
    media::{avc_aac, fragmented, hevc, hevc_open, ladder, with_mfra, with_sidx, write},
    player::{BASE, fetch, multivariant, play},
    smooth,
};
use dash_mpd_core::check_conformity;
use latemux_testmedia::origin::Origin;
use latemux_testmedia::{
    probe::{self, Packet, Stream, probe},
    recipe::make,
};
use std::{fs, path::PathBuf, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

/// A clip of a source with a key frame every second, or at other known times.
struct Case {
    files: Vec<PathBuf>,
    query: &'static str,
    /// Start and end in ms; audio may differ by one frame.
    range: (i64, i64),
}

fn cases() -> Vec<Case> {
    let case = |files: Vec<PathBuf>, query, range| Case { files, query, range };
    vec![
        // Both ends lie inside segments.
        case(vec![avc_aac()], "?vbegin=3.2&vend=6.7", (3000, 7000)),
        // Both ends lie on the grid.
        case(vec![avc_aac()], "?vbegin=2.9&vend=4", (2000, 4000)),
        case(vec![avc_aac()], "?vbegin=4.5", (4000, i64::MAX)),
        case(vec![avc_aac()], "?vend=2.5", (i64::MIN, 3000)),
        // Within one GOP, in the first segment, and in the last.
        case(vec![avc_aac()], "?vbegin=3.5&vend=3.6", (3000, 4000)),
        case(vec![avc_aac()], "?vbegin=1.000000001&vend=1.5", (1000, 2000)),
        case(vec![avc_aac()], "?vbegin=8.5&vend=100", (8000, i64::MAX)),
        // 30 frames of 1001/30000 s.
        case(vec![hevc()], "?vbegin=1.1&vend=4", (1001, 4004)),
        case(vec![hevc_open()], "?vbegin=1.1&vend=4", (1001, 4004)),
        case(vec![fragmented()], "?vbegin=3.2&vend=6.7", (3000, 7000)),
        case(vec![with_sidx()], "?vbegin=3.2&vend=6.7", (3000, 7000)),
        case(vec![with_mfra()], "?vbegin=3.2&vend=6.7", (3000, 7000)),
        case(ladder(), "?vbegin=3.2&vend=6.7", (3000, 7000)),
    ]
}

fn millis(time: i64, scale: u32) -> i64 {
    (time * 1000).div_euclid(i64::from(scale))
}

/// Returns the packets of a source in a clip: video from key frame to key frame in decode order,
/// audio by its time.
fn wanted(source: &Stream, (begin, end): (i64, i64)) -> &[Packet] {
    let time = |packet: &Packet| millis(packet.pts, source.timescale);
    let cut = |at: i64| {
        let found = source.packets.iter().position(|p| p.key && time(p) >= at);
        found.unwrap_or(source.packets.len())
    };
    let begin = if begin == i64::MIN { 0 } else { cut(begin) };
    &source.packets[begin..cut(end)]
}

/// Finds the source of a demuxed track by the hashes of its packets, and returns it with the
/// packets that should be present. Fragments of audio are not cut: of those, the packets must be
/// contiguous.
#[track_caller]
fn source_of<'a>(what: &str, got: &Stream, sources: &'a [Stream], case: &Case) -> (&'a Stream, &'a [Packet]) {
    let hashes = |packets: &[Packet]| packets.iter().map(|p| p.hash.clone()).collect::<Vec<_>>();
    let ours = hashes(&got.packets);
    for source in sources.iter().filter(|s| s.kind == got.kind) {
        let want = wanted(source, case.range);
        if hashes(want) == ours {
            return (source, want);
        }
        // Some packets are presented before the source's first key frame, or hidden by its edit
        // list.
        let at = source.packets.windows(ours.len()).position(|w| hashes(w) == ours);
        if let Some(at) = at {
            let first = &source.packets[at];
            let last = &source.packets[at + ours.len() - 1];
            let near = |a: i64, b: i64| a == b || (a - b).abs() <= 1100;
            let from = want.first().unwrap();
            let to = want.last().unwrap();
            assert!(
                got.kind == "audio" || (first.dts, last.dts) == (from.dts, to.dts),
                "{what}: {first:?} to {last:?}, not {from:?} to {to:?}"
            );
            let ms = |p: &Packet| millis(p.pts, source.timescale);
            assert!(near(ms(first), ms(from)) && near(ms(last), ms(to)), "{what}: {first:?} {from:?}");
            return (source, &source.packets[at..at + ours.len()]);
        }
    }
    panic!("{what}: no source has these {} packets", ours.len());
}

/// Returns true if the source's audio can be cut only where fragments start.
fn is_cut_at_fragments(case: &Case) -> bool {
    [with_mfra(), fragmented()].contains(&case.files[0])
}

fn sources(case: &Case) -> Vec<Stream> {
    case.files.iter().flat_map(|file| probe(file, &[]).streams).collect()
}

fn demux(what: &str, bytes: &[u8]) -> Vec<Stream> {
    let file = write(&format!("clip-{what}"), bytes);
    let probe = probe::probe(&file, &[]);
    fs::remove_file(file).unwrap();
    probe.streams
}

#[test]
fn dash_clips_hold_the_packets_at_their_times() {
    for (n, case) in cases().iter().enumerate() {
        for option in ["", "mpd_segment_template=number&"] {
            let mut origin = Origin::open(&case.files, TARGET);
            let sources = sources(case);
            let what = format!("{} {option}{}", case.files[0].display(), case.query);
            let query = case.query.replace('?', &format!("?{option}"));
            let text = String::from_utf8(fetch(&mut origin, &format!("{BASE}.mpd{query}")).unwrap().bytes);
            let text = text.unwrap();
            let mpd = dash_mpd_core::parse(&text).unwrap();
            assert_eq!(check_conformity(&mpd), Vec::<String>::new(), "{text}");
            let mut starts = Vec::new();
            let mut ends = Vec::new();
            // Sets of I-frames have tests of their own.
            let plain = mpd.periods[0].adaptations.iter().filter(|set| set.essential_property.is_empty());
            for set in plain {
                for representation in &set.representations {
                    let template =
                        representation.SegmentTemplate.as_ref().or(set.SegmentTemplate.as_ref()).unwrap();
                    let id = representation.id.as_ref().unwrap();
                    let fill = |url: &Option<String>| {
                        format!("{BASE}{}", url.clone().unwrap().replace("$RepresentationID$", id))
                    };
                    let mut bytes = fetch(&mut origin, &fill(&template.initialization)).unwrap().bytes;
                    let scale = template.timescale.unwrap();
                    let offset = template.presentationTimeOffset.unwrap_or(0);
                    let mut at = 0;
                    let mut number = template.startNumber.unwrap_or(1);
                    for s in &template.SegmentTimeline.as_ref().unwrap().segments {
                        if let Some(t) = s.t {
                            at = t;
                            starts.push((t as f64 - offset as f64) / scale as f64);
                        }
                        for _ in 0..=s.r.unwrap_or(0) {
                            let url = fill(&template.media)
                                .replace("$Time$", &at.to_string())
                                .replace("$Number$", &number.to_string());
                            bytes.extend(
                                fetch(&mut origin, &url).unwrap_or_else(|e| panic!("{url}: {e}")).bytes,
                            );
                            at += s.d;
                            number += 1;
                        }
                    }
                    ends.push((at as f64 - offset as f64) / scale as f64);
                    let got = demux(&format!("dash-{n}.mp4"), &bytes).remove(0);
                    let (_, want) = source_of(&what, &got, &sources, case);
                    for (got, want) in got.packets.iter().zip(want) {
                        assert_eq!((got.dts, got.pts, got.key), (want.dts, want.pts, want.key), "{what}");
                    }
                }
            }
            // The period starts with the first track and lasts until the end of the last one.
            let least = starts.iter().copied().fold(f64::MAX, f64::min);
            assert!(least.abs() < 1e-4 && starts.iter().all(|s| *s < 1.1), "{what}: {starts:?}");
            let duration = mpd.mediaPresentationDuration.unwrap().as_secs_f64();
            let last = ends.iter().copied().fold(0.0, f64::max);
            assert!((duration - last).abs() < 1e-4, "{what}: {duration} {ends:?}");
        }
    }
}

/// Checks that playlists state the duration of their packets, and that this differs from the clip
/// by at most a frame.
fn check_hls(query: &str, kind: &str) {
    for (n, case) in cases().iter().enumerate() {
        let mut origin = Origin::open(&case.files, TARGET);
        let sources = sources(case);
        let what = format!("{} {kind} {}", case.files[0].display(), case.query);
        let full = case.query.replace('?', query);
        let (text, list) = multivariant(&mut origin, &full);
        let uris: Vec<String> =
            list.variants.iter().filter(|v| !v.is_i_frame).map(|v| v.uri.clone()).collect();
        let more = list.alternatives.iter().filter_map(|a| a.uri.clone());
        for (i, uri) in uris.into_iter().chain(more).enumerate() {
            assert!(uri.contains(&full[1..]), "{what}: {uri} should contain {full}\n{text}");
            let played = play(&mut origin, &uri);
            let ts = played.init.is_none();
            let file = format!("{kind}-{n}-{i}.{}", if ts { "ts" } else { "mp4" });
            let mut first = i64::MAX;
            for got in demux(&file, &played.whole()) {
                if ts {
                    // TS frames the bytes differently, so only times are compared.
                    let exact = |t: i64, scale: u32| (t * 90_000).div_euclid(i64::from(scale)) + 900_000;
                    let same = |source: &&Stream| {
                        let packets = wanted(source, case.range);
                        source.kind == got.kind
                            && packets.len() == got.packets.len()
                            && packets
                                .iter()
                                .zip(&got.packets)
                                .all(|(a, b)| exact(a.pts, source.timescale) == b.pts)
                    };
                    let coarse = got.kind == "audio" && is_cut_at_fragments(case);
                    assert!(coarse || sources.iter().any(|s| same(&s)), "{what} {uri} {}", got.kind);
                } else {
                    let (source, want) = source_of(&what, &got, &sources, case);
                    assert_eq!(got.timescale, source.timescale);
                    assert!(
                        got.packets.iter().zip(want).all(|(got, want)| got.pts == want.pts),
                        "{what} {uri}"
                    );
                }
                first = first.min(millis(got.packets.iter().map(|p| p.pts).min().unwrap(), got.timescale));
            }
            let total: u64 = played.durations.iter().sum();
            let (begin, end) = case.range;
            if begin != i64::MIN && end != i64::MAX {
                let want = u64::try_from(end - begin).unwrap() * 1000;
                let difference = total.abs_diff(want);
                let frame = if is_cut_at_fragments(case) { 1_100_000 } else { 41_000 };
                assert!(difference <= frame, "{what} {uri}: {total} of {want}");
                let start = first - if ts { 10_000 } else { 0 };
                let difference = start.abs_diff(begin);
                assert!(difference * 1000 <= frame + 70_000, "{what} {uri}: from {start}, not {begin}");
            }
        }
        // There are as many I-frames as segments, and the first is the first frame of the clip.
        for frames in list.variants.iter().filter(|v| v.is_i_frame) {
            let played = play(&mut origin, &frames.uri);
            let got = demux(
                &format!("{kind}-{n}-i.{}", if played.init.is_none() { "ts" } else { "mp4" }),
                &played.whole(),
            );
            assert!(got[0].packets.iter().all(|p| p.key) && got[0].packets.len() == played.segments.len());
            let video: Vec<&Stream> = sources.iter().filter(|s| s.kind == "video").collect();
            let first = wanted(video[0], case.range)[0].pts;
            let at = millis(got[0].packets[0].pts, got[0].timescale)
                - if played.init.is_none() { 10_000 } else { 0 };
            assert_eq!(at, millis(first, video[0].timescale), "{what}");
        }
    }
}

#[test]
fn hls_ts_clips_hold_the_packets_at_their_times() {
    check_hls("?", "ts");
}

#[test]
fn hls_cmaf_clips_hold_the_packets_at_their_times() {
    check_hls("?hls_fmp4&", "cmaf");
}

/// Players take `Duration` for the end of the last fragment.
#[test]
fn smooth_clips_hold_the_packets_and_do_not_end_beyond_their_duration() {
    for (n, case) in cases().iter().enumerate() {
        let mut origin = Origin::open(&case.files, TARGET);
        let sources = sources(case);
        let what = format!("{} {}", case.files[0].display(), case.query);
        let (_, whole) = smooth::play_at(&mut origin, "");
        let (root, levels) = smooth::play_at(&mut origin, case.query);
        assert_eq!(levels.len(), whole.len());
        let mut delays = Vec::new();
        let mut first = i64::MAX;
        let mut last = 0;
        for (i, (level, whole)) in levels.iter().zip(&whole).enumerate() {
            let got = smooth::demuxed(&format!("clip-{n}-{i}"), level);
            let (source, want) = source_of(&what, &got, &sources, case);
            for (pair, fragment) in level.times.windows(2).zip(&level.fragments) {
                let (time, duration, _) = smooth::tfxd(fragment);
                assert_eq!((time, duration), (pair[0], pair[1] - pair[0]), "{what}");
            }
            first = first.min(level.times[0]);
            last = last.max(*level.times.last().unwrap());
            for (got, want) in got.packets.iter().zip(want) {
                delays.push(got.pts + level.times[0] - smooth::floor(want.pts, source.timescale));
            }
            if case.range.0 == i64::MIN {
                // A fragment that is not cut has the bytes of the whole title's at the same time.
                for (n, (pair, fragment)) in level.times.windows(2).zip(&level.fragments).enumerate() {
                    let same = whole.times.windows(2).position(|w| w == pair);
                    assert!(same.is_some() || n + 1 == level.fragments.len(), "{what}: {pair:?}");
                    assert!(same.is_none_or(|at| &whole.fragments[at] == fragment), "{what}: {pair:?}");
                }
            }
        }
        delays.sort_unstable();
        delays.dedup();
        assert_eq!(delays.len(), 1, "{what}: {delays:?}");
        // The first track may be decoded somewhat earlier than 0 in the title's time.
        assert!((0..1_000_000).contains(&first), "{what}: from {first}");
        assert_eq!(root["Duration"], (last - first).to_string(), "{what}");
    }
}

#[test]
fn hds_clips_hold_the_packets_from_0_on() {
    for (n, case) in cases().iter().enumerate() {
        // HDS does not carry HEVC.
        if case.files == [hevc()] || case.files == [hevc_open()] {
            continue;
        }
        let mut origin = Origin::open(&case.files, TARGET);
        let sources = sources(case);
        let what = format!("{} {}", case.files[0].display(), case.query);
        let mut delays = Vec::new();
        for (i, media) in hds::play_at(&mut origin, case.query).iter().enumerate() {
            let times = media.bootstrap.times();
            assert_eq!(times.len(), media.fragments.len() + 1);
            assert!(times[0] < 100, "{what}: {times:?}");
            for got in hds::demuxed(&format!("clip-{n}-{i}"), media) {
                let (source, want) = source_of(&what, &got, &sources, case);
                for (got, want) in got.packets.iter().zip(want) {
                    delays.push(got.pts - hds::millis(want.pts, source.timescale));
                }
                let first = u64::try_from(got.packets[0].dts).unwrap();
                assert!(first >= times[0] && first - times[0] < 1100, "{what}: {first} {times:?}");
            }
        }
        delays.sort_unstable();
        delays.dedup();
        assert_eq!(delays.len(), 1, "{what}: {delays:?}");
    }
}

/// Returns URLs and bytes of all segments in the first variant's playlist.
fn segments(origin: &mut Origin, query: &str) -> Vec<(String, Vec<u8>)> {
    let (_, list) = multivariant(origin, query);
    let uri = list.variants[0].uri.clone();
    let played = play(origin, &uri);
    played.playlist.segments.iter().map(|s| s.uri.clone()).zip(played.segments).collect()
}

#[test]
fn whole_segments_of_a_clip_keep_their_urls() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    for option in ["?", "?hls_fmp4&"] {
        let whole = segments(&mut origin, option.strip_suffix(['?', '&']).unwrap_or_default());
        // From 2 s to 6 s, on the grid.
        assert_eq!(segments(&mut origin, &format!("{option}vbegin=2&vend=6")), whole[1..3]);
        // From 3 s to 7 s: the first and the last are cut.
        let cut = segments(&mut origin, &format!("{option}vbegin=3&vend=7"));
        assert_eq!(cut.len(), 3);
        assert_eq!(cut[1], whole[2]);
        for (cut, whole) in [(&cut[0], &whole[1]), (&cut[2], &whole[3])] {
            assert_eq!(cut.0, format!("{}?vbegin=3&vend=7", whole.0));
            assert!(cut.1.len() < whole.1.len());
        }
    }
    // A clip that does not touch a segment changes neither the segment nor its ETag.
    let whole = segments(&mut origin, "")[2].0.clone();
    let plain = fetch(&mut origin, &format!("{BASE}{whole}")).unwrap();
    let clipped = fetch(&mut origin, &format!("{BASE}{whole}?vbegin=3&vend=7")).unwrap();
    assert_eq!((plain.digest, plain.bytes), (clipped.digest, clipped.bytes));
    let cut = whole.replace("-3.ts", "-2.ts");
    let plain = fetch(&mut origin, &format!("{BASE}{cut}")).unwrap();
    let clipped = fetch(&mut origin, &format!("{BASE}{cut}?vbegin=3&vend=7")).unwrap();
    assert_ne!(plain.digest, clipped.digest);
    let outside = fetch(&mut origin, &format!("{BASE}{whole}?vbegin=6"));
    assert_eq!(outside.map(drop).map_err(|e| e.reason()), Err("no_such_segment"));
}

/// The audio lasts much longer than the video.
#[test]
fn a_track_that_ends_before_the_clip_is_left_out() {
    let file = make(
        "clip-outlasted",
        "mp4",
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=4 -f lavfi -i sine=sample_rate=48000:duration=12 \
         -c:v libx264 -preset ultrafast -g 25 -pix_fmt yuv420p -c:a aac -b:a 64k",
    );
    let mut origin = Origin::open(&[file], TARGET);
    let video = origin.title.tracks()[0].name.to_string();
    for path in [".mpd", ".m3u8", "Manifest", ".f4m"] {
        let text = fetch(&mut origin, &format!("{BASE}{path}?vbegin=8")).unwrap().bytes;
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains("video") && text.contains("audio"), "{text}");
    }
    for (url, query) in [(format!("x-{video}.m3u8"), "?vbegin=8"), (format!("vbegin=8/x-{video}.abst"), "")] {
        let none = fetch(&mut origin, &format!("{BASE}{url}{query}"));
        assert_eq!(none.map(drop).map_err(|e| e.reason()), Err("clip_empty"), "{url}");
    }
}

#[test]
fn a_clip_beyond_the_end_is_refused() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    for path in [".mpd", ".m3u8", "Manifest", ".f4m"] {
        for query in ["vbegin=9.2", "vbegin=1000000000", "vbegin=500&vend=1000"] {
            let refused = fetch(&mut origin, &format!("{BASE}{path}?{query}"));
            assert_eq!(refused.map(drop).map_err(|e| e.reason()), Err("clip_empty"), "{path} {query}");
        }
        assert!(fetch(&mut origin, &format!("{BASE}{path}?vend=0.000000001")).is_ok(), "{path}");
    }
}
