//! Smooth Streaming client manifests ([MS-SSTR] 2.2.2).

use super::{
    limits::{MAX_RENDITIONS, SegmentBudget},
    xml::number,
};
use crate::manifest_error::ManifestError;
use crate::presentation::{
    Addresses, Container, DeclaredCoding, Index, MediaKind, Presentation, Protocol, Rendition, RenditionSet,
    Segment, SegmentGroup, Segments, template::Template,
};
use roxmltree::{Document, Node};
use std::sync::Arc;
use url::Url;

/// Ticks per second, unless the manifest states a timescale (2.2.2.1).
const TIMESCALE: u64 = 10_000_000;

/// The tolerance in seconds. It is small, since a manifest states the times of its fragments
/// exactly.
const TOLERANCE: f64 = 0.1;

pub(super) fn read(url: &Url, document: &Document<'_>) -> Result<Presentation, ManifestError> {
    let root = document.root_element();
    if flag(root, "IsLive") {
        return Err(ManifestError::unsupported("a live presentation"));
    }
    let timescale = number(root, "TimeScale")?.unwrap_or(TIMESCALE);
    let mut budget = SegmentBudget::default();
    let mut sets = Vec::new();
    // A player plays the first stream of each type by default.
    for (kind, name) in [(MediaKind::Video, "video"), (MediaKind::Audio, "audio")] {
        let stream = root.children().find(|n| {
            n.has_tag_name("StreamIndex") && n.attribute("Type").is_some_and(|t| t.eq_ignore_ascii_case(name))
        });
        if let Some(stream) = stream {
            sets.push(RenditionSet { kind, renditions: renditions(url, stream, timescale, &mut budget)? });
        }
    }
    if sets.is_empty() {
        return Err(ManifestError::invalid("no stream of video or audio"));
    }
    let text = root.children().find(|n| n.has_tag_name("StreamIndex") && is_text(*n));
    // A presentation can be played without its text.
    if let Some(renditions) = text.and_then(|text| renditions(url, text, timescale, &mut budget).ok()) {
        sets.push(RenditionSet { kind: MediaKind::Text, renditions });
    }
    Ok(Presentation { protocol: Protocol::Smooth, sets })
}

fn renditions(
    url: &Url,
    stream: Node<'_, '_>,
    timescale: u64,
    budget: &mut SegmentBudget,
) -> Result<Vec<Rendition>, ManifestError> {
    let timescale = number(stream, "TimeScale")?.unwrap_or(timescale);
    if timescale == 0 {
        return Err(ManifestError::invalid("a TimeScale of 0"));
    }
    let entries = chunks(stream, budget)?;
    let address = stream.attribute("Url").ok_or_else(|| ManifestError::invalid("a stream without Url"))?;
    let mut renditions = Vec::new();
    for level in stream.children().filter(|n| n.has_tag_name("QualityLevel")) {
        if renditions.len() >= MAX_RENDITIONS {
            return Err(ManifestError::TooMuch { what: "quality levels", limit: MAX_RENDITIONS });
        }
        // Each rendition has a copy of the list.
        budget.take(entries.len() as u64)?;
        let bandwidth =
            number(level, "Bitrate")?.ok_or_else(|| ManifestError::invalid("a level without Bitrate"))?;
        let media = Template::smooth(address, bandwidth)?;
        let addresses = Addresses::Template { base: url.clone(), media };
        let group = SegmentGroup::new(Container::Smooth, timescale, TOLERANCE, addresses);
        let segments = Segments::uniform(SegmentGroup { origin: Some(0), ..group }, entries.clone());
        let name = stream.attribute("Name").or(stream.attribute("Type")).unwrap_or_default();
        let name = format!("{name} {bandwidth}");
        let coding = Some(Arc::new(coding(stream, level)?));
        renditions.push(Rendition { name, bandwidth, index: Index::Known(Arc::new(segments)), coding });
    }
    if renditions.is_empty() {
        return Err(ManifestError::invalid("a stream without quality levels"));
    }
    renditions.sort_by_key(|rendition| rendition.bandwidth);
    Ok(renditions)
}

/// Returns true for subtitles and captions, and false for commands and other data (2.2.2.3).
fn is_text(stream: Node<'_, '_>) -> bool {
    let is = |name: &str, wanted: &[&str]| {
        stream.attribute(name).is_some_and(|value| wanted.iter().any(|w| value.eq_ignore_ascii_case(w)))
    };
    is("Type", &["text"]) && (stream.attribute("Subtype").is_none() || is("Subtype", &["", "SUBT", "CAPT"]))
}

/// Reads the coding that the manifest declares instead of an init segment (2.2.2.5).
fn coding(stream: Node<'_, '_>, level: Node<'_, '_>) -> Result<DeclaredCoding, ManifestError> {
    let either = |name| level.attribute(name).or(stream.attribute(name));
    let private = level.attribute("CodecPrivateData").unwrap_or_default().trim();
    let private_data = hex(private).ok_or_else(|| {
        ManifestError::invalid(format!("CodecPrivateData that is not hexadecimal: \"{private}\""))
    })?;
    let width = number(level, "MaxWidth")?.or(number(level, "Width")?).unwrap_or(0);
    let height = number(level, "MaxHeight")?.or(number(level, "Height")?).unwrap_or(0);
    Ok(DeclaredCoding {
        four_cc: either("FourCC").unwrap_or_default().to_ascii_uppercase(),
        private_data,
        size: (width, height),
        sampling_rate: number(level, "SamplingRate")?.unwrap_or(0),
        channels: number(level, "Channels")?.unwrap_or(0),
        language: stream.attribute("Language").unwrap_or_default().to_owned(),
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16)?.try_into().ok()).collect::<Option<_>>()?;
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    });
    pairs.collect()
}

/// Reads `c` elements. A chunk that states no time starts where the chunk before it ends (2.2.2.6).
fn chunks(stream: Node<'_, '_>, budget: &mut SegmentBudget) -> Result<Vec<Segment>, ManifestError> {
    let chunks: Vec<Node<'_, '_>> = stream.children().filter(|n| n.has_tag_name("c")).collect();
    let mut entries = Vec::new();
    let mut at = 0_u64;
    for (place, chunk) in chunks.iter().enumerate() {
        at = number(*chunk, "t")?.unwrap_or(at);
        let repeat: u64 = number(*chunk, "r")?.unwrap_or(1);
        let duration = match number(*chunk, "d")? {
            Some(duration) => duration,
            // The duration may be omitted if the next chunk states its time.
            None => chunks
                .get(place + 1)
                .and_then(|next| number::<u64>(*next, "t").transpose())
                .transpose()?
                .and_then(|next| next.checked_sub(at))
                .ok_or_else(|| ManifestError::invalid("a chunk without duration"))?,
        };
        budget.take(repeat.saturating_add(entries.len() as u64))?;
        for _ in 0..repeat {
            let start = i64::try_from(at).map_err(|_| ManifestError::beyond("a time"))?;
            entries.push(Segment { start, duration, number: 0, time: at, range: None });
            at = at.checked_add(duration).ok_or_else(|| ManifestError::beyond("a time"))?;
        }
    }
    if entries.is_empty() {
        return Err(ManifestError::invalid("a stream without chunks"));
    }
    Ok(entries)
}

fn flag(node: Node<'_, '_>, name: &str) -> bool {
    node.attribute(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
}
