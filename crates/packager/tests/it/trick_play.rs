//! Fast forward and rewind: lists of I-frames, against the key frames that ffprobe finds.

use crate::{
    media::{fragmented, hevc_open, probe_without_warnings, with_sidx},
    oracles::{Fragment, moov},
    player::{BASE, fetch, multivariant, play},
};
use dash_mpd_core::{AdaptationSet, MPD};
use latemux_testmedia::{
    origin::Origin,
    probe::{Packet, Stream, probe},
    recipe::make,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

const TARGET: Duration = Duration::from_secs(2);

/// Makes video with B-frames and five I-frames in each segment of 2 s, with sound.
fn dense() -> PathBuf {
    make(
        "trick-dense",
        "mp4",
        "-f lavfi -i testsrc2=size=320x180:rate=25:duration=9 -f lavfi -i sine=sample_rate=48000:duration=9 \
         -c:v libx264 -preset veryfast -g 10 -keyint_min 10 -sc_threshold 0 -bf 2 -pix_fmt yuv420p \
         -c:a aac -b:a 64k",
    )
}

/// Makes video of which every frame is a sync sample.
fn intra() -> PathBuf {
    make(
        "trick-intra",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=3 -c:v libx264 -preset ultrafast -g 1 -pix_fmt yuv420p",
    )
}

/// Returns the presentation times in microseconds of the key frames of a stream.
fn key_times(stream: &Stream) -> Vec<i64> {
    let keys = stream.packets.iter().filter(|packet| packet.key);
    let mut times: Vec<i64> = keys.map(|packet| micros(packet, stream)).collect();
    times.sort_unstable();
    times
}

fn micros(packet: &Packet, stream: &Stream) -> i64 {
    let scale = i64::from(stream.timescale);
    (packet.pts * 1_000_000 + scale / 2).div_euclid(scale)
}

fn iframes_of(origin: &mut Origin, query: &str) -> String {
    let (_, playlist) = multivariant(origin, query);
    playlist.variants.iter().find(|variant| variant.is_i_frame).unwrap().uri.clone()
}

#[test]
fn an_iframe_playlist_lists_every_sync_sample() {
    for file in [dense(), hevc_open(), intra(), with_sidx(), fragmented()] {
        let source = probe(&file, &[]);
        let expected = key_times(source.first("video"));
        for query in ["", "?hls_fmp4"] {
            let mut origin = Origin::open(&[&file], TARGET);
            let uri = iframes_of(&mut origin, query);
            let played = play(&mut origin, &uri);
            let init = played.init.clone().unwrap_or_default();
            let delay = if played.init.is_none() { 10_000_000 } else { 0 };
            let mut shown = Vec::new();
            for (n, segment) in played.segments.iter().enumerate() {
                let name = format!("trick-{n}");
                let stream = probe_without_warnings(&name, &[&init[..], segment].concat()).remove(0);
                assert_eq!(stream.packets.len(), 1, "{} {query}", file.display());
                assert!(stream.packets[0].key);
                shown.push(micros(&stream.packets[0], &stream) - delay);
            }
            let what = format!("{} {query}: {shown:?} of {expected:?}", file.display());
            assert_eq!(shown.len(), expected.len(), "{what}");
            // Times of TS are rounded down to 90 kHz.
            assert!(shown.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 12), "{what}");
            // An I-frame lasts until the next one.
            let mut at = 0;
            for (n, duration) in played.durations.iter().enumerate() {
                at += i64::try_from(*duration).unwrap();
                if let Some(next) = expected.get(n + 1) {
                    // Leading pictures of an open GOP are presented before its sync sample.
                    assert!((at - next).abs() <= 130_000, "{what}: {at} {next}");
                }
            }
        }
    }
}

#[test]
fn iframes_of_a_clip_are_those_of_the_whole_title() {
    let mut origin = Origin::open(&[&dense()], TARGET);
    for query in ["", "?hls_fmp4"] {
        let whole = iframes_of(&mut origin, query);
        let and = if query.is_empty() { "?" } else { "&" };
        let clip = iframes_of(&mut origin, &format!("{query}{and}vbegin=0.9&vend=5"));
        let urls = |uri: &str, origin: &mut Origin| -> Vec<String> {
            play(origin, uri).playlist.segments.iter().map(|segment| segment.uri.clone()).collect()
        };
        let whole = urls(&whole, &mut origin);
        let clip = urls(&clip, &mut origin);
        // I-frames are 0.4 s apart: the clip begins with the one at 0.8 s, the third.
        assert_eq!(clip.first(), whole.get(2), "{clip:?} of {whole:?}");
        assert_eq!(clip, whole[2..2 + clip.len()]);
        assert!((10..=13).contains(&clip.len()), "{clip:?}");
    }
}

#[test]
fn places_of_iframes_have_one_spelling() {
    let mut origin = Origin::open(&[&dense()], TARGET);
    let uri = iframes_of(&mut origin, "?hls_fmp4");
    let list = play(&mut origin, &uri).text;
    let first = list.lines().find(|line| line.ends_with("-1.m4s")).unwrap().strip_suffix(".m4s").unwrap();
    let url = |number: &str| format!("/a/x.mp4/keyframes/{first}{number}.m4s");
    assert!(fetch(&mut origin, &url("-5")).is_ok());
    assert!(fetch(&mut origin, &url("-6")).is_err());
    assert!(fetch(&mut origin, &url("-4294967295")).is_err());
    for spelling in ["-0", "-1", "-02"] {
        assert!(latemux_packager::Address::parse(&url(spelling), None).is_err(), "{spelling}");
    }
}

fn mpd(origin: &mut Origin, query: &str) -> MPD {
    let text = String::from_utf8(fetch(origin, &format!("/a/x.mp4/.mpd{query}")).unwrap().bytes).unwrap();
    let mpd = dash_mpd_core::parse(&text).unwrap();
    assert_eq!(dash_mpd_core::check_conformity(&mpd), Vec::<String>::new(), "{text}");
    mpd
}

fn trick_sets(mpd: &MPD) -> Vec<&AdaptationSet> {
    let scheme = "http://dashif.org/guidelines/trickmode";
    let is_trick =
        |set: &&AdaptationSet| set.essential_property.iter().any(|property| property.schemeIdUri == scheme);
    mpd.periods[0].adaptations.iter().filter(is_trick).collect()
}

/// Follows a trick mode set, and returns for each I-frame the stated start and duration, and its
/// stream and fragment.
fn follow(origin: &mut Origin, set: &AdaptationSet) -> Vec<(i64, i64, Stream, Fragment)> {
    let template = set.SegmentTemplate.as_ref().unwrap();
    let init =
        fetch(origin, &format!("/a/x.mp4/{}", template.initialization.clone().unwrap())).unwrap().bytes;
    let moov = moov(&init);
    let mut frames = Vec::new();
    let mut at = 0;
    let mut number = template.startNumber.unwrap();
    for run in &template.SegmentTimeline.as_ref().unwrap().segments {
        at = run.t.unwrap_or(at);
        for _ in 0..=run.r.unwrap_or(0) {
            let url = template.media.as_ref().unwrap().replace("$Number$", &number.to_string());
            let frame = fetch(origin, &format!("/a/x.mp4/{url}")).unwrap();
            assert_eq!(frame.bytes.len() as u64, frame.content_length);
            let fragment = Fragment::read(&moov, &frame.bytes);
            let streams =
                probe_without_warnings(&format!("dash-{number}"), &[init.clone(), frame.bytes].concat());
            let signed = |n: u64| i64::try_from(n).unwrap();
            frames.push((signed(at), signed(run.d), streams.into_iter().next().unwrap(), fragment));
            (at, number) = (at + run.d, number + 1);
        }
    }
    let url = template.media.as_ref().unwrap();
    for beyond in ["0".to_owned(), (1_000_000).to_string()] {
        let path = format!("/a/x.mp4/{}", url.replace("$Number$", &beyond));
        let parsed = latemux_packager::Address::parse(&path, None);
        assert!(parsed.is_err() || fetch(origin, &path).is_err());
    }
    frames
}

fn check_trick_set(file: &Path, query: &str, keys: &[i64], every: Option<f64>) {
    let mut origin = Origin::open(&[file], TARGET);
    let mpd = mpd(&mut origin, query);
    let [set] = trick_sets(&mpd)[..] else { panic!("one set") };
    let main = &mpd.periods[0].adaptations[0];
    assert_eq!(set.essential_property[0].value, main.id);
    let [representation] = &set.representations[..] else { panic!("one representation") };
    assert_eq!(representation.codingDependency, Some(false));
    assert_eq!(representation.maxPlayoutRate, every);
    let frames = follow(&mut origin, set);
    assert_eq!(frames.len(), keys.len(), "{}", file.display());
    let scale = i64::try_from(set.SegmentTemplate.as_ref().unwrap().timescale.unwrap()).unwrap();
    for ((start, duration, stream, fragment), key) in frames.iter().zip(keys) {
        let [packet] = &stream.packets[..] else { panic!("one packet") };
        assert!(packet.key);
        assert_eq!(packet.pts * scale, start * i64::from(stream.timescale), "{}", file.display());
        assert!((micros(packet, stream) - key).abs() <= 1);
        // ffmpeg states the duration of the codec, so that of the fragment is read.
        assert_eq!((fragment.start(), fragment.end()), (*start, start + duration));
    }
    // No pause, and no overlap.
    assert!(frames.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
}

#[test]
fn a_trick_mode_set_holds_every_sync_sample_until_the_next() {
    for (file, every) in [(dense(), Some(9.0)), (with_sidx(), None)] {
        let source = probe(&file, &[]);
        let keys = key_times(source.first("video"));
        for query in ["", "?mpd_segment_template=number"] {
            check_trick_set(&file, query, &keys, every);
        }
    }
    let source = probe(&dense(), &[]);
    let keys = key_times(source.first("video"));
    check_trick_set(&dense(), "?vbegin=0.9&vend=4.8", &keys[2..12], Some(10.0));
}

#[test]
fn video_of_sync_samples_alone_needs_no_trick_mode_set() {
    let mut origin = Origin::open(&[&intra()], TARGET);
    assert!(trick_sets(&mpd(&mut origin, "")).is_empty());
    // Sound has none either.
    let mut origin = Origin::open(&[&dense()], TARGET);
    let sound = mpd(&mut origin, "?filter=type%3D%3D%22audio%22");
    assert!(trick_sets(&sound).is_empty());
}

/// Makes video with 100,100 sync samples in 4004 s.
fn with_many_sync_samples() -> PathBuf {
    let short = make(
        "trick-short",
        "mp4",
        "-f lavfi -i testsrc2=size=32x32:rate=50:duration=2 -c:v libx264 -preset ultrafast -g 2 -keyint_min 2 \
         -sc_threshold 0 -bf 0 -pix_fmt yuv420p",
    );
    make("trick-many", "mp4", &format!("-stream_loop 2001 -i {} -c copy", short.display()))
}

#[test]
fn beyond_the_limit_only_the_first_iframe_of_each_segment_is_listed() {
    let mut origin = Origin::open(&[&with_many_sync_samples()], TARGET);
    let count = |origin: &mut Origin, query: &str| {
        let url = iframes_url(origin, query);
        let text = fetch(origin, &url).unwrap().bytes;
        String::from_utf8(text).unwrap().matches("#EXTINF:").count()
    };
    assert_eq!(count(&mut origin, ""), 2002, "one for each segment of 2 s");
    assert!(trick_sets(&mpd(&mut origin, "")).is_empty());
    // A clip has fewer, and lists all of them.
    assert_eq!(count(&mut origin, "?vend=3000"), 75_000);
    let clip = mpd(&mut origin, "?vend=3000");
    let runs =
        &trick_sets(&clip)[0].SegmentTemplate.as_ref().unwrap().SegmentTimeline.as_ref().unwrap().segments;
    assert_eq!(runs.iter().map(|run| 1 + run.r.unwrap_or(0)).sum::<i64>(), 75_000);
}

fn iframes_url(origin: &mut Origin, query: &str) -> String {
    format!("{BASE}{}", iframes_of(origin, query))
}
