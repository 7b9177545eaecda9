//! DASH media presentation descriptions (ISO/IEC 23009-1).

use super::{
    dash_segments::{Addressing, PeriodRange},
    limits::{MAX_RENDITIONS, SegmentBudget},
    mpd::{AdaptationSet, Coding, Mpd, Period, Representation},
    reference::join,
};
use crate::manifest_error::ManifestError;
use crate::presentation::{
    Container, Index, MediaKind, Presentation, Protocol, Rendition, RenditionSet, Segments,
};
use roxmltree::Document;
use url::Url;

/// The maximum number of periods.
const MAX_PERIODS: usize = 1024;

pub(super) fn read(url: &Url, document: &Document<'_>) -> Result<Presentation, ManifestError> {
    let mpd = Mpd::read(document.root_element())?;
    if mpd.is_dynamic {
        return Err(ManifestError::unsupported("a live presentation"));
    }
    if mpd.periods.len() > MAX_PERIODS {
        return Err(ManifestError::TooMuch { what: "periods", limit: MAX_PERIODS });
    }
    if mpd.periods.iter().any(|period| period.is_remote) {
        return Err(ManifestError::unsupported("a remote period"));
    }
    let base = resolve(url, &mpd.base_urls)?;
    let mut budget = SegmentBudget::default();
    let mut sets: Vec<RenditionSet> = Vec::new();
    for kind in [MediaKind::Video, MediaKind::Audio, MediaKind::Text] {
        let mut periods = Vec::new();
        for (period, range) in mpd.periods.iter().zip(period_ranges(&mpd)) {
            // The set marked as main plays by default (§5.8.5.5), else the first.
            let of_kind = || period.sets.iter().filter(|set| kind_of(set) == Some(kind));
            let Some(set) = of_kind().find(|set| is_main(set)).or_else(|| of_kind().next()) else { continue };
            let base = resolve(&base, &period.base_urls)?;
            let context = PeriodSet { base: &base, period, set, range };
            match context.renditions(&mut budget) {
                Ok(renditions) => periods.push(renditions),
                // A presentation can be played without its text.
                Err(_) if kind == MediaKind::Text => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(renditions) = join_periods(periods, &mut budget)? {
            sets.push(RenditionSet { kind, renditions });
        }
    }
    if sets.iter().all(|set| set.kind == MediaKind::Text) {
        return Err(match mpd.periods.len() {
            0 => ManifestError::invalid("an MPD without periods"),
            _ => ManifestError::invalid("a presentation without video or audio"),
        });
    }
    Ok(Presentation { protocol: Protocol::Dash, sets })
}

/// Returns the time range of each period (§5.3.2.1). A period that states no start starts where the
/// period before it ends. A period ends after its stated duration, but no later than the next
/// period starts; the last one ends with the presentation if it states no duration.
fn period_ranges(mpd: &Mpd) -> Vec<PeriodRange> {
    let mut ranges: Vec<PeriodRange> = Vec::new();
    let mut end = 0.0;
    for period in &mpd.periods {
        let start = period.start.unwrap_or(end);
        if let Some(before) = ranges.last_mut() {
            let until = (start - before.start).max(0.0);
            before.seconds = Some(before.seconds.map_or(until, |stated| stated.min(until)));
        }
        end = start + period.seconds.unwrap_or(0.0);
        ranges.push(PeriodRange { start, seconds: period.seconds, is_bounded: mpd.periods.len() > 1 });
    }
    if let (Some(last), Some(all)) = (ranges.last_mut(), mpd.seconds) {
        last.seconds = last.seconds.or(Some((all - last.start).max(0.0)));
    }
    ranges
}

/// Joins the renditions of the first period with those of the other periods. In each of these, a
/// rendition continues with the one of the same name, or else with the highest one whose bit rate
/// is not above its own, or else with the lowest.
fn join_periods(
    periods: Vec<Vec<Rendition>>,
    budget: &mut SegmentBudget,
) -> Result<Option<Vec<Rendition>>, ManifestError> {
    if periods.len() < 2 {
        return Ok(periods.into_iter().next());
    }
    let renditions = periods.first().into_iter().flatten().map(|rendition| {
        let chosen = periods.iter().filter_map(|others| {
            let same = others.iter().find(|other| !other.name.is_empty() && other.name == rendition.name);
            let place =
                others.partition_point(|other| other.bandwidth <= rendition.bandwidth).saturating_sub(1);
            same.or_else(|| others.get(place)).map(|other| other.index.clone())
        });
        Ok(Rendition { index: join_indexes(chosen.collect(), budget)?, ..rendition.clone() })
    });
    renditions.collect::<Result<_, _>>().map(Some)
}

/// Joins the segments of periods if all of them are known. Otherwise, they are joined once the
/// lists have been fetched.
fn join_indexes(periods: Vec<Index>, budget: &mut SegmentBudget) -> Result<Index, ManifestError> {
    let known = |index: &Index| match index {
        Index::Known(segments) => Some(segments.clone()),
        Index::Deferred(_) | Index::Joined(_) => None,
    };
    let Some(known) = periods.iter().map(known).collect::<Option<Vec<_>>>() else {
        return Ok(Index::Joined(periods.into()));
    };
    // Each rendition has a copy of its segments.
    let count: usize = known.iter().map(|segments| segments.entries.len()).sum();
    budget.take(count as u64)?;
    Ok(Index::Known(Segments::joined(known)))
}

/// Returns the media of a set, according to its `contentType` or its MIME type.
fn kind_of(set: &AdaptationSet) -> Option<MediaKind> {
    let first = set.representations.first();
    let either = |get: fn(&Coding) -> Option<&str>| get(&set.coding).or(first.and_then(|r| get(&r.coding)));
    let mime = either(|coding| coding.mime_type.as_deref());
    let stated = either(|coding| coding.content_type.as_deref());
    let codecs = either(|coding| coding.codecs.as_deref()).unwrap_or_default();
    // Sets for trick modes and thumbnails do not count as video (§5.3.11).
    let is_trick = |scheme: &String| scheme.contains("trickmode") || scheme.contains("thumbnail_tile");
    if set.essential.iter().any(is_trick) {
        return None;
    }
    let timed_text = ["wvtt", "stpp"].iter().any(|name| codecs.starts_with(name));
    match stated.or(mime).unwrap_or_default() {
        kind if kind.starts_with("video") => Some(MediaKind::Video),
        kind if kind.starts_with("audio") => Some(MediaKind::Audio),
        kind if kind.starts_with("text") || timed_text => Some(MediaKind::Text),
        "application/ttml+xml" => Some(MediaKind::Text),
        _ => None,
    }
}

/// Returns the container for a MIME type.
fn container(mime: &str) -> Container {
    match mime {
        "text/vtt" => Container::WebVtt,
        "application/ttml+xml" => Container::Ttml,
        _ => Container::Cmaf,
    }
}

fn is_main(set: &AdaptationSet) -> bool {
    set.roles.iter().any(|role| role == "main")
}

/// Resolves the first `BaseURL`. The others are alternatives to it (§5.6.5).
fn resolve(base: &Url, references: &[String]) -> Result<Url, ManifestError> {
    references.first().map_or(Ok(base.clone()), |reference| join(base, reference))
}

/// An adaptation set in its period.
struct PeriodSet<'a> {
    base: &'a Url,
    period: &'a Period,
    set: &'a AdaptationSet,
    range: PeriodRange,
}

impl PeriodSet<'_> {
    fn renditions(&self, budget: &mut SegmentBudget) -> Result<Vec<Rendition>, ManifestError> {
        let all = &self.set.representations;
        if all.len() > MAX_RENDITIONS {
            return Err(ManifestError::TooMuch { what: "representations", limit: MAX_RENDITIONS });
        }
        // Players do not switch between codings, so only renditions of the first coding are kept.
        let family = |r: &Representation| {
            let codecs = r.coding.codecs.as_deref().or(self.set.coding.codecs.as_deref()).unwrap_or_default();
            codecs.split('.').next().unwrap_or_default().to_owned()
        };
        let first = all
            .first()
            .map(family)
            .ok_or_else(|| ManifestError::invalid("an adaptation set without representations"))?;
        let mut renditions = Vec::new();
        for representation in all.iter().filter(|r| family(r) == first) {
            renditions.push(self.rendition(representation, budget)?);
        }
        renditions.sort_by_key(|rendition| rendition.bandwidth);
        Ok(renditions)
    }

    fn rendition(&self, r: &Representation, budget: &mut SegmentBudget) -> Result<Rendition, ManifestError> {
        let base = resolve(&resolve(self.base, &self.set.base_urls)?, &r.base_urls)?;
        let mut addressing = Addressing::default();
        for stated in [&self.period.addressing, &self.set.addressing, &r.addressing] {
            addressing.inherit(stated);
        }
        let mime = r.coding.mime_type.as_deref().or(self.set.coding.mime_type.as_deref()).unwrap_or_default();
        let index = addressing.index(&base, &r.id, r.bandwidth, self.range, container(mime), budget)?;
        Ok(Rendition { name: r.id.clone(), bandwidth: r.bandwidth, index, coding: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns start and duration of each period of a manifest.
    fn ranges(attributes: &str, periods: &[&str]) -> Vec<(f64, Option<f64>)> {
        let period = |attributes: &&str| format!("<Period {attributes}/>");
        let periods: String = periods.iter().map(period).collect();
        let text = format!("<MPD {attributes}>{periods}</MPD>");
        let document = Document::parse(&text).unwrap();
        let ranges = period_ranges(&Mpd::read(document.root_element()).unwrap());
        assert!(ranges.iter().all(|range| range.is_bounded == (ranges.len() > 1)));
        ranges.iter().map(|range| (range.start, range.seconds)).collect()
    }

    #[test]
    fn periods_follow_each_other_unless_they_state_their_start() {
        assert_eq!(ranges("", &[""]), [(0.0, None)]);
        let all = "mediaPresentationDuration='PT20S'";
        assert_eq!(ranges(all, &[""]), [(0.0, Some(20.0))]);
        let durations = ["duration='PT8S'", "duration='PT5S'", ""];
        assert_eq!(ranges(all, &durations), [(0.0, Some(8.0)), (8.0, Some(5.0)), (13.0, Some(7.0))]);
        let starts = ["", "start='PT6S'"];
        assert_eq!(ranges(all, &starts), [(0.0, Some(6.0)), (6.0, Some(14.0))]);
        let overlap = ["duration='PT8S'", "start='PT6S' duration='PT1S'"];
        assert_eq!(ranges("", &overlap), [(0.0, Some(6.0)), (6.0, Some(1.0))]);
    }
}
