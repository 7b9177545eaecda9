//! Measures the cost of a title's manifests: two hours in eight renditions, each in a file of its
//! own. Nothing is cached between two manifests. `make bench-crates` runs it. Digests show if a
//! manifest has changed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops if it cannot measure"
)]

mod looped;

use bytes::Bytes;
use latemux_index::{MediaIndex, Title, media::TrackKind, media::fragment_samples::NoFragments};
use latemux_packager::{
    Address, Part, Planned, Resource,
    address::{DashTemplate, HlsContainer},
    plan,
};
use latemux_testmedia::recipe::{AAC, AVC, make};
use looped::looped;
use std::{hint::black_box, path::PathBuf, sync::Arc, time::Duration};
use xxhash_rust::xxh3::xxh3_64;

const ROUNDS: usize = 9;
const PER_ROUND: u32 = 16;
const TARGET: Duration = Duration::from_secs(4);

/// Returns two minutes of media, played 60 times.
fn two_hours(name: &str, args: &str) -> PathBuf {
    looped(&make(name, "mp4", args), &format!("{name}-two-hours"), 60)
}

fn renditions() -> Vec<PathBuf> {
    let video = (0..6_u32).map(|n| {
        let width = 64 + 16 * n;
        let height = 36 + 10 * n;
        let args = format!("-f lavfi -i testsrc2=size={width}x{height}:rate=25:duration=120 {AVC}");
        two_hours(&format!("manifest-video-{n}"), &args)
    });
    let audio = [440, 660].map(|hertz| {
        let args = format!("-f lavfi -i sine=frequency={hertz}:sample_rate=48000:duration=120 {AAC}");
        two_hours(&format!("manifest-audio-{hertz}"), &args)
    });
    video.chain(audio).collect()
}

fn manifest(title: &Title, resource: &Resource) -> Vec<u8> {
    let Planned::Ready(plan) = plan(title, &Address::new("x", resource.clone()), &NoFragments).unwrap()
    else {
        panic!("a manifest is made from the index alone");
    };
    let parts = plan.parts.iter().flat_map(|part| match part {
        Part::Inline(bytes) => bytes.to_vec(),
        _ => panic!("a manifest holds no media"),
    });
    parts.collect()
}

/// Returns the processor time of this thread, as Linux counts it. Other load on the machine does
/// not count.
fn spent() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn main() {
    let indexes: Vec<Arc<MediaIndex>> = renditions()
        .iter()
        .map(|path| {
            Arc::new(latemux_testmedia::origin::index(&Bytes::from(std::fs::read(path).unwrap())).unwrap())
        })
        .collect();
    let new = || Title::new(indexes.clone(), TARGET).unwrap();
    let title = new();
    let first = |kind| title.tracks()[title.of_kind(kind).next().unwrap()].name.clone();
    let video = first(TrackKind::Video);
    let audio = first(TrackKind::Audio);
    let resources = [
        ("DASH, timeline", Resource::DashManifest(DashTemplate::Time)),
        ("DASH, number", Resource::DashManifest(DashTemplate::Number)),
        ("HLS TS, multivariant", Resource::HlsMultivariant(HlsContainer::Auto)),
        ("HLS CMAF, multivariant", Resource::HlsMultivariant(HlsContainer::Cmaf)),
        ("HLS TS, media", Resource::HlsPlaylist(vec![audio, video.clone()], HlsContainer::Auto)),
        ("HLS TS, I-frames", Resource::HlsIFramePlaylist(video, HlsContainer::Auto)),
        ("Smooth", Resource::SmoothManifest),
        ("HDS", Resource::HdsManifest),
    ];
    println!("{:24} {:>9} {:>9}  digest", "2 h, 8 renditions", "CPU", "bytes");
    println!("{:24} {:>9.2?}", "title", median(|| drop(black_box(new()))));
    for (name, resource) in &resources {
        let cost = median(|| drop(black_box(manifest(&title, resource))));
        let bytes = manifest(&title, resource);
        println!("{name:24} {cost:>9.2?} {:>9}  {:016x}", bytes.len(), xxh3_64(&bytes));
    }
}

/// Returns the median time of a run. The clock only advances with the scheduler, by some
/// milliseconds at a time, so many runs are measured at once.
fn median(work: impl Fn()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = spent();
            (0..PER_ROUND).for_each(|_| work());
            (spent() - start) / PER_ROUND
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
