//! Measures the cost of planning one segment, and that it does not grow with the title: a 4-hour
//! title against the 2-minute one that it was looped from, in one run, as a ratio of medians. `make
//! bench-crates` runs it.

#![allow(clippy::unwrap_used, reason = "a benchmark stops if it cannot measure")]

mod looped;

use latemux_index::media::TrackKind;
use latemux_packager::Resource;
use latemux_testmedia::origin::Origin;
use latemux_testmedia::recipe::{AAC, AVC, make};
use looped::looped;
use std::{
    hint::black_box,
    path::PathBuf,
    time::{Duration, Instant},
};

const ROUNDS: usize = 31;
const PER_ROUND: u32 = 2000;

fn two_minutes() -> PathBuf {
    make(
        "two-minutes",
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=64x36:rate=25:duration=120 \
             -f lavfi -i sine=frequency=440:sample_rate=48000:duration=120 {AVC} {AAC}"
        ),
    )
}

/// Returns the same samples, played 120 times.
fn four_hours() -> PathBuf {
    looped(&two_minutes(), "four-hours", 120)
}

/// Returns `PER_ROUND` segments spread over the whole title.
fn requests(origin: &Origin, protocol: &str) -> Vec<Resource> {
    let video = origin.names(TrackKind::Video)[0].clone();
    let audio = origin.names(TrackKind::Audio)[0].clone();
    let count = origin.segment_count(&video) - 1;
    (0..PER_ROUND)
        .map(|i| {
            let number = 1 + u32::try_from(u64::from(i) * 7919 % u64::from(count)).expect("below count");
            match protocol {
                "DASH video" => Resource::DashSegment(video.clone(), number),
                "DASH audio" => Resource::DashSegment(audio.clone(), number),
                _ => Resource::HlsTsSegment(vec![audio.clone(), video.clone()], number),
            }
        })
        .collect()
}

fn round(origin: &mut Origin, requests: &[Resource]) -> Duration {
    let start = Instant::now();
    for request in requests {
        black_box(origin.plan(request).expect("an existing segment"));
    }
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() {
    let target = Duration::from_secs(4);
    let mut short = Origin::open(&[two_minutes()], target);
    let mut long = Origin::open(&[four_hours()], target);
    let heap = |o: &Origin| o.title.objects().iter().map(|i| (i.heap_bytes(), i.source_bytes)).next();
    println!("index bytes in memory, of moov: 2 min {:?}, 4 h {:?}", heap(&short), heap(&long));
    println!("{:12} {:>12} {:>12} {:>7}", "plan of", "2 min", "4 h", "ratio");
    for protocol in ["DASH video", "DASH audio", "HLS TS"] {
        let of_short = requests(&short, protocol);
        let of_long = requests(&long, protocol);
        // The rounds alternate, so that a change of the machine's speed affects both.
        let mut shorts = Vec::new();
        let mut longs = Vec::new();
        for _ in 0..ROUNDS {
            shorts.push(round(&mut short, &of_short));
            longs.push(round(&mut long, &of_long));
        }
        let s = median(shorts) / PER_ROUND;
        let l = median(longs) / PER_ROUND;
        println!("{protocol:12} {s:>12.2?} {l:>12.2?} {:>7.3}", l.as_secs_f64() / s.as_secs_f64());
    }
}
