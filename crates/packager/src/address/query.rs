//! The query of a URL: options of a manifest, and the selection.
//!
//! Unknown parameters are ignored. If a parameter occurs several times, the last one counts. A
//! parameter without a value counts as absent.

use super::{
    AddressError, DashTemplate, HlsContainer, Resource,
    name::RESERVED,
    parameter::{BEGIN, END, FILTER, MINIMUM_SEGMENT, ORDER, TEXT},
};
use crate::selection::{
    Clip, DashText, SampleOrder, Selection,
    filter::{Filter, MAX_BYTES},
};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use std::time::Duration;

/// The highest accepted value of [`MINIMUM_SEGMENT`].
const LONGEST_MINIMUM: Duration = Duration::from_secs(600);

/// The value of [`ORDER`] for [`SampleOrder::Priority`].
const PRIORITY: &str = "priority";

/// The value of [`TEXT`] for [`DashText::Stpp`].
const STPP: &str = "stpp";

#[derive(Debug)]
pub(super) struct QueryOptions {
    pub(super) template: DashTemplate,
    pub(super) container: HlsContainer,
    order: Result<SampleOrder, AddressError>,
    text: Result<DashText, AddressError>,
    selection: Result<Selection, AddressError>,
}

impl QueryOptions {
    /// Parses a query, with TS as the default container of HLS.
    ///
    /// Manifest options with an unknown value keep their default. A malformed selection is an
    /// error, because a client must not receive media that it meant to leave out.
    pub(super) fn parse(query: &str) -> Self {
        Self::with_container(HlsContainer::Auto, query)
    }

    /// Parses a query, with another default container of HLS.
    pub(super) fn with_container(mut container: HlsContainer, query: &str) -> Self {
        let mut template = DashTemplate::Time;
        let mut begin = "";
        let mut end = "";
        let mut minimum = "";
        let mut filter = "";
        let mut order = "";
        let mut text = "";
        for parameter in Parameters(query) {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("hls_fmp4", "" | "true" | "1") => container = HlsContainer::Cmaf,
                ("hls_fmp4", _) => container = HlsContainer::Auto,
                ("mpd_segment_template", "number") => template = DashTemplate::Number,
                ("mpd_segment_template", _) => template = DashTemplate::Time,
                (FILTER, value) => filter = value,
                (BEGIN, value) => begin = value,
                (END, value) => end = value,
                (MINIMUM_SEGMENT, value) => minimum = value,
                (ORDER, value) => order = value,
                (TEXT, value) => text = value,
                _ => {}
            }
        }
        let selection = clip(begin, end).and_then(|clip| {
            let minimum_segment = minimum_segment(minimum)?;
            Ok(Selection { filter: self::filter(filter)?, clip, minimum_segment, ..Selection::default() })
        });
        Self { template, container, order: self::order(order), text: self::text(text), selection }
    }

    pub(super) fn selection(self) -> Result<Selection, AddressError> {
        self.selection
    }

    /// Returns the order of samples that a resource has. For resources without such an order, the
    /// parameter is ignored like any that is unknown.
    pub(super) fn order(&self, resource: &Resource) -> Result<SampleOrder, AddressError> {
        if resource.has_sample_order() { self.order.clone() } else { Ok(SampleOrder::Decode) }
    }

    /// Returns the form of text, for resources that depend on it.
    pub(super) fn text(&self, resource: &Resource) -> Result<DashText, AddressError> {
        if resource.has_text_form() { self.text.clone() } else { Ok(DashText::Stored) }
    }
}

/// Parses the name of a folder that states a clip. `None` if it states none.
pub(super) fn clip_of_folder(name: &str) -> Option<Clip> {
    let clip = QueryOptions::parse(name).selection.ok()?.clip;
    (!clip.is_everything() && folder_of_clip(clip) == name).then_some(clip)
}

/// Returns the name of the folder that states a clip. Empty for the whole title.
pub(super) fn folder_of_clip(clip: Clip) -> String {
    let query = with(None, &Selection { clip, ..Selection::default() });
    query.strip_prefix('?').map_or_else(String::new, str::to_owned)
}

/// Returns the query of a resource, `?` included. Empty if everything has its default.
pub(super) fn of(resource: &Resource, selection: &Selection) -> String {
    let option = match resource {
        Resource::DashManifest(DashTemplate::Number) => Some("mpd_segment_template=number"),
        Resource::HlsMultivariant(HlsContainer::Cmaf)
        | Resource::HlsPlaylist(_, HlsContainer::Cmaf)
        | Resource::HlsIFramePlaylist(_, HlsContainer::Cmaf) => Some("hls_fmp4"),
        _ => None,
    };
    // HDS players append the number to the URL, so the path states the clip.
    let in_path = matches!(resource, Resource::HdsFragment(..) | Resource::HdsBootstrap(_));
    let clip = if in_path { Clip::default() } else { selection.clip };
    with(option, &Selection { clip, ..selection.clone() })
}

/// Returns the query of an option and a selection, `?` included.
pub(super) fn with(option: Option<&str>, selection: &Selection) -> String {
    let mut query = String::new();
    for parameter in option.map(str::to_owned).into_iter().chain(parameters(selection)) {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(&parameter);
    }
    query
}

fn parameters(selection: &Selection) -> impl Iterator<Item = String> + use<> {
    let filter = selection.filter.as_ref().map(|filter| {
        let text = filter.to_string();
        format!("{FILTER}={}", utf8_percent_encode(&text, RESERVED))
    });
    let seconds = |name: &str, time: Option<Duration>| Some(format!("{name}={}", decimal(time?)));
    [
        filter,
        seconds(BEGIN, selection.clip.begin()),
        seconds(END, selection.clip.end()),
        seconds(MINIMUM_SEGMENT, selection.minimum_segment),
        (selection.order == SampleOrder::Priority).then(|| format!("{ORDER}={PRIORITY}")),
        (selection.text == DashText::Stpp).then(|| format!("{TEXT}={STPP}")),
    ]
    .into_iter()
    .flatten()
}

/// Iterates over the parameters of a query. An unescaped `&&` in a filter is part of the filter.
struct Parameters<'a>(&'a str);

impl<'a> Iterator for Parameters<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let is_filter = self.0.strip_prefix(FILTER).is_some_and(|rest| rest.starts_with('='));
        let mut signs = self.0.match_indices('&').map(|(at, _)| at);
        let end = loop {
            let Some(at) = signs.next() else { break self.0.len() };
            let doubled = self.0.get(at + 1..).is_some_and(|rest| rest.starts_with('&'));
            if !(is_filter && doubled) {
                break at;
            }
            // Skips the second `&` of the pair.
            signs.next();
        };
        let parameter = self.0.get(..end)?;
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Some(parameter)
    }
}

fn filter(value: &str) -> Result<Option<Filter>, AddressError> {
    let malformed = |problem| AddressError::Malformed { parameter: FILTER, problem };
    if value.is_empty() {
        return Ok(None);
    }
    if value.len() > 3 * MAX_BYTES {
        return Err(malformed(format!("longer than {MAX_BYTES} bytes")));
    }
    // Queries are encoded as forms are (WHATWG URL standard §5.1). `+` is a space.
    let spaced = value.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| malformed("not UTF-8".to_owned()))?;
    Filter::parse(&decoded).map(Some).map_err(malformed)
}

fn clip(begin: &str, end: &str) -> Result<Clip, AddressError> {
    let begin = time(BEGIN, begin)?;
    let end = time(END, end)?;
    let parameter = if end.is_some() { END } else { BEGIN };
    Clip::new(begin, end)
        .map_err(|problem| AddressError::Malformed { parameter, problem: problem.to_owned() })
}

fn order(value: &str) -> Result<SampleOrder, AddressError> {
    match value {
        "" | "decode" => Ok(SampleOrder::Decode),
        PRIORITY => Ok(SampleOrder::Priority),
        _ => {
            let problem = format!("neither decode nor {PRIORITY}");
            Err(AddressError::Malformed { parameter: ORDER, problem })
        }
    }
}

fn text(value: &str) -> Result<DashText, AddressError> {
    match value {
        "" => Ok(DashText::Stored),
        STPP => Ok(DashText::Stpp),
        _ => Err(AddressError::Malformed { parameter: TEXT, problem: format!("not {STPP}") }),
    }
}

fn minimum_segment(value: &str) -> Result<Option<Duration>, AddressError> {
    let minimum = time(MINIMUM_SEGMENT, value)?.filter(|minimum| !minimum.is_zero());
    if minimum.is_some_and(|minimum| minimum > LONGEST_MINIMUM) {
        let problem = format!("longer than {} s", LONGEST_MINIMUM.as_secs());
        return Err(AddressError::Malformed { parameter: MINIMUM_SEGMENT, problem });
    }
    Ok(minimum)
}

/// Parses a time. Returns `None` for an empty value.
fn time(parameter: &'static str, value: &str) -> Result<Option<Duration>, AddressError> {
    if value.is_empty() {
        return Ok(None);
    }
    let malformed = || AddressError::Malformed { parameter, problem: "not a number of seconds".to_owned() };
    seconds(value).ok_or_else(malformed).map(Some)
}

/// Parses digits, optionally with a point and more digits, of which nine count.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |nanos: u32, digit| nanos * 10 + u32::from(digit - b'0'));
    Some(Duration::new(whole.parse().ok()?, nanos))
}

fn decimal(time: Duration) -> String {
    let text = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
