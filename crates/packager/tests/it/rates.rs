//! `BANDWIDTH` and `AVERAGE-BANDWIDTH`, compared with the segments that are really sent.

use crate::{
    hls::{rates, variants},
    media::{avc_aac, fragmented, hevc, ladder, shared},
    player::{Presentation, multivariant, play},
};
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
