//! Measures what a file of subtitles costs: reading it, and making one segment of it in each form.
//! Figures are the medians of many rounds, in processor time of the thread. `make bench-crates`
//! runs it.

#![allow(clippy::unwrap_used, reason = "a benchmark stops if it cannot measure")]

mod looped;

use latemux_index::media::TrackKind;
use latemux_packager::{
    Address, Resource, address::HlsContainer, segment::smooth, selection::DashText, text_file,
};
use latemux_testmedia::{
    origin::{NAME, Origin},
    recipe::{AVC, make},
    subtitles::two_hours,
};
use latemux_text::TextFormat;
use looped::looped;
use std::{fs, hint::black_box, path::PathBuf, time::Duration};

const ROUNDS: usize = 31;
/// Number of files that are read in a round. The kernel counts time some hundred times a second.
const FILES: u32 = 40;

fn film() -> PathBuf {
    let options = format!("-f lavfi -i testsrc2=size=64x36:rate=25:duration=120 {AVC}");
    looped(&make("two-minutes-alone", "mp4", &options), "two-hours-alone", 60)
}

/// Returns the same text in a file as ffmpeg writes it: 3GPP text.
fn stored_text() -> PathBuf {
    let source = latemux_testmedia::recipe::folder().join("two-hours.srt");
    fs::write(&source, two_hours()).unwrap();
    make("two-hours-text", "mp4", &format!("-i {} -c:s mov_text", source.display()))
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Returns the median time of `count` calls, each of which gets its number.
fn median(count: u32, mut work: impl FnMut(u32)) -> Duration {
    let mut rounds: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let before = processor_time();
        (0..count).for_each(&mut work);
        rounds.push((processor_time() - before) / count);
    }
    rounds.sort();
    rounds[ROUNDS / 2]
}

/// Returns all segments of the only text in a form.
fn segments(origin: &Origin, form: &str) -> Vec<Address> {
    let name = origin.names(TrackKind::Text)[0].clone();
    let clock = smooth::clock(&origin.title);
    let track = origin.title.find(&name).unwrap();
    let of = |number| {
        let name = name.clone();
        let resource = match form {
            "WebVTT" => Resource::HlsText(name, number, HlsContainer::Auto),
            "Smooth Streaming" => {
                let time = clock.boundary(track, number - 1).unwrap();
                Resource::SmoothFragment(name, u64::try_from(time).unwrap())
            }
            _ => Resource::DashSegment(name, number),
        };
        let mut address = Address::new(NAME, resource);
        address.selection.text = if form == "TTML" { DashText::Stpp } else { DashText::Stored };
        address
    };
    (1..=origin.segment_count(&name)).map(of).collect()
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() {
    let file = two_hours();
    let read = || text_file::index(TextFormat::SubRip, "eng.srt", file.as_bytes()).unwrap();
    let time = median(FILES, |_| drop(black_box(read())));
    let held = read().heap_bytes();
    let ratio = held as f64 / file.len() as f64;
    println!("SubRip, 2 h, 2,000 cues, {} bytes: read in {time:.2?}, held in {ratio:.2} x", file.len());

    let target = Duration::from_secs(4);
    let mut beside = Origin::open(&[film()], target).with_text("eng.srt", file.as_bytes(), target);
    let mut stored = Origin::open(&[film(), stored_text()], target);
    println!("{:28} {:>12} {:>12}", "segment in", "from SubRip", "from tx3g");
    for form in ["WebVTT", "WebVTT in MP4", "TTML", "Smooth Streaming"] {
        let [beside, stored] = [&mut beside, &mut stored].map(|origin| {
            let all = segments(origin, form);
            median(u32::try_from(all.len()).unwrap(), |n| {
                drop(black_box(origin.get_address(&all[n as usize]).unwrap()));
            })
        });
        println!("{form:28} {beside:>12.2?} {stored:>12.2?}");
    }
}
