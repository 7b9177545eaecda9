//! The addressing of a DASH representation's segments (ISO/IEC 23009-1 §5.3.9): `SegmentTemplate`
//! with a timeline or a duration, `SegmentList`, and `SegmentBase` with a `sidx`.

use super::{
    limits::{MAX_SEGMENTS, SegmentBudget},
    mpd::{Initialization, S, SegmentBase, SegmentList, SegmentTemplate, Stated},
    reference::{join, range},
};
use crate::manifest_error::ManifestError;
use crate::presentation::{
    Addresses, ByteRange, Container, Deferred, Index, Resource, Segment, SegmentGroup, Segments,
    deferred::ReadSegments, template::Template,
};
use bytes::Bytes;
use latemux_isobmff::boxes::sidx::Sidx;
use std::sync::Arc;
use url::Url;

/// The tolerance in seconds for segments of a timeline. Its times should equal those of the media,
/// but audio may start earlier with samples that only prime the decoder.
const TOLERANCE: f64 = 0.15;

/// The addressing of a representation, merged from all levels (§5.3.9.1).
#[derive(Debug, Default)]
pub(super) struct Addressing {
    template: Option<SegmentTemplate>,
    list: Option<SegmentList>,
    one_file: Option<SegmentBase>,
}

/// Replaces an element by the one of the next inner level. Attributes that the inner level omits
/// keep their values.
macro_rules! inherit {
    ($element:expr, $inner:expr, $($attribute:ident),+) => {{
        let mut merged = $inner.clone();
        if let Some(outer) = $element.take() {
            $(merged.$attribute = merged.$attribute.or(outer.$attribute);)+
        }
        $element = Some(merged);
    }};
}

impl Addressing {
    /// Merges the elements of the next inner level.
    pub(super) fn inherit(&mut self, inner: &Stated) {
        if let Some(inner) = &inner.template {
            inherit! {
                self.template, inner, media, init_template, init, start_number, end_number, duration,
                timescale, time_offset, timeline
            }
        }
        if let Some(inner) = &inner.list {
            let urls = self.list.as_mut().map(|outer| std::mem::take(&mut outer.urls));
            inherit!(self.list, inner, duration, timescale, init, timeline);
            if let (Some(merged), Some(urls)) = (&mut self.list, urls)
                && merged.urls.is_empty()
            {
                merged.urls = urls;
            }
        }
        if let Some(inner) = &inner.one_file {
            inherit!(self.one_file, inner, timescale, time_offset, index_range, init);
        }
    }

    /// Returns the segments of one representation, or the resource that lists them.
    pub(super) fn index(
        &self,
        base: &Url,
        id: &str,
        bandwidth: u64,
        span: PeriodRange,
        container: Container,
        budget: &mut SegmentBudget,
    ) -> Result<Index, ManifestError> {
        let seconds = span.seconds;
        let segments = if let Some(template) = &self.template {
            from_template(template, base, (id, bandwidth), seconds, budget)?
        } else if let Some(list) = &self.list {
            from_list(list, base, seconds, budget)?
        } else if container != Container::Cmaf {
            document(base, seconds)?
        } else {
            return from_one_file(self.one_file.as_ref(), base, span);
        };
        Ok(Index::Known(Arc::new(segments.placed(span, container)?)))
    }
}

/// The time range of a period, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeriodRange {
    pub(super) start: f64,
    /// The duration, if it is known.
    pub(super) seconds: Option<f64>,
    /// True if there are several periods, so that segments after the end of this one are not
    /// played.
    pub(super) is_bounded: bool,
}

impl Segments {
    /// Places the segments in their period, and drops those after its end.
    fn placed(mut self, span: PeriodRange, container: Container) -> Result<Self, ManifestError> {
        for group in &mut self.groups {
            group.start = span.start;
            group.container = container;
        }
        if let (Some(seconds), true, [group]) = (span.seconds, span.is_bounded, self.groups.as_slice()) {
            self.entries.retain(|entry| group.seconds(entry.start) < seconds - 0.001);
        }
        not_empty(self)
    }
}

/// Returns one segment for the whole period, for text in a single document.
fn document(base: &Url, seconds: Option<f64>) -> Result<Segments, ManifestError> {
    let seconds = seconds.ok_or_else(|| ManifestError::invalid("a period without duration"))?;
    let timescale = 1000;
    let duration = whole(seconds * to_f64(timescale))?;
    let entries = vec![Segment { start: 0, duration, number: 0, time: 0, range: None }];
    let addresses = Addresses::List(vec![Arc::new(base.clone())]);
    Ok(Segments::uniform(group(None, timescale, 0, TOLERANCE, addresses), entries))
}

/// Returns the group of all segments of a representation. [`Segments::placed`] sets its start and
/// container.
fn group(
    init: Option<Resource>,
    timescale: u64,
    origin: i64,
    tolerance: f64,
    addresses: Addresses,
) -> SegmentGroup {
    let group = SegmentGroup::new(Container::Cmaf, timescale, tolerance, addresses);
    SegmentGroup { init, origin: Some(origin), ..group }
}

fn from_template(
    template: &SegmentTemplate,
    base: &Url,
    (id, bandwidth): (&str, u64),
    seconds: Option<f64>,
    budget: &mut SegmentBudget,
) -> Result<Segments, ManifestError> {
    let timescale = timescale(template.timescale)?;
    let media =
        template.media.as_deref().ok_or_else(|| ManifestError::invalid("SegmentTemplate without media"))?;
    let media = Template::dash(media, id, bandwidth)?;
    let offset = ticks(template.time_offset.unwrap_or(0))?;
    let first = template.start_number.unwrap_or(1);
    let (entries, tolerance) = match (&template.timeline, template.duration) {
        (Some(timeline), _) => {
            let period_end = seconds.map(|seconds| end_in_ticks(seconds, timescale, offset));
            (timeline_entries(timeline, first, offset, period_end, budget)?, TOLERANCE)
        }
        (None, Some(duration)) => {
            let each = whole(duration)?;
            let count = match template.end_number {
                Some(last) => last.saturating_add(1).saturating_sub(first),
                None => count(each, timescale, seconds)?,
            };
            // With a constant duration, the times of the media may differ by half a segment
            // (§5.3.9.5.3, and the guidelines of DASH-IF).
            let mut entries = even_entries(each, first, offset, count, budget)?;
            cut(&mut entries, seconds, timescale);
            (entries, seconds_of(each, timescale) / 2.0 + TOLERANCE)
        }
        // One segment for the whole period.
        (None, None) if !media.varies() => {
            let length = seconds.ok_or_else(|| ManifestError::invalid("a period without duration"))?;
            (even_entries(whole(length * to_f64(timescale))?, first, offset, 1, budget)?, TOLERANCE)
        }
        (None, None) => return Err(ManifestError::invalid("SegmentTemplate without timeline or duration")),
    };
    let init = match (&template.init_template, &template.init) {
        (Some(name), _) => {
            let name = Template::dash(name, id, bandwidth)?.fill(None, None);
            Some(Resource { url: join(base, &name)?, range: None })
        }
        (None, Some(init)) => Some(initialization(base, init)?),
        (None, None) => None,
    };
    let addresses = Addresses::Template { base: base.clone(), media };
    not_empty(Segments::uniform(group(init, timescale, offset, tolerance, addresses), entries))
}

fn from_list(
    list: &SegmentList,
    base: &Url,
    seconds: Option<f64>,
    budget: &mut SegmentBudget,
) -> Result<Segments, ManifestError> {
    let timescale = timescale(list.timescale)?;
    let count = list.urls.len() as u64;
    let (mut entries, tolerance) = match (&list.timeline, list.duration) {
        (Some(timeline), _) => (timeline_entries(timeline, 0, 0, None, budget)?, TOLERANCE),
        (None, Some(each)) => {
            (even_entries(each, 0, 0, count, budget)?, seconds_of(each, timescale) / 2.0 + TOLERANCE)
        }
        (None, None) => return Err(ManifestError::invalid("SegmentList without timeline or duration")),
    };
    entries.truncate(list.urls.len());
    cut(&mut entries, seconds, timescale);
    let mut urls = Vec::with_capacity(entries.len());
    for (entry, url) in entries.iter_mut().zip(&list.urls) {
        // Without `media`, a segment is a range of the file at the base URL.
        urls.push(Arc::new(url.media.as_deref().map_or(Ok(base.clone()), |media| join(base, media))?));
        entry.range = url.range.as_deref().map(range).transpose()?;
    }
    let init = list.init.as_ref().map(|init| initialization(base, init)).transpose()?;
    let addresses = Addresses::List(urls);
    not_empty(Segments::uniform(group(init, timescale, 0, tolerance, addresses), entries))
}

fn not_empty(segments: Segments) -> Result<Segments, ManifestError> {
    if segments.entries.is_empty() {
        return Err(ManifestError::invalid("a representation without segments"));
    }
    Ok(segments)
}

fn initialization(base: &Url, init: &Initialization) -> Result<Resource, ManifestError> {
    let url = init.url.as_deref().map_or(Ok(base.clone()), |url| join(base, url))?;
    Ok(Resource { url, range: init.range.as_deref().map(range).transpose()? })
}

/// A representation in one file with a `sidx`, which is to be fetched.
#[derive(Debug, Clone)]
pub(crate) struct OneFile {
    url: Url,
    init: Resource,
    /// The value of `presentationTimeOffset` and its timescale.
    offset: (i64, u64),
    span: PeriodRange,
}

fn from_one_file(
    one_file: Option<&SegmentBase>,
    base: &Url,
    span: PeriodRange,
) -> Result<Index, ManifestError> {
    let index = one_file.and_then(|one| one.index_range.as_deref());
    let Some(index) = index else {
        return Err(ManifestError::unsupported("a representation without segment index"));
    };
    let index = range(index)?;
    let init = match one_file.and_then(|one| one.init.as_ref()) {
        Some(init) => initialization(base, init)?,
        // Without `Initialization`, the bytes before the index are the init segment.
        None => Resource { url: base.clone(), range: ByteRange::new(0, index.first) },
    };
    let offset = ticks(one_file.and_then(|one| one.time_offset).unwrap_or(0))?;
    let scale = timescale(one_file.and_then(|one| one.timescale))?;
    let reader = OneFile { url: base.clone(), init, offset: (offset, scale), span };
    let resource = Resource { url: base.clone(), range: Some(index) };
    Ok(Index::Deferred(Arc::new(Deferred::new(resource, reader))))
}

impl ReadSegments for OneFile {
    /// Reads the `sidx` at the range of the file that `resource` names.
    fn read(&self, _: &Url, resource: &Resource, body: &[u8]) -> Result<Segments, ManifestError> {
        let at = resource.range.map_or(0, |range| range.first);
        let body = Bytes::copy_from_slice(body);
        let sidx = Sidx::parse(&body, at)?;
        let size = body.first_chunk::<4>().map_or(0, |size| u32::from_be_bytes(*size));
        // References start at the end of the box (ISO/IEC 14496-12 §8.16.3).
        let beyond_bytes = || ManifestError::beyond("the position of a subsegment");
        let end = at.checked_add(u64::from(size)).ok_or_else(beyond_bytes)?;
        let mut next = end.checked_add(sidx.first_offset).ok_or_else(beyond_bytes)?;
        let timescale = u64::from(sidx.timescale.get());
        let mut time = ticks(sidx.earliest_presentation_time)?;
        let (offset, scale) = self.offset;
        let offset = i128::from(offset) * i128::from(timescale) / i128::from(scale);
        let offset = i64::try_from(offset).map_err(|_| ManifestError::beyond("a presentationTimeOffset"))?;
        let mut entries = Vec::with_capacity(sidx.references.len());
        for reference in &sidx.references {
            if reference.is_index {
                return Err(ManifestError::unsupported("a segment index of segment indexes"));
            }
            let range = ByteRange::new(next, reference.size.into());
            let range = Some(range.ok_or_else(|| ManifestError::invalid("an empty subsegment"))?);
            let duration = u64::from(reference.duration);
            entries.push(Segment { start: time - offset, duration, number: 0, time: 0, range });
            next = next.checked_add(reference.size.into()).ok_or_else(beyond_bytes)?;
            time = time.checked_add_unsigned(duration).ok_or_else(beyond)?;
        }
        let addresses = Addresses::List(vec![Arc::new(self.url.clone())]);
        let group = group(Some(self.init.clone()), timescale, offset, TOLERANCE, addresses);
        Segments::uniform(group, entries).placed(self.span, Container::Cmaf)
    }
}

/// Returns the segments of `S` elements (§5.3.9.6). Their numbers start at `first`.
fn timeline_entries(
    runs: &[S],
    first: u64,
    offset: i64,
    period_end: Option<u64>,
    budget: &mut SegmentBudget,
) -> Result<Vec<Segment>, ManifestError> {
    let mut entries: Vec<Segment> = Vec::new();
    let mut time = 0_u64;
    let mut number = first;
    for (place, run) in runs.iter().enumerate() {
        time = run.t.unwrap_or(time);
        number = run.n.unwrap_or(number);
        let repeat = match run.r {
            // A negative count repeats up to the next element or the end of the period.
            ..0 => {
                let next = runs.get(place + 1).map(|next| next.t);
                let until = next.unwrap_or(period_end);
                let until = until
                    .ok_or_else(|| ManifestError::invalid("an S element that repeats without an end"))?;
                until.saturating_sub(time).div_ceil(run.d.max(1)).saturating_sub(1)
            }
            repeat => repeat.unsigned_abs(),
        };
        let count = budget.take(repeat + 1)?;
        if entries.len() + count > MAX_SEGMENTS {
            return Err(ManifestError::TooMuch { what: "segments of a rendition", limit: MAX_SEGMENTS });
        }
        for _ in 0..count {
            let start = ticks(time)? - offset;
            entries.push(Segment { start, duration: run.d, number, time, range: None });
            time = time.checked_add(run.d).ok_or_else(beyond)?;
            number = number.checked_add(1).ok_or_else(beyond_number)?;
        }
    }
    Ok(entries)
}

/// Returns segments of equal duration (§5.3.9.5.3).
fn even_entries(
    each: u64,
    first: u64,
    offset: i64,
    count: u64,
    budget: &mut SegmentBudget,
) -> Result<Vec<Segment>, ManifestError> {
    budget.take(count)?;
    let segment = |place: u64| {
        let start = place.checked_mul(each).ok_or_else(beyond)?;
        let time = start.checked_add_signed(offset).ok_or_else(beyond)?;
        let number = first.checked_add(place).ok_or_else(beyond_number)?;
        Ok(Segment { start: ticks(start)?, duration: each, number, time, range: None })
    };
    (0..count).map(segment).collect()
}

/// Cuts segments of constant duration at the end of the period.
fn cut(entries: &mut Vec<Segment>, seconds: Option<f64>, timescale: u64) {
    let Some(end) = seconds.and_then(|seconds| whole(seconds * to_f64(timescale)).ok()) else { return };
    let end = i64::try_from(end).unwrap_or(i64::MAX);
    entries.retain(|segment| segment.start < end);
    if let Some(last) = entries.last_mut() {
        let left = u64::try_from(end - last.start).unwrap_or(0);
        last.duration = last.duration.min(left);
    }
}

/// Returns the number of segments of `each` ticks in a period.
fn count(each: u64, timescale: u64, seconds: Option<f64>) -> Result<u64, ManifestError> {
    let seconds = seconds.ok_or_else(|| ManifestError::invalid("a period without duration"))?;
    // A rounding error of less than a thousandth of a segment must not add a segment.
    let exact = seconds * to_f64(timescale) / to_f64(each);
    whole((exact - 0.001).ceil().max(1.0))
}

fn end_in_ticks(seconds: f64, timescale: u64, offset: i64) -> u64 {
    whole(seconds * to_f64(timescale)).unwrap_or(u64::MAX).saturating_add_signed(offset)
}

fn timescale(stated: Option<u64>) -> Result<u64, ManifestError> {
    match stated.unwrap_or(1) {
        0 => Err(ManifestError::invalid("a timescale of 0")),
        scale => Ok(scale),
    }
}

fn ticks(time: u64) -> Result<i64, ManifestError> {
    i64::try_from(time).map_err(|_| beyond())
}

fn beyond() -> ManifestError {
    ManifestError::beyond("a time")
}

fn beyond_number() -> ManifestError {
    ManifestError::beyond("a segment number")
}

/// Rounds a number from 0.5 to 9e15. Other numbers are refused.
fn whole(number: f64) -> Result<u64, ManifestError> {
    if !(0.5..9e15).contains(&number) {
        return Err(ManifestError::invalid(format!("an invalid duration: {number}")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 2^53")]
    let number = number.round() as u64;
    Ok(number)
}

fn to_f64(number: u64) -> f64 {
    number as f64
}

fn seconds_of(ticks: u64, timescale: u64) -> f64 {
    to_f64(ticks) / to_f64(timescale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(t: Option<u64>, d: u64, r: i64) -> S {
        S { t, d, r, ..S::default() }
    }

    fn entries(runs: &[S], offset: i64, end: Option<u64>) -> Result<Vec<(i64, u64, u64)>, ManifestError> {
        let entries = timeline_entries(runs, 7, offset, end, &mut SegmentBudget::default())?;
        Ok(entries.iter().map(|entry| (entry.start, entry.duration, entry.number)).collect())
    }

    #[test]
    fn timelines_repeat_up_to_the_next_element_or_the_end() {
        let plain = entries(&[run(Some(10), 5, 1), run(None, 3, 0)], 10, None).unwrap();
        assert_eq!(plain, [(0, 5, 7), (5, 5, 8), (10, 3, 9)]);
        let to_next = entries(&[run(Some(0), 4, -1), run(Some(10), 1, 0)], 0, None).unwrap();
        assert_eq!(to_next, [(0, 4, 7), (4, 4, 8), (8, 4, 9), (10, 1, 10)]);
        let to_end = entries(&[run(Some(0), 4, -1)], 0, Some(8)).unwrap();
        assert_eq!(to_end, [(0, 4, 7), (4, 4, 8)]);
        assert_eq!(entries(&[run(Some(0), 4, -1)], 0, None).unwrap_err().reason(), "manifest_invalid");
        let huge = entries(&[run(Some(0), 0, -1)], 0, Some(u64::MAX)).unwrap_err();
        assert_eq!(huge.reason(), "manifest_too_large");
        let beyond = entries(&[run(Some(u64::MAX), 1, 0)], 0, None).unwrap_err();
        assert_eq!(beyond.reason(), "manifest_invalid");
    }

    #[test]
    fn equal_segments_are_cut_at_the_end_of_the_period() {
        let mut entries = even_entries(4000, 1, 500, 3, &mut SegmentBudget::default()).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.time).collect::<Vec<_>>(), [500, 4500, 8500]);
        cut(&mut entries, Some(8.0), 1000);
        assert_eq!(entries.len(), 2, "none starts at the end");
        cut(&mut entries, Some(5.5), 1000);
        assert_eq!((entries.len(), entries[1].duration), (2, 1500));
        cut(&mut entries, None, 1000);
        assert_eq!(entries.len(), 2);
    }

    #[test]
    fn the_number_of_segments_ignores_rounding_errors() {
        let of = |each, seconds| count(each, 1000, Some(seconds)).unwrap();
        assert_eq!((of(4000, 12.0), of(4000, 12.001), of(4000, 12.1), of(4000, 0.1)), (3, 3, 4, 1));
        assert!(count(4000, 1000, None).is_err());
        assert!(count(1, 1000, Some(f64::INFINITY)).is_err());
    }

    #[test]
    fn inner_levels_replace_only_what_they_state() {
        let outer = SegmentTemplate {
            media: Some("outer".to_owned()),
            timescale: Some(10),
            start_number: Some(3),
            ..SegmentTemplate::default()
        };
        let inner = SegmentTemplate { media: Some("inner".to_owned()), ..SegmentTemplate::default() };
        let mut addressing = Addressing::default();
        for template in [Some(outer), None, Some(inner)] {
            addressing.inherit(&Stated { template, list: None, one_file: None });
        }
        let merged = addressing.template.unwrap();
        let stated = (merged.media.as_deref(), merged.timescale, merged.start_number);
        assert_eq!(stated, (Some("inner"), Some(10), Some(3)));
    }

    #[test]
    fn numbers_are_checked_before_they_are_used() {
        assert_eq!((whole(0.5).unwrap(), whole(2.4).unwrap()), (1, 2));
        for wrong in [0.4, -1.0, 9e15, f64::NAN, f64::INFINITY] {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
        assert_eq!((timescale(None).unwrap(), timescale(Some(90)).unwrap()), (1, 90));
        assert!(timescale(Some(0)).is_err());
    }
}
