//! The memory that small hostile files take for their index, their title and their manifests, and
//! the limits that refuse them. A test binary of its own, because nothing else may allocate
//! meanwhile: each test is a process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "prints figures")]

use bytes::Bytes;
use latemux_index::{
    Title,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::{MediaIndex, fragment_samples::NoFragments},
    title::TrackName,
};
use latemux_packager::{
    Address, Resource,
    address::{DashTemplate, HlsContainer, IFrameNumber},
    plan,
};
use latemux_testmedia::{
    hostile::{HostileFile, HostileTrack, MAX_SIZE, costly},
    origin::index,
    rewrite::looped_head,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{alloc::System, ops::Range, sync::Arc, time::Duration};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Most bytes allocated for an index and title, and for a manifest, all allocations added up. At
/// any one time far fewer are in use, because growing buffers count several times.
const MOST_BYTES: usize = 128 << 20;

const TARGET: Duration = Duration::from_secs(4);

/// Runs work, prints what it allocates, and asserts that this is within bounds.
fn bounded<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let done = work();
    let bytes = region.change().bytes_allocated;
    println!("{what}: {:.1} MiB", bytes as f64 / f64::from(1 << 20));
    assert!(bytes <= MOST_BYTES, "{what}: {bytes} bytes");
    done
}

/// Makes index, title and all manifests of a file. Returns the reasons for refusals, each once.
fn exercise(file: &HostileFile) -> Vec<&'static str> {
    let object = Bytes::from(file.write());
    assert!(object.len() <= MAX_SIZE, "{} bytes", object.len());
    println!("{} bytes", object.len());
    let found = bounded("index", || index(&object));
    let title = bounded("title", || Title::new(vec![Arc::new(found?)], TARGET));
    let title = match title {
        Ok(title) => title,
        Err(error) => {
            println!("{error}");
            return vec![error.reason()];
        }
    };
    let first = title.tracks()[0].name.clone();
    let mut reasons = Vec::new();
    for resource in [
        Resource::DashManifest(DashTemplate::Time),
        Resource::SmoothManifest,
        Resource::HdsManifest,
        Resource::HlsMultivariant(HlsContainer::Auto),
        Resource::HlsMultivariant(HlsContainer::Cmaf),
        Resource::HlsPlaylist(vec![first.clone()], HlsContainer::Auto),
        Resource::HlsIFramePlaylist(first, HlsContainer::Auto),
    ] {
        let address = Address::new("x", resource);
        let planned = bounded(&address.to_url(), || plan(&title, &address, &NoFragments));
        let reason = planned.err().map(|error| error.reason());
        // Some protocols do not carry these tracks, and audio has no I-frames.
        reasons.extend(reason.filter(|reason| !["cannot_carry", "no_such_track"].contains(reason)));
    }
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

fn audio(repeat: u32, samples: u32) -> HostileTrack {
    HostileTrack {
        repeat,
        codec: 3,
        timescale: 48_000,
        samples,
        sample_size: 1,
        durations: vec![(samples, 1536)],
        chunk: samples,
        ..HostileTrack::default()
    }
}

fn video(repeat: u32, samples: u32) -> HostileTrack {
    HostileTrack { codec: 0, ..audio(repeat, samples) }
}

fn file(tracks: Vec<HostileTrack>) -> HostileFile {
    HostileFile { tracks, size: MAX_SIZE, ..HostileFile::default() }
}

/// Fragments of 65,536 samples that take no bytes: 34 s and 3.6 GB for each manifest.
#[test]
fn a_file_of_91_kb_claims_67_million_samples() {
    assert_eq!(exercise(&HostileFile::of_bare_fragments(3)), ["index_too_large"]);
}

#[test]
fn a_thousand_tracks_claim_the_same_bytes() {
    assert_eq!(exercise(&file(vec![audio(1000, 500_000)])), ["index_too_large"]);
    // A file has at most one sample for every three bytes.
    assert_eq!(exercise(&file(vec![audio(1, 330_000)])), [""; 0]);
}

/// A playlist of 183 MB.
#[test]
fn a_small_file_claims_a_million_segments() {
    let mut long = audio(1, 300_000);
    long.durations = vec![(300_000, 4 * 48_000)];
    assert_eq!(exercise(&file(vec![long])), ["index_too_large"]);
    let mut longest = audio(1, 100_000);
    longest.durations = vec![(100_000, 4 * 48_000)];
    assert_eq!(exercise(&file(vec![longest])), [""; 0]);
}

/// Each track of two samples passed every boundary of the grid by itself.
#[test]
fn a_thousand_short_tracks_pass_a_hundred_thousand_boundaries() {
    let mut long = HostileTrack { timescale: 1000, ..video(1, 99_500) };
    long.durations = vec![(99_500, 4000)];
    let mut short = HostileTrack { timescale: 1000, ..audio(1000, 2) };
    short.durations = vec![(1, 4000 * 99_000), (1, 4)];
    short.most_runs = 2;
    assert_eq!(exercise(&file(vec![long, short])), [""; 0]);
}

#[test]
fn more_tracks_than_a_title_has_are_refused() {
    assert_eq!(exercise(&file(vec![video(65, 2)])), ["index_too_large"]);
    assert_eq!(exercise(&file(vec![video(64, 2), audio(900, 2)])), [""; 0]);
}

/// HLS with TS and HDS read the audio for each video, if the videos have other segments.
#[test]
fn many_videos_beside_much_audio_are_refused() {
    for videos in [video(62, 640), video(29, 640), video(8, 2)] {
        assert_eq!(exercise(&file(vec![videos, audio(1, 290_000)])), ["index_too_large"]);
    }
    assert_eq!(exercise(&file(vec![video(4, 2), audio(1, 290_000)])), [""; 0]);
    // Each byte of the file allows one sample more.
    let long = HostileFile { size: 2 * MAX_SIZE, ..file(vec![video(8, 2), audio(1, 290_000)]) };
    let object = Bytes::from(long.write());
    assert!(Title::new(vec![Arc::new(index(&object).unwrap())], TARGET).is_ok());
}

/// A variant for each pair of video and audio, and each of subtitles.
#[test]
fn a_playlist_of_too_many_variants_is_refused() {
    let tracks = (0..3).map(|codec| HostileTrack { codec, ..audio(60, 2) });
    let tracks = tracks.chain([audio(60, 2)]).collect();
    // All tracks of a kind are of one coding, so they are one group.
    assert_eq!(exercise(&file(tracks)), [""; 0]);
}

/// The longest name in URLs and the longest title: 100,000 times 8 KB.
#[test]
fn a_playlist_of_long_urls_is_refused() {
    let mut longest = audio(1, 100_000);
    longest.durations = vec![(100_000, 4 * 48_000)];
    let object = Bytes::from(file(vec![longest]).write());
    let title = Title::new(vec![Arc::new(index(&object).unwrap())], TARGET).unwrap();
    let name = title.tracks()[0].name.clone();
    let address = Address::new("x".repeat(8000), Resource::HlsPlaylist(vec![name], HlsContainer::Auto));
    let error = bounded("playlist", || plan(&title, &address, &NoFragments)).unwrap_err();
    assert_eq!(error.reason(), "manifest_too_large");
}

/// Each sample of minutes took thousands of packets for clocks, counted one by one: 1 s.
#[test]
fn pictures_of_minutes_have_thousands_of_clocks() {
    let mut long = HostileTrack { timescale: 16, ..video(1, 90_000) };
    long.durations = vec![(90_000, 7168)];
    // HDS has no times beyond 24 days.
    assert_eq!(exercise(&file(vec![long])), ["segment_too_large"]);
}

/// Returns the bytes that a plan allocates, all allocations added up.
fn planned_bytes(title: &Title, resource: Resource) -> usize {
    bytes_of_plan(title, &Address::new("x", resource))
}

fn bytes_of_plan(title: &Title, address: &Address) -> usize {
    let region = Region::new(ALLOCATOR);
    plan(title, address, &NoFragments).unwrap();
    region.change().bytes_allocated
}

/// Makes a title of video with a sync sample every 4 s and of audio, 4,000 ticks a second, one
/// frame a second. A day of it is a file of a million bytes.
fn frames_of_seconds(seconds: u32, renditions: u32) -> Title {
    let frames = |codec, repeat| HostileTrack {
        codec,
        timescale: 4000,
        durations: vec![(seconds, 4000)],
        chunk: 4,
        most_runs: 1,
        ..audio(repeat, seconds)
    };
    let video = HostileTrack { sync_every: 4, ..frames(0, renditions) };
    let object = Bytes::from(file(vec![video, frames(3, 1)]).write());
    Title::new(vec![Arc::new(index(&object).unwrap())], TARGET).unwrap()
}

/// Counts bytes of memory, which grow with everything that a plan looks at or lists.
#[test]
fn a_segment_of_a_day_takes_as_much_as_one_of_a_minute() {
    let minute = frames_of_seconds(60, 1);
    let day = frames_of_seconds(24 * 3600, 1);
    assert_eq!((minute.grid().segment_count(), day.grid().segment_count()), (15, 21_600));
    let video = day.tracks()[0].name.clone();
    let sound = day.tracks()[1].name.clone();
    let short_video = minute.tracks()[0].name.clone();
    let short_sound = minute.tracks()[1].name.clone();
    let bound = |title: &Title, resource: Resource| {
        planned_bytes(title, resource.clone());
        // What a title remembers is not counted again.
        planned_bytes(title, resource)
    };
    for last in [1, 21_600] {
        let of_day = bound(&day, Resource::DashSegment(video.clone(), last));
        let of_minute = bound(&minute, Resource::DashSegment(short_video.clone(), 3));
        println!("DASH segment {last}: {of_day} bytes, of a minute {of_minute}");
        assert!(of_day <= of_minute + 256, "{of_day} bytes, not {of_minute}");
        let of_day = bound(&day, Resource::HlsTsSegment(vec![sound.clone(), video.clone()], last));
        let of_minute =
            bound(&minute, Resource::HlsTsSegment(vec![short_sound.clone(), short_video.clone()], 3));
        println!("TS segment {last}: {of_day} bytes, of a minute {of_minute}");
        assert!(of_day <= of_minute + 256, "{of_day} bytes, not {of_minute}");
    }
    let iframes = planned_bytes(&day, Resource::HlsIFramePlaylist(video, HlsContainer::Auto));
    println!("I-frame playlist of a day: {iframes} bytes");
    // Some 150 bytes of text for each of 21,600 segments, in a buffer that doubles.
    assert!(iframes < 16 << 20, "{iframes} bytes");
}

/// Nothing but the limits keeps a client from a new clip in each request.
#[test]
fn a_clip_takes_at_most_twice_as_much_and_a_walk_over_the_table() {
    let title = frames_of_seconds(24 * 3600, 1);
    let name = title.tracks()[0].name.clone();
    for resource in [
        Resource::DashManifest(DashTemplate::Time),
        Resource::SmoothManifest,
        Resource::HdsManifest,
        Resource::HlsMultivariant(HlsContainer::Auto),
        Resource::HlsPlaylist(vec![name.clone()], HlsContainer::Auto),
        Resource::HlsIFramePlaylist(name, HlsContainer::Auto),
    ] {
        let url = Address::new("x", resource.clone()).to_url();
        // The first manifest of a title, which remembers nothing yet, as that of a clip.
        let whole = planned_bytes(&frames_of_seconds(24 * 3600, 1), resource);
        for clip in ["vbegin=1.5", "vbegin=43200&vend=43300", "vend=86000.5"] {
            let separator = if url.contains('?') { '&' } else { '?' };
            let clipped = format!("{url}{separator}{clip}");
            let (path, query) = clipped.split_once('?').unwrap();
            let bytes = bytes_of_plan(&title, &Address::parse(path, Some(query)).unwrap());
            // The table of a track is walked once.
            let most = 2 * whole + 16 * 24 * 3600;
            assert!(bytes <= most, "{clipped}: {bytes} bytes, {whole} for the whole");
        }
    }
}

/// Returns a figure of this process in bytes, from its status in `/proc`.
#[cfg(target_os = "linux")]
fn own_memory(figure: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// The worst files that a search has found. Memory that the allocator keeps counts too.
#[cfg(target_os = "linux")]
#[test]
fn the_most_costly_files_known_took_gigabytes() {
    for (name, recipe) in costly::recipes() {
        println!("{name}");
        let file = HostileFile::from_bytes(&recipe);
        let before = own_memory("VmRSS");
        exercise(&file);
        let peak = own_memory("VmHWM").saturating_sub(before);
        println!("{name}: {:.1} MiB at the peak", peak as f64 / f64::from(1 << 20));
        assert!(peak <= 64 << 20, "{name}: {peak} bytes");
    }
}

/// Each rendition adds its own share, and no pair of renditions adds more.
#[test]
fn sixty_four_renditions_take_sixty_four_times_as_much() {
    let one = frames_of_seconds(3600, 1);
    let all = frames_of_seconds(3600, 64);
    assert_eq!(all.tracks().len(), 65);
    for resource in [
        Resource::DashManifest(DashTemplate::Time),
        Resource::HlsMultivariant(HlsContainer::Auto),
        Resource::HlsMultivariant(HlsContainer::Cmaf),
    ] {
        let of_one = planned_bytes(&one, resource.clone());
        let of_all = planned_bytes(&all, resource.clone());
        println!("{resource:?}: {of_one} and {of_all} bytes");
        assert!(of_all <= 70 * of_one, "{resource:?}: {of_one} and {of_all} bytes");
    }
    let name = one.tracks()[0].name.clone();
    let of_all = all.tracks()[63].name.clone();
    let of_one = planned_bytes(&one, Resource::DashSegment(name, 7));
    let of_all = planned_bytes(&all, Resource::DashSegment(of_all, 7));
    println!("DASH segment: {of_one} and {of_all} bytes");
    // The reach of a segment looks at the tracks that are interleaved with it.
    assert!(of_all <= of_one + 64 * 1024, "{of_one} and {of_all} bytes");
}

/// No track adds more than its own share to the index, the title or a manifest.
#[test]
fn a_thousand_tracks_take_ten_times_as_much_as_a_hundred() {
    let allocated = |tracks: u32| {
        let frames = |codec, repeat| HostileTrack {
            codec,
            timescale: 4000,
            durations: vec![(60, 4000)],
            chunk: 4,
            most_runs: 1,
            sync_every: 4,
            ..audio(repeat, 60)
        };
        let object = Bytes::from(file(vec![frames(0, 10), frames(3, tracks - 10)]).write());
        let region = Region::new(ALLOCATOR);
        let index = index(&object).unwrap();
        let of_index = region.change().bytes_allocated;
        let title = Title::new(vec![Arc::new(index)], TARGET).unwrap();
        let of_title = region.change().bytes_allocated - of_index;
        assert_eq!(title.tracks().len(), tracks as usize);
        let mut all = vec![("index", of_index), ("title", of_title)];
        let last = title.tracks().last().unwrap().name.clone();
        all.extend(
            [
                ("MPD", Resource::DashManifest(DashTemplate::Time)),
                ("HLS multivariant", Resource::HlsMultivariant(HlsContainer::Cmaf)),
                ("HLS media", Resource::HlsPlaylist(vec![last.clone()], HlsContainer::Cmaf)),
                ("Smooth", Resource::SmoothManifest),
                ("DASH segment", Resource::DashSegment(last, 7)),
            ]
            .map(|(name, resource)| (name, planned_bytes(&title, resource))),
        );
        all
    };
    for ((name, of_hundred), (_, of_thousand)) in allocated(100).into_iter().zip(allocated(1000)) {
        println!("{name}: {of_hundred} and {of_thousand} bytes");
        assert!(of_thousand <= 11 * of_hundred, "{name}: {of_hundred} and {of_thousand} bytes");
    }
}

/// Indexes an object of `size` bytes of which only the first ones exist. All others read as zeros.
fn index_of_head(head: &Bytes, size: u64) -> MediaIndex {
    let mut locator = Locator::new(Limits::default());
    let mut wants: Vec<_> = std::iter::once(0..locator.first_reads(None).head).collect();
    loop {
        let read = |range: &Range<u64>| {
            let at = |n: u64| usize::try_from(n).unwrap();
            let mut bytes =
                head.slice(at(range.start).min(head.len())..at(range.end).min(head.len())).to_vec();
            bytes.resize(at(range.end - range.start), 0);
            ObjectBytes { offset: range.start, bytes: bytes.into() }
        };
        match locator.step(size, wants.iter().map(read).collect()).unwrap() {
            Step::Done(found) => return *found,
            Step::Read(ranges) | Step::Scan(ranges) => wants = ranges,
        }
    }
}

/// The index of such a file has few bytes: nothing in it grows with the number of frames.
#[test]
fn a_day_of_frames_of_one_size_is_served() {
    let frames = 24 * 3600 * 48_000 / 1536;
    let mut day = audio(1, frames);
    day.sample_size = 1792;
    let head = Bytes::from(HostileFile { size: 1 << 17, ..file(vec![day]) }.write());
    let size = u64::from(frames) * 1792 + head.len() as u64;
    let found = index_of_head(&head, size);
    assert_eq!(found.left_out, []);
    let title = Title::new(vec![Arc::new(found)], Duration::from_secs(1)).unwrap();
    assert_eq!(title.grid().segment_count(), 24 * 3600);
}

/// Makes a title of AVC with B-frames at 25 frames a second and of AAC, as ffmpeg interleaves them,
/// from 24 s that are repeated.
fn film(times: u32) -> Title {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library/lighthouse.mp4");
    let (head, size) = looped_head(&std::fs::read(source).unwrap(), times);
    let found = index_of_head(&head.into(), size);
    assert_eq!(found.left_out, []);
    Title::new(vec![Arc::new(found)], TARGET).unwrap()
}

/// A day has 6.2 million samples, whose columns no segment may decode or copy as a whole.
#[test]
fn a_segment_of_a_day_of_film_takes_as_much_as_one_of_two_minutes() {
    let short = film(5);
    let day = film(3600);
    let samples = day.tracks().iter().map(|track| day.track(track).sample_count()).sum::<u64>();
    println!("{samples} samples, {} segments", day.grid().segment_count());
    assert!(samples > 6_000_000 && day.grid().segment_count() >= 21_600);
    let [video, sound] = [0, 1].map(|track| day.tracks()[track].name.clone());
    let last = u32::try_from(day.grid().segment_count()).unwrap();
    type Named = fn(&TrackName, &TrackName, u32) -> Resource;
    let protocols: [Named; 4] = [
        |video, _, number| Resource::DashSegment(video.clone(), number),
        |_, sound, number| Resource::DashSegment(sound.clone(), number),
        |video, sound, number| Resource::HlsTsSegment(vec![sound.clone(), video.clone()], number),
        |video, _, number| Resource::HlsIFrameTs(video.clone(), IFrameNumber::first_of(number)),
    ];
    for resource in protocols {
        let of = |title: &Title, number| {
            let [video, sound] = [0, 1].map(|track| title.tracks()[track].name.clone());
            // What a title remembers is not counted again.
            planned_bytes(title, resource(&video, &sound, number));
            planned_bytes(title, resource(&video, &sound, number))
        };
        let of_short = (1..=30).map(|number| of(&short, number)).max().unwrap();
        for number in [1, last / 2, last] {
            let of_day = of(&day, number);
            println!("{:?}: {of_day} bytes, of two minutes {of_short}", resource(&video, &sound, number));
            assert!(of_day <= of_short + 1024, "{number}: {of_day} bytes, not {of_short}");
        }
    }
    let iframes = planned_bytes(&day, Resource::HlsIFramePlaylist(video, HlsContainer::Auto));
    println!("I-frame playlist of a day: {iframes} bytes");
    assert!(iframes < 32 << 20, "{iframes} bytes");
}
