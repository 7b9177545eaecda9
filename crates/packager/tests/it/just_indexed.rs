//! Responses of a title that has just been indexed, whose values need no decoding, equal those that
//! are made of the packed columns.

use crate::media::{avc_aac, ladder};
use bytes::Bytes;
use latemux_index::{media::TrackKind, title::TrackName};
use latemux_packager::{
    Address, PackError, Resource,
    address::{DashTemplate, HlsContainer, IFrameNumber},
    segment::smooth,
    selection::Clip,
};
use latemux_testmedia::{
    edits::with_edits,
    origin::Origin,
    rewrite::{Variant, looped, progressive, with_table},
};
use proptest::prelude::*;
use std::{fs, ops::RangeInclusive, path::Path, time::Duration};

const CONTAINERS: [HlsContainer; 2] = [HlsContainer::Auto, HlsContainer::Cmaf];

/// Returns the manifests of all protocols.
fn manifests(origin: &Origin) -> Vec<Resource> {
    let mut all = vec![
        Resource::DashManifest(DashTemplate::Time),
        Resource::DashManifest(DashTemplate::Number),
        Resource::SmoothManifest,
        Resource::HdsManifest,
    ];
    all.extend(CONTAINERS.map(Resource::HlsMultivariant));
    for names in groups(origin) {
        all.extend(CONTAINERS.map(|container| Resource::HlsPlaylist(names.clone(), container)));
        all.push(Resource::HdsBootstrap(names));
    }
    for name in origin.names(TrackKind::Video) {
        all.extend(CONTAINERS.map(|container| Resource::HlsIFramePlaylist(name.clone(), container)));
    }
    all
}

/// Returns each track alone, and the first audio with the first video.
fn groups(origin: &Origin) -> Vec<Vec<TrackName>> {
    let [video, audio] = [TrackKind::Video, TrackKind::Audio].map(|kind| origin.names(kind));
    let both = audio.first().zip(video.first()).map(|(audio, video)| vec![audio.clone(), video.clone()]);
    video.into_iter().chain(audio).map(|name| vec![name]).chain(both).collect()
}

/// Returns the media of all protocols: init segments, and the segments of a number.
fn segments(origin: &Origin, number: u32) -> Vec<Resource> {
    let mut all = Vec::new();
    for names in groups(origin) {
        all.extend([
            Resource::HlsInit(names.clone()),
            Resource::HlsTsSegment(names.clone(), number),
            Resource::HlsSegment(names.clone(), number),
            Resource::HdsFragment(names.clone(), number),
        ]);
        let [name] = names.as_slice() else { continue };
        let track = origin.title.find(name).unwrap();
        let start = smooth::clock(&origin.title).boundary(track, number - 1);
        let start = start.and_then(|start| u64::try_from(start).ok()).unwrap_or(u64::MAX);
        all.extend([
            Resource::DashInit(name.clone()),
            Resource::DashSegment(name.clone(), number),
            Resource::SmoothFragment(name.clone(), start),
            Resource::HlsIFrameTs(name.clone(), IFrameNumber::first_of(number)),
            Resource::HlsIFrameCmaf(name.clone(), IFrameNumber::first_of(number)),
            Resource::DashIFrame(name.clone(), number),
        ]);
    }
    all
}

/// The digest, which is the `ETag`, and the body of a response, or the error in its place.
type Made = Result<(u128, Vec<u8>), PackError>;

/// Returns the responses for all resources of a title, of the whole title and of a clip.
fn responses(origin: &mut Origin, clip: Clip) -> Vec<(String, Made)> {
    let count = u32::try_from(origin.title.grid().segment_count()).unwrap();
    let mut numbers = vec![1, count / 2 + 1, count];
    numbers.dedup();
    let media: Vec<_> = numbers.into_iter().flat_map(|number| segments(origin, number)).collect();
    let mut all = Vec::new();
    for resource in manifests(origin).into_iter().chain(media) {
        for clip in [Clip::default(), clip] {
            let mut address = Address::new("x", resource.clone());
            address.selection.clip = clip;
            let made = origin.get_address(&address).map(|response| (response.digest, response.bytes));
            all.push((format!("{resource:?} {clip:?}"), made));
        }
    }
    all
}

/// Returns the address of the first response that differs.
fn difference<'a>(one: &'a [(String, Made)], other: &[(String, Made)]) -> Option<&'a str> {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    let text = |made: &Made| format!("{made:?}");
    pairs.into_iter().find(|(one, other)| text(&one.1) != text(&other.1)).map(|(one, _)| one.0.as_str())
}

/// Compares all responses made of unpacked copies of the columns with those made of the columns.
/// Returns the number of responses that are not errors.
fn check(what: &str, objects: Vec<Bytes>, target: Duration, clip: Clip) -> usize {
    let mut origin = Origin::just_indexed(objects.clone(), target).unwrap();
    let quick = responses(&mut origin, clip);
    assert!(origin.drop_values(), "{what}: no copies were kept");
    assert_eq!(difference(&quick, &responses(&mut origin, clip)), None, "{what}: without the copies");
    let mut packed = Origin::of(objects, target).unwrap();
    assert_eq!(difference(&quick, &responses(&mut packed, clip)), None, "{what}: never with copies");
    quick.iter().filter(|(_, made)| made.is_ok()).count()
}

fn library(name: &str) -> Bytes {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    Bytes::from(fs::read(library.join(name)).unwrap())
}

#[test]
fn a_title_that_was_just_indexed_is_served_like_any_other() {
    let lighthouse = library("lighthouse.mp4");
    // Times of hidden frames are changed after the tables have been read.
    let edited = |start| with_edits(&fs::read(avc_aac()).unwrap(), &[(b"vide", &[(3000, Some(start))])]);
    let renditions = ladder().into_iter().map(|file| fs::read(file).unwrap().into()).collect();
    for (what, objects) in [
        ("a file", vec![lighthouse.clone()]),
        ("a long file", vec![looped(&lighthouse, 8).into()]),
        ("two files", vec![library("buoy.mp4"), lighthouse]),
        ("renditions", renditions),
        ("an edit list", vec![edited(512).into()]),
        ("an edit list that starts inside a GOP", vec![edited(7 * 512 + 1024).into()]),
    ] {
        let seconds = |ms| Some(Duration::from_millis(ms));
        let clip = Clip::new(seconds(1900), seconds(7100)).unwrap();
        let served = check(what, objects, Duration::from_secs(2), clip);
        assert!(served > 40, "{what}: {served} responses");
    }
}

/// The tables of a random title.
#[derive(Debug, Clone)]
struct Tables {
    file: &'static str,
    times: u32,
    /// Durations of runs of video frames, in units of 512 ticks.
    durations: Vec<(u32, u32)>,
    /// Composition offsets of runs of video frames, in the same units.
    compositions: Vec<(u32, u32)>,
    /// Distances between sync samples.
    syncs: Vec<u32>,
    /// Start of the edit list of each track, in ticks. `None` keeps the list.
    starts: [Option<u32>; 2],
}

fn tables() -> impl Strategy<Value = Tables> {
    let runs = |values: RangeInclusive<u32>, most_count: u32, most: usize| {
        prop::collection::vec((1..=most_count, values), 0..most)
    };
    let start = || prop::option::of(0..20_000_u32);
    (
        prop_oneof![Just("lighthouse.mp4"), Just("buoy.mp4")],
        1..=3_u32,
        runs(1..=3_u32, 400, 9),
        prop_oneof![runs(0..=6_u32, 2, 1500), runs(0..=6_u32, 300, 9)],
        prop::collection::vec(1..=90_u32, 0..60),
        [start(), start()],
    )
        .prop_map(|(file, times, durations, compositions, syncs, starts)| Tables {
            file,
            times,
            durations,
            compositions,
            syncs,
            starts,
        })
}

/// Returns a table of runs for `samples` samples. The last run lasts as long as needed.
fn table_of(runs: &[(u32, u32)], samples: u32) -> Vec<u8> {
    let mut left = samples;
    let mut entries = Vec::new();
    for &(count, value) in runs.iter().chain([&(u32::MAX, 1)]) {
        let count = count.min(left);
        left -= count;
        entries.extend((count > 0).then_some([count, value * 512]));
    }
    let words = [0, u32::try_from(entries.len()).unwrap()].into_iter().chain(entries.into_iter().flatten());
    words.flat_map(u32::to_be_bytes).collect()
}

impl Tables {
    fn write(&self) -> Bytes {
        let mut file = progressive(
            &looped(&library(self.file), self.times),
            Variant { moov_last: true, ..Variant::default() },
        );
        let index = latemux_testmedia::origin::index(&file.clone().into()).unwrap();
        let video = index.tracks.iter().find(|track| track.kind == TrackKind::Video);
        let samples = video.map_or(0, |track| u32::try_from(track.sample_count()).unwrap());
        if !self.durations.is_empty() {
            file = with_table(&file, b"vide", b"stts", &table_of(&self.durations, samples));
        }
        if !self.compositions.is_empty() {
            file = with_table(&file, b"vide", b"ctts", &table_of(&self.compositions, samples));
        }
        if !self.syncs.is_empty() {
            let mut number = 1;
            let mut syncs = vec![1];
            for distance in &self.syncs {
                number += distance;
                syncs.extend((number <= samples).then_some(number));
            }
            let words = [0, u32::try_from(syncs.len()).unwrap()].into_iter().chain(syncs);
            let table: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
            file = with_table(&file, b"vide", b"stss", &table);
        }
        for (handler, start) in [b"vide", b"soun"].into_iter().zip(self.starts) {
            if let Some(start) = start {
                // Longer than any of these files, so that only the start is cut.
                file = with_edits(&file, &[(handler, &[(1_000_000, Some(start))])]);
            }
        }
        file.into()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // A failure prints the tables, and proptest keeps the seed.
    #[test]
    fn a_random_title_that_was_just_indexed_is_served_like_any_other(
        tables in tables(),
        target in 500..6000_u64,
        begin in 0..20_000_u64,
        length in 1..20_000_u64,
    ) {
        let at = |ms| Some(Duration::from_millis(ms));
        let clip = Clip::new(at(begin), at(begin + length)).unwrap();
        let served = check("a random title", vec![tables.write()], Duration::from_millis(target), clip);
        prop_assert!(served > 20, "{} responses", served);
    }
}
