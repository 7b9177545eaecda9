//! Scalable AVC (SVC) that the openh264 library encodes: how it is listed and sent, and what is
//! left of segments in order of importance that are cut off.
//!
//! ffmpeg decodes the base layer, and openh264 the highest layer.

use crate::{
    player::{BASE, fetch},
    priority::{Frames, Segment, TARGET, assert_file, decode, decode_all},
};
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_isobmff::{cursor::Cursor, fragment::Moof};
use latemux_packager::{
    address::Resource,
    carry::{Protocol, carries},
    restore::restore,
};
use latemux_testmedia::{
    origin::Origin,
    svc::{Entry, OpenH264, Picture},
};

/// nal_unit_type of a slice of an enhancement layer.
const EXTENSION: u8 = 20;

/// Returns the samples of a file with one run in each fragment, whose fields are in the fragment.
fn samples(file: &[u8]) -> Vec<Vec<u8>> {
    let file = Bytes::copy_from_slice(file);
    let mut samples = Vec::new();
    for moof in Cursor::new(&file, 0).boxes().map(Result::unwrap).filter(|found| found.kind() == b"moof") {
        let track = Moof::parse(&moof.raw(), moof.offset).unwrap().tracks.remove(0);
        let [run] = &track.runs[..] else { panic!("one run") };
        let mut at = usize::try_from(moof.offset).unwrap();
        at += usize::try_from(run.data_offset.unwrap()).unwrap();
        for sample in run.iter() {
            let size = sample.size.or(track.default_size).unwrap() as usize;
            samples.push(file[at..at + size].to_vec());
            at += size;
        }
    }
    samples
}

/// Returns the nal_unit_type of each NAL unit with a slice in samples, and its bytes from its
/// length on.
fn slices(samples: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    let mut rest = samples;
    while let Some(length) = rest.first_chunk::<4>() {
        let (unit, after) = rest.split_at(4 + u32::from_be_bytes(*length) as usize);
        let kind = unit[4] & 0x1f;
        if matches!(kind, 1 | 5 | EXTENSION) {
            found.push((kind, unit));
        }
        rest = after;
    }
    found
}

/// Returns the number of bytes before the first slice of an enhancement layer.
fn base_len(sample: &[u8]) -> usize {
    let slices = slices(sample);
    let (_, slice) = slices.iter().find(|(kind, _)| *kind == EXTENSION).unwrap();
    slice.as_ptr() as usize - sample.as_ptr() as usize
}

#[test]
fn temporal_layers_that_are_cut_off_play_what_arrived() {
    let Some(openh264) = OpenH264::find() else { return };
    let file = openh264.mp4(1, 3, Entry::Avc1);
    assert_file("scalable-temporal", &file);
    let segment = Segment::fetch(&mut Origin::open(&[file], TARGET), 1);
    let whole = restore(&segment.init.clone().into(), &segment.prioritised.clone().into()).unwrap();
    assert!(samples(&whole.file) == samples(&segment.plain));
    // temporal_id of the prefix NAL unit of each sample, in the order of the `mdat`.
    let bytes = Bytes::from(segment.prioritised);
    let mdat = Cursor::new(&bytes, 0).find(b"mdat").unwrap().payload.peek();
    let count = samples(&segment.plain).len();
    let mut rest = &mdat[count..];
    let mut temporal = Vec::new();
    while let Some(length) = rest.first_chunk::<4>() {
        if rest[4] & 0x1f == 14 {
            temporal.push(rest[7] >> 5);
        }
        rest = &rest[4 + u32::from_be_bytes(*length) as usize..];
    }
    assert_eq!(temporal.len(), count);
    assert!(temporal.is_sorted(), "{temporal:?}");
    assert_eq!(temporal.iter().filter(|&&layer| layer == 2).count(), count / 2);
}

/// A segment of video with two spatial layers, and how both decoders show it.
struct Spatial {
    what: String,
    segment: Segment,
    /// The init segment of the same samples with the sample entry `avc1`. ffmpeg has no decoder for
    /// the others.
    avc_init: Vec<u8>,
    openh264: OpenH264,
    samples: Vec<Vec<u8>>,
    base: Frames,
    highest: Vec<Option<Picture>>,
}

/// A sample edge, or the end of a layer: what is left if the segment is cut off there.
#[derive(Debug, Clone, Copy)]
struct Edge {
    /// Number of bytes of the segment.
    len: usize,
    /// Number of samples whose base layer is left.
    kept: usize,
    /// Number of samples whose enhancement layer is left.
    layers: usize,
}

impl Spatial {
    fn new(temporal: u32, entry: Entry) -> Option<Self> {
        let openh264 = OpenH264::find()?;
        let fetch = |entry| {
            let file = openh264.mp4(2, temporal, entry);
            Segment::fetch(&mut Origin::open(&[file], TARGET), 1)
        };
        let what = format!("scalable-{temporal}-{entry:?}");
        let segment = fetch(entry);
        let avc_init = fetch(Entry::Avc1).init;
        assert_eq!(avc_init == segment.init, entry == Entry::Avc1, "{what}");
        let samples = samples(&segment.plain);
        let (base, problems) = decode(&what, &[&avc_init[..], &segment.plain].concat());
        assert_eq!((base.len(), problems.as_str()), (samples.len(), ""), "{what}");
        let highest = openh264.decode(samples.iter().map(Vec::as_slice));
        assert!(highest.iter().all(|picture| picture.as_ref().is_some_and(|picture| picture.width == 320)));
        Some(Self { what, segment, avc_init, openh264, samples, base, highest })
    }

    /// Returns a restored file with an init segment that ffmpeg has a decoder for.
    fn decodable(&self, restored: &[u8]) -> Vec<u8> {
        let fragments = restored.strip_prefix(&self.segment.init[..]).unwrap();
        [&self.avc_init[..], fragments].concat()
    }

    /// Returns the file that is restored from the first `len` bytes of the prioritised segment.
    fn restored(&self, Edge { kept, layers, .. }: Edge, len: usize) -> Bytes {
        let cut = Bytes::copy_from_slice(&self.segment.prioritised[..len]);
        let restored = restore(&self.segment.init.clone().into(), &cut).unwrap();
        let numbers = (restored.kept, restored.lost, restored.reduced);
        let expected = [kept, self.samples.len() - kept, kept - layers].map(|number| number as u64);
        assert_eq!(numbers, expected.into(), "{} {len}", self.what);
        restored.file
    }

    /// Asserts that at each edge, ffmpeg shows the base layer of all samples that are left.
    fn assert_base(&self, edges: &[Edge], files: &[Bytes]) {
        let decodable: Vec<_> = files.iter().map(|file| self.decodable(file)).collect();
        let (decoded, problems) = decode_all(&self.what, &decodable);
        assert_eq!(problems, "", "{}", self.what);
        for (edge, base) in edges.iter().zip(&decoded) {
            assert_eq!(base.len(), edge.kept, "{} {edge:?}", self.what);
            assert!(base.iter().all(|(time, hash)| self.base.get(time) == Some(hash)), "{edge:?}");
        }
    }

    /// Asserts that openh264 shows the highest layer of a restored file up to the first sample that
    /// lacks it.
    fn assert_highest(&self, edge: Edge, file: &[u8]) {
        let left = samples(file);
        let is_whole: Vec<bool> = left.iter().zip(&self.samples).map(|(left, all)| left == all).collect();
        assert_eq!(is_whole.iter().filter(|&&whole| whole).count(), edge.layers, "{} {edge:?}", self.what);
        let shown = self.openh264.decode(left.iter().map(Vec::as_slice));
        let first_cut = is_whole.iter().position(|whole| !whole).unwrap_or(left.len());
        assert_eq!(shown[..first_cut], self.highest[..first_cut], "{} {edge:?}", self.what);
        // Where it has no higher layer, openh264 shows the base layer or nothing.
        let same = |(shown, picture): (&Option<Picture>, _)| {
            shown.as_ref().is_none_or(|shown| shown.width == 160) || shown == picture
        };
        assert!(shown.iter().zip(&self.highest).all(same), "{} {edge:?}", self.what);
    }

    /// Returns the end of each layer of each sample, in the order of the prioritised segment.
    fn edges(&self) -> Vec<Edge> {
        let count = self.samples.len();
        let prioritised = &self.segment.prioritised;
        let bases: usize = self.samples.iter().map(|sample| base_len(sample)).sum();
        let all: usize = self.samples.iter().map(Vec::len).sum();
        let (base, higher) = prioritised[prioritised.len() - all..].split_at(bases);
        assert!(slices(base).iter().all(|(kind, _)| *kind != EXTENSION));
        let layers = slices(higher);
        assert!(layers.iter().all(|(kind, _)| *kind == EXTENSION));
        assert_eq!((slices(base).len(), layers.len()), (count, count));
        // Other NAL units of the base layer come before its slice.
        let end = |slice: &[u8]| slice.as_ptr() as usize - prioritised.as_ptr() as usize + slice.len();
        let pieces = [slices(base), layers].concat();
        let edge = |(pieces, (_, slice)): (usize, &(u8, &[u8]))| Edge {
            len: end(slice),
            kept: pieces.min(count),
            layers: pieces.saturating_sub(count),
        };
        let edges: Vec<Edge> = (1..).zip(&pieces).map(edge).collect();
        assert_eq!(edges[edges.len() - 1].len, prioritised.len());
        edges
    }
}

/// Cuts video with so many temporal layers off at each edge.
fn assert_every_edge(temporal: u32, entry: Entry) {
    let Some(spatial) = Spatial::new(temporal, entry) else { return };
    let edges = spatial.edges();
    let files: Vec<Bytes> = edges.iter().map(|&edge| spatial.restored(edge, edge.len)).collect();
    spatial.assert_base(&edges, &files);
    for (at, (&edge, file)) in edges.iter().zip(&files).enumerate() {
        // Half of the next piece is of no use.
        if let Some(next) = edges.get(at + 1) {
            let half = spatial.restored(edge, edge.len + (next.len - edge.len) / 2);
            assert!(half == *file, "{} {edge:?}", spatial.what);
        }
        // openh264 takes longer than ffmpeg, so it decodes every eighth file and the whole one.
        let is_whole = edge.layers == spatial.samples.len();
        if edge.kept == spatial.samples.len() && (edge.layers % 8 == 0 || is_whole) {
            spatial.assert_highest(edge, file);
        }
    }
}

#[test]
fn the_base_layer_stays_whole_wherever_spatial_layers_are_cut_off() {
    assert_every_edge(1, Entry::Avc1);
    assert_every_edge(3, Entry::Avc1);
}

#[test]
fn the_base_layer_of_svc1_stays_whole_wherever_layers_are_cut_off() {
    assert_every_edge(3, Entry::Svc1);
}

#[test]
fn the_base_layer_of_svc2_stays_whole_wherever_layers_are_cut_off() {
    assert_every_edge(3, Entry::Svc2);
}

#[test]
fn a_sample_that_is_cut_off_in_a_higher_layer_keeps_its_base_layer() {
    for entry in [Entry::Avc1, Entry::Svc1, Entry::Svc2] {
        let Some(spatial) = Spatial::new(1, entry) else { return };
        let init = Bytes::from(spatial.segment.init.clone());
        let plain = &spatial.segment.plain;
        let start = plain.len() - spatial.samples.iter().map(Vec::len).sum::<usize>();
        for number in [0, 20, spatial.samples.len() - 1] {
            let before: usize = spatial.samples[..number].iter().map(Vec::len).sum();
            let sample = &spatial.samples[number];
            let base = base_len(sample);
            for (len, is_kept) in [
                (base - 1, false),
                // The header of the next NAL unit must be there.
                (base + 4, false),
                (base + 5, true),
                (sample.len() - 1, true),
            ] {
                let what = format!("{}-cut-{number}-{len}", spatial.what);
                let cut = Bytes::copy_from_slice(&plain[..start + before + len]);
                let Ok(restored) = restore(&init, &cut) else {
                    assert!(number == 0 && !is_kept, "{what}");
                    continue;
                };
                let kept = number + usize::from(is_kept);
                let numbers = (restored.kept, restored.reduced);
                assert_eq!(numbers, (kept as u64, u64::from(is_kept)), "{what}");
                let left = samples(&restored.file);
                assert!(left[..number] == spatial.samples[..number], "{what}");
                let last = is_kept.then(|| &sample[..base]);
                assert!(left.get(number).map(Vec::as_slice) == last, "{what}");
                let (base, problems) = decode(&what, &spatial.decodable(&restored.file));
                assert_eq!((base.len(), problems.as_str()), (kept, ""), "{what}");
            }
        }
    }
}

#[test]
fn scalable_video_is_listed_where_players_know_its_base_layer() {
    let Some(openh264) = OpenH264::find() else { return };
    let of = |entry| {
        let mut origin = Origin::open(&[openh264.mp4(2, 1, entry)], TARGET);
        let track = origin.title.track(&origin.title.tracks()[0]);
        let carried = Protocol::ALL.map(|protocol| carries(protocol, track).err().unwrap_or_default());
        let mpd = fetch(&mut origin, &format!("{BASE}.mpd")).map(|mpd| String::from_utf8(mpd.bytes).unwrap());
        (origin, carried, mpd)
    };
    let none = String::new;
    let (mut origin, carried, mpd) = of(Entry::Avc1);
    assert_eq!(carried, [none(), none(), none(), none(), none()]);
    assert!(mpd.unwrap().contains("codecs=\"avc1.42e00c\""));
    // In TS, too, decoders of AVC pass over the enhancement layers.
    let name = origin.names(TrackKind::Video).remove(0);
    let file = format!("x-{}={}-1", name.stem, name.bitrate);
    let cmaf = fetch(&mut origin, &format!("{BASE}hls/{file}.m4s")).unwrap().bytes;
    let ts = fetch(&mut origin, &format!("{BASE}{file}.ts")).unwrap().bytes;
    let init = origin.get(&Resource::DashInit(name)).unwrap().bytes;
    let hashes = |file: &[u8]| {
        let (frames, problems) = decode("scalable-protocols", file);
        assert_eq!(problems, "");
        frames.into_values().collect::<Vec<_>>()
    };
    assert_eq!(hashes(&ts), hashes(&[init, cmaf].concat()));

    let (_, carried, mpd) = of(Entry::Svc1);
    let no = |protocol: &str| format!("{protocol} has no mapping for svc1");
    let rest = [no("HLS TS"), no("Smooth Streaming"), no("HDS")];
    assert_eq!(carried, [&[none(), none()][..], &rest].concat()[..]);
    assert!(mpd.unwrap().contains("codecs=\"svc1.53000c\""));

    let (_, carried, mpd) = of(Entry::Enhancement);
    assert_eq!(carried, ["svc1 needs the base layer of another track"; 5]);
    assert!(mpd.is_err());
}
