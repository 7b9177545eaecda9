//! Titles whose tracks are not of one length, and still pictures: sound is cut by the target
//! duration where there is no video, and the clock of TS does not stop.

use crate::{
    cmaf, hds,
    hls::{self, rates, variants},
    media::Source,
    player::{multivariant, play},
    smooth, ts,
};
use dash_mpd_core::check_conformity;
use latemux_index::{media::TrackKind, title::TitleTrack};
use latemux_packager::{Resource, address::DashTemplate};
use latemux_testmedia::{origin::Origin, probe::Packet, recipe::make};
use std::{path::PathBuf, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

const AVC: &str = "-c:v libx264 -preset veryfast -bf 2 -sc_threshold 0 -pix_fmt yuv420p";

fn sine(seconds: u32) -> String {
    format!("-f lavfi -i sine=frequency=440:sample_rate=48000:duration={seconds}")
}

/// Makes `picture` seconds of video with a key frame every second, and `sound` seconds of audio.
fn outlasting(picture: u32, sound: u32) -> PathBuf {
    let video = format!("-f lavfi -i testsrc2=size=192x108:rate=25:duration={picture}");
    make(
        "uneven-sound",
        "mp4",
        &format!("{video} {} {AVC} -g 25 -keyint_min 25 -c:a aac -b:a 64k", sine(sound)),
    )
}

/// Makes three renditions, of which the lowest ends after 5 of 15 s, and their audio.
fn early() -> Vec<PathBuf> {
    let rendition = |height: u32, kbits: u32, seconds: u32| {
        let video =
            format!("-f lavfi -i testsrc2=size={}x{height}:rate=25:duration={seconds}", height * 16 / 9);
        let name = format!("uneven-{height}");
        make(&name, "mp4", &format!("{video} {AVC} -g 25 -keyint_min 25 -b:v {kbits}k"))
    };
    let audio = make("uneven-audio", "mp4", &format!("{} -c:a aac -b:a 64k", sine(15)));
    vec![rendition(90, 60, 5), rendition(180, 300, 15), rendition(360, 900, 15), audio]
}

/// Makes a still picture of one frame, or of one frame a second with one key frame, and 64 s of
/// sound.
fn still(rate: &str) -> PathBuf {
    let video = format!("-f lavfi -i testsrc2=size=192x108:rate={rate}:duration=64");
    make("uneven-still", "mp4", &format!("{video} {} {AVC} -bf 0 -g 250 -c:a aac -b:a 64k", sine(64)))
}

/// Makes four slides of 16 s, which are key frames, and their sound.
fn slides() -> PathBuf {
    let video = "-f lavfi -i testsrc2=size=192x108:rate=1/16:duration=64";
    make("uneven-slides", "mp4", &format!("{video} {} {AVC} -bf 0 -g 1 -c:a aac -b:a 64k", sine(64)))
}

/// Returns a source in which each frame that lasts longer than two seconds is repeated every
/// second.
fn repeated(mut source: Source) -> Source {
    let streams = source.files.iter_mut().flat_map(|(_, streams)| streams);
    for stream in streams.filter(|stream| stream.kind == "video") {
        let second = i64::from(stream.timescale);
        let repeat = |packet: &Packet| {
            let packet = packet.clone();
            let times = if packet.duration > 2 * second { packet.duration / second } else { 1 };
            (0..times).map(move |number| {
                let later = packet.duration * number / times;
                let duration = packet.duration * (number + 1) / times - later;
                Packet { dts: packet.dts + later, pts: packet.pts + later, duration, ..packet.clone() }
            })
        };
        stream.packets = stream.packets.iter().flat_map(repeat).collect();
    }
    source
}

/// Returns a source of each kind, with a name.
fn sources() -> Vec<(&'static str, Source)> {
    vec![
        ("outlasting", Source::files(&[outlasting(10, 30)])),
        ("early", Source::files(&early())),
        ("still", repeated(Source::files(&[still("1/64")]))),
        ("slides", repeated(Source::files(&[slides()]))),
        ("slow", Source::files(&[still("1")])),
    ]
}

#[test]
fn uneven_titles_keep_their_packets_in_cmaf_smooth_and_hds() {
    for (name, source) in sources() {
        cmaf::assert_source_packets(name, &source);
        hls::assert_equals_dash(&source.objects);
        smooth::assert_source_packets(name, &source, smooth::Rate::Constant);
        hds::assert_source_packets(name, &source, true);
    }
}

#[test]
fn uneven_titles_keep_their_packets_in_ts() {
    for (name, source) in sources() {
        let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
        let (_, playlist) = multivariant(&mut origin, "");
        let audio = playlist.alternatives.iter().filter_map(|audio| audio.uri.clone());
        let mut uris: Vec<String> = audio.chain([variants(&playlist)[0].uri.clone()]).collect();
        // URLs of muxed playlists stay valid.
        let video = origin.names(TrackKind::Video);
        let audio = origin.names(TrackKind::Audio);
        uris.push(format!("x-{}-{}.m3u8", audio[0], video[0]));
        for uri in uris {
            ts::assert_played_packets(name, &source, &mut origin, &uri, &ts::AAC);
        }
    }
}

/// Returns the durations in milliseconds of the segments of a media playlist.
fn durations(origin: &mut Origin, uri: &str) -> Vec<u64> {
    play(origin, uri).durations.iter().map(|micros| micros / 1000).collect()
}

/// A player stalls over a seek to TS of sound alone in the list of a variant, so the sound has a
/// list of its own.
#[test]
fn sound_that_outlasted_the_picture_was_one_long_segment() {
    let mut origin = Origin::open(&[outlasting(10, 30)], TARGET);
    let (text, playlist) = multivariant(&mut origin, "");
    let [audio] = playlist.alternatives.as_slice() else { panic!("{text}") };
    let audio = play(&mut origin, audio.uri.as_ref().unwrap());
    let lengths = &audio.durations;
    let are_short = lengths.iter().all(|micros| (1_900_000..2_100_000).contains(micros));
    assert!(lengths.len() == 15 && are_short, "{lengths:?}");
    let [variant] = variants(&playlist)[..] else { panic!("{text}") };
    assert!(variant.audio.is_some() && !variant.uri.contains("audio"), "{text}");
    // Shaka Player plays HLS only as long as the shortest playlist, and the video has only 10 s.
    let video = play(&mut origin, &variant.uri);
    assert_eq!(video.durations[..4], [2_000_000; 4]);
    assert!(
        video.durations.iter().sum::<u64>().abs_diff(lengths.iter().sum()) < 100,
        "{:?}",
        video.durations
    );
    // RFC 8216 §6.2.4.
    assert_eq!(audio.playlist.target_duration, video.playlist.target_duration);
    assert_eq!(variant.average_bandwidth.unwrap(), rates(&[&video, &audio]).1);
    for iframes in playlist.variants.iter().filter(|variant| variant.is_i_frame) {
        let played = play(&mut origin, &iframes.uri);
        assert_eq!((iframes.bandwidth, iframes.average_bandwidth.unwrap()), rates(&[&played]));
    }
    let reasons: Vec<_> = origin.title.problems().iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, ["video_ends_early"]);
    // Sound that is little longer is muxed as before.
    let mut origin = Origin::open(&[outlasting(10, 12)], TARGET);
    let (text, playlist) = multivariant(&mut origin, "");
    assert!(playlist.alternatives.is_empty(), "{text}");
    let [variant] = variants(&playlist)[..] else { panic!("{text}") };
    let played = play(&mut origin, &variant.uri);
    assert_eq!(played.durations.len(), 5);
    // The bit rates count the packets with PCRs only.
    assert_eq!((variant.bandwidth, variant.average_bandwidth.unwrap()), rates(&[&played]));
    // Joined segments are long on purpose.
    let (text, playlist) = multivariant(&mut origin, "?hls_minimum_fragment_length=6");
    assert!(playlist.alternatives.is_empty(), "{text}");
}

#[test]
fn under_a_still_picture_sound_was_one_long_segment() {
    let mut origin = Origin::open(&[still("1")], TARGET);
    for query in ["", "?hls_fmp4"] {
        let (text, playlist) = multivariant(&mut origin, query);
        let [audio] = playlist.alternatives.as_slice() else { panic!("{text}") };
        let audio = play(&mut origin, audio.uri.as_ref().unwrap());
        let seconds: Vec<u64> = audio.durations.iter().map(|micros| (micros + 500_000) / 1_000_000).collect();
        assert_eq!(seconds, [2; 32], "{query}");
        let video = play(&mut origin, &variants(&playlist)[0].uri);
        assert_eq!(video.durations.len(), 1, "{query}");
        assert_eq!(audio.playlist.target_duration, video.playlist.target_duration, "{query}");
        assert!(video.playlist.target_duration >= 64);
    }
    assert!(origin.title.problems().iter().any(|problem| problem.reason == "long_segments"));
}

/// A browser shows nothing of a single frame until more follow, or until the player has ended the
/// stream, for which it must have buffered everything.
#[test]
fn frames_of_a_minute_made_segments_of_a_minute() {
    for file in [still("1/64"), slides()] {
        let mut origin = Origin::open(&[file], TARGET);
        let (text, playlist) = multivariant(&mut origin, "");
        assert!(playlist.alternatives.is_empty(), "{text}");
        assert_eq!(durations(&mut origin, &variants(&playlist)[0].uri), [2000; 32]);
        assert_eq!(origin.title.tracks().iter().map(TitleTrack::segment_count).max(), Some(32));
        let reasons: Vec<_> = origin.title.problems().iter().map(|problem| problem.reason).collect();
        assert_eq!(reasons, ["repeated_frames"]);
    }
}

/// Returns the PCRs of a stream in order, in 90 kHz, and the last PTS of audio.
fn clock(stream: &[u8]) -> (Vec<u64>, u64) {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    let mut pcrs = Vec::new();
    let mut pts = 0;
    for packet in stream.chunks(188) {
        let has_field = packet[3] & 0x20 != 0;
        if has_field && packet[4] > 0 && packet[5] & 0x10 != 0 {
            pcrs.push(number(&packet[6..11]) >> 7);
        }
        let start = if has_field { 5 + usize::from(packet[4]) } else { 4 };
        let pes = &packet[start.min(188)..];
        if packet[1] & 0x40 != 0 && pes.starts_with(&[0, 0, 1, 0xC0]) {
            let field = number(&pes[9..14]);
            pts = pts.max((field >> 33 & 7) << 30 | (field >> 17 & 0x7FFF) << 15 | field >> 1 & 0x7FFF);
        }
    }
    (pcrs, pts)
}

#[test]
fn the_clock_of_ts_ended_with_the_picture_or_went_back() {
    let pairs = [vec![outlasting(10, 30)], vec![outlasting(10, 11)], early()];
    let stills = [still("1/64"), still("1"), slides()].map(|file| vec![file]);
    let titles = pairs.into_iter().chain(stills);
    for files in titles {
        let mut origin = Origin::open(&files, TARGET);
        let audio = origin.names(TrackKind::Audio).remove(0);
        for video in origin.names(TrackKind::Video) {
            let whole = play(&mut origin, &format!("x-{audio}-{video}.m3u8")).whole();
            let (pcrs, pts) = clock(&whole);
            let gaps: Vec<i64> = pcrs.windows(2).map(|w| w[1].cast_signed() - w[0].cast_signed()).collect();
            let worst = gaps.iter().filter(|gap| !(0..=9000).contains(*gap)).count();
            assert_eq!(worst, 0, "{files:?} {video}: {gaps:?}");
            // 0.7 s before the decoder, of which audio gives up 0.1 s.
            let behind = pts.cast_signed() - pcrs.last().unwrap().cast_signed();
            assert!(behind <= 63_000 + 9000, "{files:?} {video}: the clock ends {behind} ticks early");
        }
    }
}

/// Renditions whose segments begin at the same times stay switchable.
#[test]
fn a_rendition_that_ended_early_moved_the_boundaries_of_the_others() {
    let mut origin = Origin::open(&early(), TARGET);
    let reasons: Vec<_> = origin.title.problems().iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, ["video_ends_early"]);
    let (text, playlist) = multivariant(&mut origin, "");
    assert_eq!(playlist.alternatives.len(), 1, "{text}");
    let lists: Vec<Vec<u64>> =
        variants(&playlist).iter().map(|variant| durations(&mut origin, &variant.uri)).collect();
    // The list of the lowest lasts as long as the title.
    assert_eq!(lists[0][..2], [2000; 2]);
    assert!(lists[0].len() == 3 && lists[0][2].abs_diff(11_000) < 30, "{:?}", lists[0]);
    let whole = [vec![2000; 7], vec![1000]].concat();
    assert_eq!(lists[1..], [whole.clone(), whole]);

    let mpd = origin.text(&Resource::DashManifest(DashTemplate::Time));
    let mpd = dash_mpd_core::parse(&mpd).unwrap();
    assert_eq!(check_conformity(&mpd), Vec::<String>::new());
    assert_eq!(mpd.periods[0].adaptations[0].segmentAlignment, Some(true));

    // A stream has one timeline, and players take the first of video.
    let (_, levels) = smooth::play_at(&mut origin, "");
    let names: Vec<_> = levels.iter().map(|level| level.stream["Name"].as_str()).collect();
    assert_eq!(names, ["video_1", "video_1", "video", "audio"]);
}
