//! `BANDWIDTH` and `AVERAGE-BANDWIDTH`, compared with the segments that are really sent.

use crate::{
    hls::{rates, variants},
    media::{avc_aac, fragmented, hevc, ladder, shared},
    player::{Presentation, multivariant, play},
};
use latemux_index::media::IndexSource;
use latemux_testmedia::{origin::Origin, recipe::make};
use std::{path::PathBuf, time::Duration};

/// Makes video of two frames a second, with quiet and loud AAC.
fn few_frames() -> PathBuf {
    make(
        "rates-few-frames",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=2:duration=21 \
         -f lavfi -i aevalsrc=random(0)*gt(mod(t\\,7)\\,5):d=23.7:s=48000 \
         -c:v libx264 -preset veryfast -g 6 -sc_threshold 0 -pix_fmt yuv420p -c:a aac -b:a 128k",
    )
}

/// Returns the stated and the true rates of every variant: peak and average.
fn stated_and_true(files: &[PathBuf], query: &str, target: Duration) -> Vec<[(u64, u64); 2]> {
    let mut origin = Origin::open(files, target);
    let (text, playlist) = multivariant(&mut origin, query);
    let mut all = Vec::new();
    for variant in variants(&playlist) {
        let own = play(&mut origin, &variant.uri);
        let mut sum = rates(&[&own]);
        for group in [&variant.audio, &variant.subtitles].into_iter().flatten() {
            let members = playlist.alternatives.iter().filter(|member| member.group_id == *group);
            let uris: Vec<_> = members.filter_map(|member| member.uri.clone()).collect();
            let played: Vec<Presentation> = uris.iter().map(|uri| play(&mut origin, uri)).collect();
            let beside: Vec<_> = played.iter().map(|played| rates(&[played])).collect();
            sum.0 += beside.iter().map(|rate| rate.0).max().unwrap_or(0);
            sum.1 += beside.iter().map(|rate| rate.1).max().unwrap_or(0);
        }
        all.push([(variant.bandwidth, variant.average_bandwidth.unwrap()), sum]);
    }
    assert!(!all.is_empty(), "{text}");
    all
}

const QUERIES: [&str; 4] =
    ["", "?hls_fmp4", "?hls_minimum_fragment_length=5", "?hls_fmp4&vbegin=1.5&vend=6.2"];

#[test]
fn bandwidth_was_below_the_sum_of_peak_segment_rates() {
    let mut all: Vec<(Vec<PathBuf>, u64)> = vec![(ladder(), 2), (ladder(), 4)];
    all.extend([avc_aac(), hevc(), fragmented(), few_frames()].map(|file| (vec![file], 2)));
    for (files, target) in all {
        for query in QUERIES {
            for [stated, real] in stated_and_true(&files, query, Duration::from_secs(target)) {
                assert_eq!(stated, real, "{files:?} {query}");
            }
        }
    }
}

#[test]
fn bandwidth_left_out_subtitles() {
    let Some(text) = shared("androidx/webvtt-in-mp4.mp4") else { return };
    for query in QUERIES {
        let files = [avc_aac(), text.clone()];
        for [stated, real] in stated_and_true(&files, query, Duration::from_secs(2)) {
            // The size of the subtitles, which are in a fragment, is an estimate.
            let within = |stated: u64, real: u64| stated >= real && stated * 100 <= real * 101;
            assert!(within(stated.0, real.0) && within(stated.1, real.1), "{stated:?} {real:?} {query}");
        }
    }
}

/// Makes a title of which only the fragments are known. Video is in GOPs of two seconds.
fn in_fragments(name: &str, sources: &[&str], coding: &str, index: &str) -> PathBuf {
    let inputs: String = sources.iter().map(|source| format!("-f lavfi -i {source} ")).collect();
    let flags = format!("frag_keyframe+empty_moov+default_base_moof{index}");
    make(&format!("rates-{name}"), "mp4", &format!("{inputs}{coding} -movflags {flags}"))
}

/// Makes a title of two videos and a tone with this many fragments of one picture of each video.
fn two_videos(name: &str, count: u32) -> PathBuf {
    let duration = count / 25;
    let picture = format!("testsrc2=size=64x36:rate=25:duration={duration}");
    let tone = format!("sine=frequency=440:sample_rate=48000:duration={duration}");
    let coding = "-map 0:v -map 1:v -map 2:a -c:v libx264 -preset veryfast -g 1 -pix_fmt yuv420p \
                  -b:v:0 150k -b:v:1 500k -c:a aac -b:a 96k -ac 2";
    let name = format!("two-videos-{name}");
    in_fragments(&name, &[&picture, &picture, &tone], coding, "+global_sidx+skip_trailer")
}

#[test]
fn bandwidth_of_several_videos_in_a_fragment_was_far_above_their_peaks() {
    for (name, count) in [("few", 100), ("some", 4100)] {
        let file = two_videos(name, count);
        let source = latemux_testmedia::origin::index(&std::fs::read(&file).unwrap().into()).unwrap().source;
        assert_eq!(source, IndexSource::Scan, "the sizes of samples in mixed fragments must be read");
        for query in QUERIES {
            for [stated, real] in stated_and_true(std::slice::from_ref(&file), query, Duration::from_secs(2))
            {
                assert_eq!(stated, real, "{name} {query}");
            }
        }
    }
}

const SIDX: &str = "+global_sidx+skip_trailer";
const TONE: &str = "sine=frequency=440:sample_rate=48000:duration=24";

/// Makes audio in fragments of two seconds.
fn sound(name: &str, source: &str, coding: &str) -> PathBuf {
    let coding = format!("{coding} -frag_duration 2000000");
    in_fragments(name, &[source], &coding, &format!("+delay_moov{SIDX}"))
}

/// Makes stereo AAC in frames of nearly one size.
fn tone(kbits: u32) -> PathBuf {
    sound(&format!("aac-{kbits}"), TONE, &format!("-c:a aac -b:a {kbits}k -ac 2"))
}

/// Makes stereo AAC of a tone and noise in turns, in frames of very different sizes.
fn turns(kbits: u32) -> PathBuf {
    let source = "aevalsrc=0.4*sin(2*PI*300*t)*gt(sin(3*t)\\,0)+0.2*random(0)*lt(sin(5*t)\\,0):s=48000:d=24";
    sound(&format!("aac-turns-{kbits}"), source, &format!("-c:a aac -b:a {kbits}k -ac 2"))
}

/// Titles by `sidx` and `mfra`, each with the largest excess that its bit rates may have, in
/// hundredths.
fn indexed_by_fragments() -> Vec<(&'static str, PathBuf, u64)> {
    const NOISE: &str = "anoisesrc=r=44100:d=24:seed=1:amplitude=0.3";
    const AAC: &str = "-c:a aac -b:a 96k -ac 2";
    let steady = "testsrc2=size=320x180:rate=25:duration=24";
    // Noise comes and goes.
    let varied = |rate: &str| {
        format!(
            "testsrc2=size=320x180:rate={rate}:duration=24,noise=alls=40:allf=t:enable=gt(mod(t\\,9)\\,6)"
        )
    };
    let avc = |coding: &str| {
        format!(
            "-c:v libx264 -preset veryfast -force_key_frames expr:gte(t,n_forced*2) -g 1000 -sc_threshold 0 \
             -pix_fmt yuv420p {coding}"
        )
    };
    let constant = avc("-b:v 600k -minrate 600k -maxrate 600k -bufsize 600k -nal-hrd cbr");
    let reordered = avc("-crf 28 -bf 2");
    let plain = avc("-crf 34 -bf 0");
    let film = varied("30000/1001");
    let few = varied("5");
    let many = varied("50");
    let video = |name, source: &str, coding: &str| in_fragments(name, &[source], coding, SIDX);
    let both = |name, sources: [&str; 2], coding: &str, index| {
        in_fragments(name, &sources, &format!("{coding} {AAC}"), index)
    };
    vec![
        ("steady video", video("steady", steady, &constant), 10),
        ("varied video", video("varied", &film, &reordered), 10),
        ("few frames", video("few", &few, &reordered), 10),
        ("many frames", video("many", &many, &plain), 10),
        ("steady, noise", both("steady-noise", [steady, NOISE], &constant, SIDX), 10),
        ("varied, tone", both("varied-tone", [&film, TONE], &reordered, SIDX), 10),
        ("varied, by mfra", both("varied-mfra", [&film, TONE], &reordered, ""), 10),
        // A segment takes a multiple of 16 packets, which is much at this rate.
        ("aac", tone(96), 12),
        // The packets of most frames are hardly filled.
        ("aac, 48 kbit/s", tone(48), 30),
        ("aac in turns, 128 kbit/s", turns(128), 13),
        ("aac in turns, 64 kbit/s", turns(64), 25),
        ("aac in turns, 24 kbit/s", turns(24), 48),
        // They are too many to be scanned.
        ("two videos in many fragments", two_videos("many", 16_400), 55),
        ("ac3", sound("ac3", NOISE, "-c:a ac3 -b:a 192k"), 10),
    ]
}

#[test]
fn bandwidth_of_fragments_was_far_above_the_sum_of_their_peaks_or_below() {
    let mut wrong = Vec::new();
    for (name, file, excess) in indexed_by_fragments() {
        let source = latemux_testmedia::origin::index(&std::fs::read(&file).unwrap().into()).unwrap().source;
        let is_estimated = matches!(source, IndexSource::SegmentIndex | IndexSource::RandomAccess);
        assert!(is_estimated, "{name}: {source:?}");
        let files = std::slice::from_ref(&file);
        for (target, query) in
            [(2, ""), (2, "?hls_fmp4"), (2, "?hls_minimum_fragment_length=5"), (4, ""), (4, "?hls_fmp4")]
        {
            for [stated, real] in stated_and_true(files, query, Duration::from_secs(target)) {
                let is_right =
                    |stated: u64, real: u64| (real..=real * (100 + excess) / 100).contains(&stated);
                let line = format!("{name}, {target} s {query}: {stated:?}, in fact {real:?}");
                println!("{line}");
                if !is_right(stated.0, real.0) || !is_right(stated.1, real.1) {
                    wrong.push(line);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Gives the frames of AAC in a fragment other sizes with the same sum. Of the PES packets, which
/// hold four frames each, every second one then takes a TS packet more, and the others do not take
/// one less.
fn spread_unevenly(trun: &mut [u8]) {
    let u32_at = |at: usize| u32::from_be_bytes(trun[at..at + 4].try_into().unwrap());
    assert_eq!(u32_at(4), 0x201, "a data offset, and the size of each sample");
    let count = u32_at(8) as usize;
    let sum: u32 = (0..count).map(|frame| u32_at(16 + 4 * frame)).sum();
    // 4 × (264 + 7) + 14 bytes take 7 packets, of which the first has a PCR.
    let is_large = |frame: usize| frame % 8 < 4;
    let large = (0..count).filter(|&frame| is_large(frame)).count();
    let small = u32::try_from(count - large).unwrap();
    let rest = sum - 264 * u32::try_from(large).unwrap();
    let mut left = rest % small;
    for frame in 0..count {
        let size = if is_large(frame) { 264 } else { rest / small + u32::from(left > 0) };
        left -= u32::from(!is_large(frame) && left > 0);
        trun[16 + 4 * frame..][..4].copy_from_slice(&size.to_be_bytes());
    }
}

/// Two files differ only in fragments that are not read with the index, and not in their sizes. So
/// no estimate that is not below the one rate is within 10 % of the other.
#[test]
fn equal_sizes_of_fragments_have_rates_that_differ_by_more_than_a_tenth() {
    let even = tone(96);
    let mut bytes = std::fs::read(&even).unwrap();
    let found = |code: &[u8; 4]| -> Vec<usize> {
        let places = bytes.windows(4).enumerate().filter(|(_, word)| word == code);
        places.map(|(at, _)| at).collect()
    };
    let truns = found(b"trun");
    assert!(truns.len() > 8 && truns.len() == found(b"moof").len());
    let read = [0, 1, truns.len() / 2];
    for (_, at) in truns.iter().enumerate().filter(|(i, _)| !read.contains(i)) {
        spread_unevenly(&mut bytes[*at..]);
    }
    let uneven = latemux_testmedia::recipe::folder().join(format!("rates-uneven-{}.mp4", std::process::id()));
    std::fs::write(&uneven, bytes).unwrap();
    let [a, b] = [&even, &uneven].map(|file| {
        let [[stated, real]] = stated_and_true(std::slice::from_ref(file), "", Duration::from_secs(2))[..]
        else {
            panic!("one variant")
        };
        assert!(stated.0 >= real.0, "{stated:?} {real:?}");
        (stated.0, real.0)
    });
    std::fs::remove_file(uneven).unwrap();
    assert_eq!(a.0, b.0, "the same is stated of both");
    assert!(b.1 * 100 > a.1 * 110, "{} and {}", a.1, b.1);
}
