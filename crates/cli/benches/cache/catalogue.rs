//! The segments that players find in the manifests of a title, for each protocol.

use crate::{
    crawl::{NATIVE, crawl},
    media::{Layout, Stored, boxes},
    origin::Origin,
};
use std::{collections::BTreeMap, fs};
use xxhash_rust::xxh3::xxh3_64;

/// Names of the protocols, and the manifests where their players start.
pub(crate) const PROTOCOLS: [(&str, &str); 5] = [
    ("DASH", NATIVE[0]),
    ("HLS TS", NATIVE[2]),
    ("HLS CMAF", NATIVE[3]),
    ("MSS", NATIVE[4]),
    ("HDS", NATIVE[5]),
];

/// A title, as served for one segment duration.
pub(crate) struct Title {
    pub(crate) layout: Layout,
    pub(crate) path: String,
    /// Bytes of all samples, from the files.
    pub(crate) media: u64,
    /// Bytes of the `moof`s between the samples.
    pub(crate) fragments: u64,
    /// Protocols in the order of [`PROTOCOLS`].
    pub(crate) protocols: Vec<Protocol>,
}

pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    /// Manifests and init segments.
    pub(crate) others: Vec<String>,
    pub(crate) tracks: Vec<Track>,
}

/// The segments of a track, or of several tracks that a protocol muxes.
#[derive(Default)]
pub(crate) struct Track {
    pub(crate) video: bool,
    pub(crate) audio: bool,
    pub(crate) segments: Vec<Segment>,
}

pub(crate) struct Segment {
    pub(crate) url: String,
    /// Digest of the segment's bytes.
    pub(crate) digest: u64,
    /// Number of bytes.
    pub(crate) length: u64,
    /// Number of its bytes that are in an `mdat`. 0 if there is none.
    pub(crate) payload: u64,
}

impl Title {
    pub(crate) fn of(origin: &Origin, stored: &Stored) -> Self {
        let sums = |types: &[&[u8; 4]]| {
            let files = stored.files.iter().map(|file| boxes(&fs::read(file).unwrap(), types));
            files.fold((0, 0), |sum, file| (sum.0 + file.0, sum.1 + file.1))
        };
        let moof = sums(&[b"moof"]);
        let path = stored.path.clone();
        let protocols =
            PROTOCOLS.iter().map(|(name, entry)| Protocol::of(origin, &path, name, entry)).collect();
        Self { layout: stored.layout, path, media: sums(&[b"mdat"]).1, fragments: moof.0 + moof.1, protocols }
    }

    pub(crate) fn protocol(&self, name: &str) -> &Protocol {
        self.protocols.iter().find(|protocol| protocol.name == name).unwrap()
    }

    /// Returns the bytes of samples in segment `number` (0-based) of a rendition and, if
    /// `with_audio` is true, of its audio. A segment has the same samples in every protocol, but
    /// only CMAF shows how many bytes they are.
    pub(crate) fn payload(&self, rendition: usize, with_audio: bool, number: usize) -> u64 {
        let dash = &self.protocol("DASH").tracks;
        let video = &dash.iter().filter(|track| track.video).nth(rendition).unwrap().segments[number];
        let audio = dash.iter().find(|track| track.audio).filter(|_| with_audio);
        video.payload + audio.map_or(0, |track| track.segments[number].payload)
    }
}

impl Protocol {
    fn of(origin: &Origin, title: &str, name: &'static str, entry: &str) -> Self {
        let responses = crawl(origin.address, &[format!("/{title}/{entry}")]);
        let (mut others, mut tracks) = (Vec::new(), BTreeMap::<String, (Track, Vec<u64>)>::new());
        for (url, response) in responses {
            // Key frames for seeking repeat the same media.
            if url.contains("/keyframes/") {
                continue;
            }
            let kind = &response.headers["content-type"];
            let manifest = ["mpegurl", "xml", "abst"].iter().any(|part| kind.contains(part));
            if manifest || response.body.get(4..8) == Some(b"ftyp") {
                others.push(url);
                continue;
            }
            let (of, number) = track_and_number(&url);
            let (track, numbers) = tracks.entry(of).or_default();
            (track.audio, track.video) = (url.contains("audio"), url.contains("video"));
            numbers.push(number);
            let is_iso = response.body.get(4..8).is_some_and(<[u8]>::is_ascii);
            let payload =
                if is_iso && !kind.contains("mp2t") { boxes(&response.body, &[b"mdat"]).1 } else { 0 };
            let digest = xxh3_64(&response.body);
            let length = response.body.len() as u64;
            track.segments.push(Segment { url, digest, length, payload });
        }
        let in_order = |(track, numbers): (Track, Vec<u64>)| {
            let mut segments: Vec<_> = numbers.into_iter().zip(track.segments).collect();
            segments.sort_by_key(|(number, _)| *number);
            Track { segments: segments.into_iter().map(|(_, segment)| segment).collect(), ..track }
        };
        let tracks: Vec<_> = tracks.into_values().map(in_order).collect();
        assert!(!tracks.is_empty(), "{title}: no segments by {name}");
        Self { name, others, tracks }
    }

    /// Returns true if video and audio are in one segment.
    pub(crate) fn is_muxed(&self) -> bool {
        self.tracks.iter().any(|track| track.audio && track.video)
    }

    /// Returns the number of segments.
    pub(crate) fn count(&self) -> usize {
        self.tracks.iter().map(|track| track.segments.len()).sum()
    }

    /// Returns all segments in the order of a player that plays all renditions: the first of each
    /// track, then the second of each, and so on.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        let longest = self.tracks.iter().map(|track| track.segments.len()).max().unwrap_or(0);
        (0..longest).flat_map(|n| self.tracks.iter().filter_map(move |track| track.segments.get(n)))
    }
}

/// Returns the track of a segment, and its number or time, from its URL.
fn track_and_number(url: &str) -> (String, u64) {
    let path = url.split('?').next().unwrap_or_default();
    let stem =
        [".dash", ".ts", ".m4s", ".aac", ")"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    let of = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    (of.to_owned(), stem[of.len()..].parse().unwrap_or_else(|_| panic!("{url}: no number")))
}
