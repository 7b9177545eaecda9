//! A cost model: the requests to storage, and the bytes from it, for the requests of one client.
//!
//! Storage is asked for media, and for the index of a title unless it is kept. The model has a row
//! with the requests for the index for each combination of stored files and what is kept. Cells
//! without a row are refused.

mod files;
mod overlap;
mod published;
mod sent;
mod tables;

pub use files::{Files, MediaFile, Samples, Tracks};
pub use published::{Class, Protocol, manifest as published_manifest, segment as published_segment};
pub use sent::sent;

use crate::{
    Error,
    experiment::Layout,
    function::{Function, Parameters},
};

/// The bytes that the origin reads at the start of an MP4 or an index MP4, in search of its `moov`.
const START: u64 = 64 << 10;

/// The bytes that the origin reads at the start of a media file, to check that an index MP4 belongs
/// to it.
const CHECK: u64 = 16 << 10;

/// The things that are kept between storage and the packager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// Server manifests, by a cache.
    Manifests,
    /// Server manifests and index MP4s, by a cache.
    Indexes,
    /// The index of the title, by the origin.
    InOrigin,
}

/// Requests to storage and the bytes of their responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// The number of requests.
    pub requests: u64,
    /// The bytes of bodies, if they follow from the sizes of files.
    pub bytes: Option<u64>,
}

/// The requests of one client that the model covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    kept: Kept,
    layout: Layout,
    format: String,
    /// The number of requests for one URL and its class; `None` for all segments once.
    single: Option<(u64, Class)>,
}

impl Load {
    /// Finds the row of the model for a cell, which consists of these functions.
    ///
    /// # Errors
    /// If the model has no row for it. The error is the reason.
    pub fn of<'a>(
        functions: &(impl Iterator<Item = (Function, &'a Parameters)> + Clone),
    ) -> Result<Self, Error> {
        Self::find(functions, false)
    }

    /// Finds the row of the model for a cell whose load repeats all segments any number of times,
    /// over connections that share no reads. Only the efficiency follows from this row: all
    /// segments together have this ratio, however often they are repeated.
    ///
    /// # Errors
    /// If the model has no row for it. The error is the reason.
    pub fn repeated<'a>(
        functions: &(impl Iterator<Item = (Function, &'a Parameters)> + Clone),
    ) -> Result<Self, Error> {
        Self::find(functions, true)
    }

    fn find<'a>(
        functions: &(impl Iterator<Item = (Function, &'a Parameters)> + Clone),
        is_repeated: bool,
    ) -> Result<Self, Error> {
        let all = |function| {
            let own = functions.clone().filter(move |(of, _)| *of == function);
            own.map(|(_, parameters)| parameters).collect::<Vec<_>>()
        };
        let (&[origin], &[load]) = (&all(Function::Origin)[..], &all(Function::Load)[..]) else {
            return Err(refused("set-ups that do not have exactly one origin and one load"));
        };
        let stated = |name: &str| load.get(name).map(String::as_str);
        if stated("rendition") == Some("low") {
            return Err(refused("loads of the lowest rendition"));
        }
        if stated("joined").is_some() {
            return Err(refused("loads with joined segments"));
        }
        let number = |name: &str| stated(name).and_then(|number| number.parse::<u64>().ok()).unwrap_or(1);
        let are_apart = match is_repeated {
            true => number("copies") >= number("connections"),
            false => stated("copies").is_none() && number("connections") == 1,
        };
        if !are_apart {
            return Err(refused("loads with several titles or connections, because these share reads"));
        }
        let layout: Layout =
            stated("title").and_then(|title| title.rsplit('/').next()).unwrap_or("").parse()?;
        if layout == Layout::Fmp4 {
            return Err(refused("fragmented files without index MP4s"));
        }
        let kept = kept(origin, &all(Function::Cache), layout)?;
        let is_timed = stated("duration").or(stated("steps")).is_some();
        // If a load repeats segments for a stated time, its later requests find in the caches what
        // the first ones stored.
        let is_filled = stated("before") == Some("same") || is_repeated && is_timed;
        if kept != Kept::Nothing && !is_filled {
            return Err(refused("loads without before = 'same': their caches are empty at first"));
        }
        let count = stated("requests").and_then(|count| count.parse().ok());
        let single = match (stated("kind"), stated("class"), count) {
            (Some("single"), class, Some(count)) if !is_repeated => {
                Some((count, if class == Some("manifest") { Class::Manifest } else { Class::Segment }))
            }
            (Some("list"), _, None) if !is_timed => None,
            (Some("list"), ..) if is_repeated => None,
            _ => return Err(refused("loads whose number of requests is not known beforehand")),
        };
        Ok(Self { kept, layout, format: stated("format").unwrap_or_default().to_owned(), single })
    }

    /// Returns the cost for a title with these files and this number of segments.
    pub fn cost(&self, files: &Files, segments: u64) -> Cost {
        let index = index(self.layout, self.kept, files);
        match self.single {
            Some((count, Class::Manifest)) => {
                Cost { requests: count * index.0, bytes: Some(count * index.1) }
            }
            // The first segment has another size than the mean.
            Some((count, Class::Segment)) => Cost { requests: count * (index.0 + 1), bytes: None },
            None => Cost {
                requests: segments * (index.0 + 1),
                bytes: media(self.layout, &self.format, files, segments)
                    .map(|media| segments * index.1 + media),
            },
        }
    }

    /// Returns the bytes to clients for each byte from storage, for a title with these files and
    /// this number of segments, if both follow from the sizes of files.
    pub fn efficiency(&self, files: &Files, segments: u64) -> Option<f64> {
        let read = self.cost(files, segments).bytes.filter(|read| *read > 0 && self.single.is_none())?;
        Some(sent(&self.format, files, segments)? as f64 / read as f64)
    }

    /// Returns true if the model states requests, for titles with this number of files. An HDS
    /// segment holds video and audio. If these come from two files, it takes two requests, or one
    /// if it is the last segment and has no audio. The model does not derive whether it has audio,
    /// so it states no requests for such titles.
    pub fn has_requests(&self, files: usize) -> bool {
        self.format != "hds" || files == 1
    }

    /// Returns true if the model also states bytes, for titles with this number of files.
    pub fn has_bytes(&self, files: usize) -> bool {
        match self.single {
            Some((_, class)) => class == Class::Manifest,
            None => media(self.layout, &self.format, &example(files), 1).is_some(),
        }
    }

    /// Returns true if the model states the efficiency, for titles with this number of files.
    pub fn has_efficiency(&self, files: usize) -> bool {
        self.efficiency(&example(files), 1).is_some()
    }
}

/// Returns a title with files whose sizes do not matter.
fn example(files: usize) -> Files {
    let samples = Samples { count: 1, bytes: 1 };
    let tracks = Tracks { video: samples, audio: samples, audio_packets: 1 };
    let file = MediaFile { size: 1, samples: 1, moov: 1, index: 1, overlap: 1, tracks };
    Files { ism: 1, media: vec![file; files] }
}

fn refused(what: &str) -> Error {
    Error::invalid(format!("the cost model has no row for {what}"))
}

/// Finds what is kept, from the configuration of the origin and the caches of a cell.
fn kept(origin: &Parameters, caches: &[&Parameters], layout: Layout) -> Result<Kept, Error> {
    let text = origin.get("config").map_or("", String::as_str);
    let configuration: toml::Table =
        toml::from_str(text).map_err(|error| Error::invalid(format!("config: {}", error.message())))?;
    let is_zero = |table: &str, name: &str| {
        let value = configuration.get(table).and_then(|table| table.get(name));
        value.and_then(toml::Value::as_str) == Some("0")
    };
    if !is_zero("cache", "memory") || origin.contains_key("cache-memory") {
        return Err(refused("origins that keep media"));
    }
    let mut kept = if is_zero("memory", "index") { Kept::Nothing } else { Kept::InOrigin };
    for cache in caches {
        let by_cache = match cache.get("mode").map_or("", String::as_str) {
            "off" => continue,
            "ism" => Kept::Manifests,
            "meta" if layout.is_indexed() => Kept::Indexes,
            "meta" => Kept::Manifests,
            mode => return Err(refused(&format!("caches with mode = '{mode}'"))),
        };
        if kept == Kept::Nothing {
            kept = by_cache;
        }
    }
    Ok(kept)
}

/// Returns the requests and bytes with which the origin reads the index of a title once.
fn index(layout: Layout, kept: Kept, files: &Files) -> (u64, u64) {
    let count = files.media.len() as u64;
    let sum = |of: &dyn Fn(&MediaFile) -> u64| files.media.iter().map(of).sum::<u64>();
    let checks = sum(&|file| CHECK.min(file.size));
    let (requests, bytes) = match layout.is_indexed() {
        true => {
            // A longer index MP4 takes a second read.
            let reads = sum(&|file| 1 + u64::from(file.index > START));
            (reads + count, checks + sum(&|file| file.index))
        }
        // `moov` is at the end.
        false => (2 * count, sum(&|file| START.min(file.size) + file.moov)),
    };
    match kept {
        Kept::Nothing => (requests + 1, bytes + files.ism),
        Kept::Manifests => (requests, bytes),
        Kept::Indexes => (count, checks),
        Kept::InOrigin => (0, 0),
    }
}

/// Returns the bytes of media that all segments of a format read. Video and audio are interleaved,
/// so a segment of either reads the range in which its samples lie. In fragmented files, this range
/// is shorter, by an amount that depends on how segments are cut. The model does not derive this
/// amount, so it states no bytes for fragmented files.
fn media(layout: Layout, format: &str, files: &Files, segments: u64) -> Option<u64> {
    let largest = files.media.iter().map(|file| file.samples).max()?;
    match (format, files.media.len()) {
        _ if layout.is_fragmented() => None,
        // The two segments at a boundary both read the bytes in which they overlap.
        ("hls" | "hds", 1) => Some(largest + segments.saturating_sub(1) * files.media.first()?.overlap),
        ("dash", _) | ("smooth", 1) => Some(2 * largest),
        // Audio comes from the first file.
        ("hls" | "smooth", _) => Some(largest + files.media.first()?.samples),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
