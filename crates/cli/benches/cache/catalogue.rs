//! What players find of a title: the segments of each protocol, from its manifests.

use crate::{
    crawl::{NATIVE, crawl},
    media::{Layout, Stored, boxes},
    origin::Origin,
};
use std::{collections::BTreeMap, fs};
use xxhash_rust::xxh3::xxh3_64;

/// Names of the protocols, and where their players start.
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
    /// Bytes of all its samples, by the files.
    pub(crate) media: u64,
    /// Bytes of the `moof`s between them.
    pub(crate) fragments: u64,
    /// In the order of [`PROTOCOLS`].
    pub(crate) protocols: Vec<Protocol>,
}

pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    /// Manifests and init segments.
    pub(crate) others: Vec<String>,
    pub(crate) tracks: Vec<Track>,
}

/// The segments of a track, or of what a protocol makes one of several.
#[derive(Default)]
pub(crate) struct Track {
    pub(crate) video: bool,
    pub(crate) audio: bool,
    pub(crate) segments: Vec<Segment>,
}

pub(crate) struct Segment {
    pub(crate) url: String,
    /// Of its bytes.
    pub(crate) digest: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Bytes of it that are in its `mdat`; 0 where it has none.
    pub(crate) payload: u64,
}

impl Title {
    pub(crate) fn of(origin: &Origin, stored: &Stored) -> Self {
        let sums = |types: &[&[u8; 4]]| {
            let files = stored.files.iter().map(|file| boxes(&fs::read(file).unwrap(), types));
            files.fold((0, 0), |sum, file| (sum.0 + file.0, sum.1 + file.1))
        };
        let (moof, path) = (sums(&[b"moof"]), stored.path.clone());
        let protocols =
            PROTOCOLS.iter().map(|(name, entry)| Protocol::of(origin, &path, name, entry)).collect();
        Self { layout: stored.layout, path, media: sums(&[b"mdat"]).1, fragments: moof.0 + moof.1, protocols }
    }

    pub(crate) fn protocol(&self, name: &str) -> &Protocol {
        self.protocols.iter().find(|protocol| protocol.name == name).unwrap()
    }

    /// Bytes of samples at a place, of a rendition and, where they come together, of its sound. The
    /// same place has the same samples in every protocol; only a CMAF segment shows how many bytes
    /// they are.
    pub(crate) fn payload(&self, rendition: usize, sound: bool, place: usize) -> u64 {
        let dash = &self.protocol("DASH").tracks;
        let video = &dash.iter().filter(|track| track.video).nth(rendition).unwrap().segments[place];
        let audio = dash.iter().find(|track| track.audio).filter(|_| sound);
        video.payload + audio.map_or(0, |track| track.segments[place].payload)
    }
}

impl Protocol {
    fn of(origin: &Origin, title: &str, name: &'static str, entry: &str) -> Self {
        let answers = crawl(origin.address, &[format!("/{title}/{entry}")]);
        let (mut others, mut tracks) = (Vec::new(), BTreeMap::<String, (Track, Vec<u64>)>::new());
        for (url, answer) in answers {
            // Pictures for seeking: the same media once more.
            if url.contains("/keyframes/") {
                continue;
            }
            let kind = &answer.headers["content-type"];
            let manifest = ["mpegurl", "xml", "abst"].iter().any(|part| kind.contains(part));
            if manifest || answer.body.get(4..8) == Some(b"ftyp") {
                others.push(url);
                continue;
            }
            let (of, number) = place(&url);
            let (track, numbers) = tracks.entry(of).or_default();
            (track.audio, track.video) = (url.contains("audio"), url.contains("video"));
            numbers.push(number);
            let is_iso = answer.body.get(4..8).is_some_and(<[u8]>::is_ascii);
            let payload =
                if is_iso && !kind.contains("mp2t") { boxes(&answer.body, &[b"mdat"]).1 } else { 0 };
            let (digest, length) = (xxh3_64(&answer.body), answer.body.len() as u64);
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

    /// Whether sound and picture come in one segment.
    pub(crate) fn is_muxed(&self) -> bool {
        self.tracks.iter().any(|track| track.audio && track.video)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.tracks.iter().map(|track| track.segments.len()).sum()
    }

    /// All segments in the order of a player that wants all renditions: of all tracks the first,
    /// then the second …
    pub(crate) fn segments(&self) -> impl Iterator<Item = &Segment> {
        let longest = self.tracks.iter().map(|track| track.segments.len()).max().unwrap_or(0);
        (0..longest).flat_map(|n| self.tracks.iter().filter_map(move |track| track.segments.get(n)))
    }
}

/// What track a segment is of, and its number or time, as its URL says them.
fn place(url: &str) -> (String, u64) {
    let path = url.split('?').next().unwrap_or_default();
    let stem =
        [".dash", ".ts", ".m4s", ".aac", ")"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
    let of = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    (of.to_owned(), stem[of.len()..].parse().unwrap_or_else(|_| panic!("{url}: no number")))
}
