//! Instructions that the pure crates need, counted by callgrind, which shows a regression even on a
//! noisy machine.
//!
//! `make bench-instructions` compares the figures with those in `bench/instructions.json`, and
//! fails if one has grown by 5 %. The sources are the titles of `samples/library`, which do not
//! depend on the version of an encoder. A plan is made once before it is counted, so a title has
//! already remembered what it can. Functions return values that would otherwise be dropped, and the
//! drop counted.

#![allow(clippy::unwrap_used, reason = "a benchmark that fails should stop")]
#![allow(missing_docs, reason = "made by macros")]

use bytes::Bytes;
use gungraun::{Callgrind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use latemux_index::{
    IndexError, Title,
    locate::fragment_reader::{FragmentReader, FragmentStep},
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::fragment_samples::{FragmentSamples, NoFragments},
    media::{MediaIndex, TrackKind},
    title::TrackName,
};
use latemux_isobmff::movie::Movie;
use latemux_packager::{
    Address, PackError, Plan, Planned, Resource,
    address::{DashTemplate, HlsContainer},
    plan,
    segment::smooth,
    selection::DashText,
    text_file,
};
use latemux_testmedia::{
    hostile::{HostileFile, costly},
    origin::{Origin, Response, index},
    rewrite::{looped, looped_head},
    subtitles::two_hours,
};
use latemux_text::TextFormat;
use std::{hint::black_box, path::Path, sync::Arc, time::Duration};

/// Target duration, the default of `latemux serve`.
const TARGET: Duration = Duration::from_secs(4);
/// Number of a segment in the middle of each title.
const NUMBER: u32 = 3;

/// AVC with B-frames and AAC, interleaved, in one progressive file.
const MUXED: &[&str] = &["lighthouse.mp4"];
/// The same in fragments, found by `sidx`.
const FRAGMENTED: &[&str] = &["ferry.mp4"];
/// Three renditions and two languages, each in its own file.
const RENDITIONS: &[&str] = &[
    "harbour/audio-eng.mp4",
    "harbour/audio-fra.mp4",
    "harbour/video-180p.mp4",
    "harbour/video-234p.mp4",
    "harbour/video-360p.mp4",
];

fn object(name: &str) -> Bytes {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    Bytes::from(std::fs::read(library.join(name)).unwrap())
}

fn title(files: &[&str]) -> Origin {
    Origin::of(files.iter().map(|name| object(name)).collect(), TARGET).unwrap()
}

/// Returns the offset and the bytes of a top-level box.
fn top_level(object: &Bytes, four_cc: &[u8; 4]) -> (usize, Bytes) {
    let mut at = 0;
    loop {
        let size = usize::try_from(u32::from_be_bytes(object[at..at + 4].try_into().unwrap())).unwrap();
        if object[at + 4..at + 8] == *four_cc {
            return (at, object.slice(at..at + size));
        }
        at += size;
    }
}

fn moov(file: &str) -> (Bytes, u64) {
    let (at, bytes) = top_level(&object(file), b"moov");
    (bytes, at as u64)
}

#[library_benchmark]
#[bench::progressive(moov(MUXED[0]))]
#[bench::fragmented(moov(FRAGMENTED[0]))]
fn moov_parsed((moov, offset): (Bytes, u64)) -> Movie {
    black_box(Movie::parse(&moov, offset).unwrap())
}

#[library_benchmark]
#[bench::progressive(object(MUXED[0]))]
#[bench::fragmented(object(FRAGMENTED[0]))]
fn object_indexed(object: Bytes) -> (MediaIndex, Bytes) {
    (black_box(index(&object).unwrap()), object)
}

fn stored() -> Bytes {
    Bytes::from(index(&object(MUXED[0])).unwrap().to_bytes())
}

#[library_benchmark]
#[bench::progressive(stored())]
fn stored_index_read(bytes: Bytes) -> MediaIndex {
    black_box(MediaIndex::from_bytes(&bytes).unwrap())
}

fn fragment() -> (Arc<MediaIndex>, u64, Bytes) {
    let object = object(FRAGMENTED[0]);
    let (at, _) = top_level(&object, b"moof");
    (Arc::new(index(&object).unwrap()), at as u64, object)
}

#[library_benchmark]
#[bench::sidx(fragment())]
fn fragment_indexed((index, at, object): (Arc<MediaIndex>, u64, Bytes)) -> FragmentSamples {
    let mut reader = FragmentReader::new(index, at..object.len() as u64);
    let mut offset = at;
    let mut bytes = Bytes::new();
    loop {
        match reader.feed(offset, &bytes).unwrap() {
            FragmentStep::Done(samples) => return black_box(samples),
            FragmentStep::Need { from, len } => {
                let start = usize::try_from(from).unwrap();
                let end = usize::try_from(from + len).unwrap().min(object.len());
                (offset, bytes) = (from, object.slice(start..end));
            }
        }
    }
}

fn indexes() -> Vec<Arc<MediaIndex>> {
    RENDITIONS.iter().map(|file| Arc::new(index(&object(file)).unwrap())).collect()
}

#[library_benchmark]
#[bench::renditions(indexes())]
fn title_made(indexes: Vec<Arc<MediaIndex>>) -> Title {
    black_box(Title::new(indexes, TARGET).unwrap())
}

/// Returns a title and a segment of it that has been planned once.
fn segment(files: &[&str], protocol: &str) -> (Origin, Resource) {
    let mut origin = title(files);
    let video = origin.names(TrackKind::Video)[0].clone();
    let audio = origin.names(TrackKind::Audio)[0].clone();
    let both = vec![audio.clone(), video.clone()];
    let time = |name| {
        let clock = smooth::clock(&origin.title);
        u64::try_from(clock.boundary(origin.title.find(name).unwrap(), NUMBER - 1).unwrap()).unwrap()
    };
    let resource = match protocol {
        "init" => Resource::DashInit(video),
        "dash video" => Resource::DashSegment(video, NUMBER),
        "dash audio" => Resource::DashSegment(audio, NUMBER),
        "cmaf" => Resource::HlsSegment(vec![video], NUMBER),
        "mss video" => Resource::SmoothFragment(video.clone(), time(&video)),
        "mss audio" => Resource::SmoothFragment(audio.clone(), time(&audio)),
        "hds" => Resource::HdsFragment(both, NUMBER),
        "ts" => Resource::HlsTsSegment(both, NUMBER),
        other => panic!("no protocol {other}"),
    };
    origin.plan(&resource).unwrap();
    (origin, resource)
}

#[library_benchmark]
#[bench::dash_init(segment(MUXED, "init"))]
#[bench::dash_video(segment(MUXED, "dash video"))]
#[bench::dash_audio(segment(MUXED, "dash audio"))]
#[bench::dash_video_of_renditions(segment(RENDITIONS, "dash video"))]
#[bench::dash_video_of_fragments(segment(FRAGMENTED, "dash video"))]
#[bench::cmaf(segment(MUXED, "cmaf"))]
#[bench::mss_video(segment(MUXED, "mss video"))]
#[bench::mss_audio(segment(MUXED, "mss audio"))]
#[bench::hds(segment(MUXED, "hds"))]
#[bench::ts(segment(MUXED, "ts"))]
fn segment_planned((mut origin, resource): (Origin, Resource)) -> (Origin, Resource, Plan) {
    let plan = black_box(origin.plan(&resource).unwrap());
    (origin, resource, plan)
}

#[library_benchmark]
#[bench::mss(segment(MUXED, "mss video"))]
#[bench::hds(segment(MUXED, "hds"))]
#[bench::ts(segment(MUXED, "ts"))]
#[bench::ts_of_renditions(segment(RENDITIONS, "ts"))]
fn segment_made((mut origin, resource): (Origin, Resource)) -> (Origin, Resource, Response) {
    let response = black_box(origin.get(&resource).unwrap());
    (origin, resource, response)
}

#[library_benchmark]
#[bench::subrip(two_hours())]
fn text_indexed(file: String) -> (String, MediaIndex) {
    let index = black_box(text_file::index(TextFormat::SubRip, "eng.srt", file.as_bytes()).unwrap());
    (file, index)
}

/// Returns a title with a file of text, and a segment of the text that has been planned once.
fn text_segment(form: &str) -> (Origin, Address) {
    let mut origin = title(MUXED).with_text("eng.srt", two_hours().as_bytes(), TARGET);
    let name = origin.names(TrackKind::Text)[0].clone();
    let resource = match form {
        "webvtt" => Resource::HlsText(name, NUMBER, HlsContainer::Auto),
        _ => Resource::DashSegment(name, NUMBER),
    };
    let mut address = Address::new("x", resource);
    address.selection.text = if form == "stpp" { DashText::Stpp } else { DashText::Stored };
    origin.get_address(&address).unwrap();
    (origin, address)
}

#[library_benchmark]
#[bench::webvtt(text_segment("webvtt"))]
#[bench::stpp(text_segment("stpp"))]
fn text_segment_made((mut origin, address): (Origin, Address)) -> (Origin, Address, Response) {
    let response = black_box(origin.get_address(&address).unwrap());
    (origin, address, response)
}

fn manifest(protocol: &str) -> (Origin, Resource) {
    let mut origin = title(RENDITIONS);
    let video = origin.names(TrackKind::Video)[0].clone();
    let audio = origin.names(TrackKind::Audio)[0].clone();
    let resource = match protocol {
        "dash" => Resource::DashManifest(DashTemplate::Time),
        "hls ts" => Resource::HlsMultivariant(HlsContainer::Auto),
        "hls cmaf" => Resource::HlsMultivariant(HlsContainer::Cmaf),
        "hls playlist" => Resource::HlsPlaylist(vec![video], HlsContainer::Cmaf),
        "mss" => Resource::SmoothManifest,
        "hds" => Resource::HdsManifest,
        "bootstrap" => Resource::HdsBootstrap(vec![audio, video]),
        other => panic!("no protocol {other}"),
    };
    origin.plan(&resource).unwrap();
    (origin, resource)
}

#[library_benchmark]
#[bench::dash(manifest("dash"))]
#[bench::hls_ts(manifest("hls ts"))]
#[bench::hls_cmaf(manifest("hls cmaf"))]
#[bench::hls_playlist(manifest("hls playlist"))]
#[bench::mss(manifest("mss"))]
#[bench::hds(manifest("hds"))]
#[bench::hds_bootstrap(manifest("bootstrap"))]
fn manifest_made((mut origin, resource): (Origin, Resource)) -> (Origin, Resource, Plan) {
    let plan = black_box(origin.plan(&resource).unwrap());
    (origin, resource, plan)
}

/// Returns a title of minutes that has not been indexed: one that is played often enough.
fn unknown(minutes: usize) -> Bytes {
    let times = u32::try_from(minutes * 60 / 24).unwrap();
    Bytes::from(looped(&object(MUXED[0]), times))
}

// Indexes an object and makes its MPD, as for the first request of a title.
#[library_benchmark]
#[bench::of_2_min(unknown(2))]
#[bench::of_2_h(unknown(120))]
fn first_mpd(object: Bytes) -> (Origin, Plan) {
    let mut origin = Origin::just_indexed(vec![object], TARGET).unwrap();
    let plan = black_box(origin.plan(&Resource::DashManifest(DashTemplate::Time)).unwrap());
    origin.drop_values();
    (origin, plan)
}

// The same for the HLS multivariant playlist, and then the first media playlist in it.
#[library_benchmark]
#[bench::of_2_min(unknown(2))]
#[bench::of_2_h(unknown(120))]
fn first_hls(object: Bytes) -> (Origin, Plan, Plan) {
    let mut origin = Origin::just_indexed(vec![object], TARGET).unwrap();
    let plan = black_box(origin.plan(&Resource::HlsMultivariant(HlsContainer::Auto)).unwrap());
    origin.drop_values();
    let names = [TrackKind::Audio, TrackKind::Video].map(|kind| origin.names(kind)[0].clone());
    let playlist = Resource::HlsPlaylist(names.to_vec(), HlsContainer::Auto);
    let playlist = black_box(origin.plan(&playlist).unwrap());
    (origin, plan, playlist)
}

/// Returns a title of minutes without its media, and the name of its video.
fn film(minutes: u32) -> (Title, TrackName) {
    let (head, size) = looped_head(&object(MUXED[0]), minutes * 60 / 24);
    let mut locator = Locator::new(Limits::default());
    let moov = ObjectBytes { offset: 0, bytes: head.into() };
    let Step::Done(index) = locator.step(size, vec![moov]).unwrap() else { panic!("all of moov is there") };
    let title = Title::new(vec![Arc::new(*index)], TARGET).unwrap();
    let name = title.tracks()[0].name.clone();
    (title, name)
}

fn planned(title: &Title, resource: Resource) -> Planned {
    plan(title, &Address::new("x", resource), &NoFragments).unwrap()
}

// Plans the first segment and the last one of a long title and of a short one.
#[library_benchmark]
#[bench::of_2_min(film(2))]
#[bench::of_24_h(film(24 * 60))]
fn ends_planned((title, name): (Title, TrackName)) -> (Title, [Planned; 2]) {
    let last = u32::try_from(title.grid().segment_count()).unwrap();
    let ends = [1, last].map(|number| planned(&title, Resource::DashSegment(name.clone(), number)));
    (title, black_box(ends))
}

#[library_benchmark]
#[bench::of_2_min(film(2))]
#[bench::of_24_h(film(24 * 60))]
fn iframe_playlist((title, name): (Title, TrackName)) -> (Title, Planned) {
    let resource = Resource::HlsIFramePlaylist(name, HlsContainer::Auto);
    let playlist = black_box(planned(&title, resource));
    (title, playlist)
}

/// Returns one of the most costly files below 1 MB.
fn costly(name: &str) -> Bytes {
    let (_, recipe) = costly::recipes().into_iter().find(|(known, _)| *known == name).unwrap();
    HostileFile::from_bytes(&recipe).write().into()
}

/// A title with one of its manifests, or the errors that refuse them.
type Costly = Result<(Title, Result<Planned, PackError>), IndexError>;

// Indexes a file and makes its title and the manifest that costs the most. docs/limits.md states
// the time and memory that the worst of them takes.
#[library_benchmark]
#[bench::bare(costly("bare"), "dash")]
#[bench::boundaries(costly("boundaries"), "dash")]
#[bench::cues(costly("cues"), "dash")]
#[bench::frames(costly("frames"), "dash")]
#[bench::lasting(costly("lasting"), "hls")]
#[bench::lengths(costly("lengths"), "hds")]
#[bench::rates(costly("rates"), "dash")]
#[bench::runs(costly("runs"), "dash")]
#[bench::single(costly("single"), "hls")]
#[bench::sound(costly("sound"), "hls")]
#[bench::sparse(costly("sparse"), "hls")]
#[bench::stills(costly("stills"), "dash")]
#[bench::sync(costly("sync"), "iframes")]
#[bench::targets(costly("targets"), "hls")]
#[bench::tracks(costly("tracks"), "dash")]
fn costly_file(object: Bytes, manifest: &str) -> (Bytes, Costly) {
    let title = index(&object).and_then(|index| Title::new(vec![Arc::new(index)], TARGET));
    let made = title.map(|title| {
        let longest = title.tracks().iter().max_by_key(|track| track.segment_count()).unwrap().name.clone();
        let resource = match manifest {
            "dash" => Resource::DashManifest(DashTemplate::Time),
            "hls" => Resource::HlsMultivariant(HlsContainer::Auto),
            "hds" => Resource::HdsManifest,
            "smooth" => Resource::SmoothManifest,
            "playlist" => Resource::HlsPlaylist(vec![longest], HlsContainer::Auto),
            "iframes" => Resource::HlsIFramePlaylist(longest, HlsContainer::Auto),
            other => panic!("no manifest {other}"),
        };
        let planned = plan(&title, &Address::new("x", resource), &NoFragments);
        (title, planned)
    });
    (object, black_box(made))
}

fn url() -> String {
    let (origin, _) = segment(MUXED, "init");
    let video = origin.names(TrackKind::Video)[0].clone();
    Address::new("films/lighthouse.mp4", Resource::DashSegment(video, NUMBER)).to_url()
}

#[library_benchmark]
#[bench::dash(url())]
fn url_parsed(url: String) -> (String, Address) {
    let address = black_box(Address::parse(&url, None).unwrap());
    (url, address)
}

library_benchmark_group!(name = isobmff, benchmarks = [moov_parsed]);
library_benchmark_group!(
    name = index_,
    benchmarks = [object_indexed, stored_index_read, fragment_indexed, title_made]
);
library_benchmark_group!(
    name = packager,
    benchmarks = [
        url_parsed,
        segment_planned,
        segment_made,
        text_indexed,
        text_segment_made,
        manifest_made,
        first_mpd,
        first_hls,
        ends_planned,
        iframe_playlist,
        costly_file
    ]
);
main!(
    config = LibraryBenchmarkConfig::default()
        // One way for libc to copy and compare, on every processor.
        .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-AVX512F,-ERMS,-FSRM")
        .tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = [isobmff, index_, packager]
);
