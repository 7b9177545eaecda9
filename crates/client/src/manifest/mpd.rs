//! The elements and attributes of an MPD that players need (ISO/IEC 23009-1 §5.3), as the MPD
//! states them. All others are ignored.

use super::xml::{children, number};
use crate::manifest_error::ManifestError;
use roxmltree::Node;

/// The namespace of `href`, which refers to a period in another document.
const XLINK: &str = "http://www.w3.org/1999/xlink";

/// `MPD`.
#[derive(Debug)]
pub(super) struct Mpd {
    pub(super) is_dynamic: bool,
    /// `mediaPresentationDuration`, in seconds.
    pub(super) seconds: Option<f64>,
    pub(super) base_urls: Vec<String>,
    pub(super) periods: Vec<Period>,
}

/// `Period`.
#[derive(Debug)]
pub(super) struct Period {
    pub(super) is_remote: bool,
    /// `start`, in seconds.
    pub(super) start: Option<f64>,
    /// `duration`, in seconds.
    pub(super) seconds: Option<f64>,
    pub(super) base_urls: Vec<String>,
    pub(super) addressing: Stated,
    pub(super) sets: Vec<AdaptationSet>,
}

/// `AdaptationSet`.
#[derive(Debug)]
pub(super) struct AdaptationSet {
    pub(super) coding: Coding,
    /// Values of `Role`.
    pub(super) roles: Vec<String>,
    /// Schemes of `EssentialProperty`.
    pub(super) essential: Vec<String>,
    pub(super) base_urls: Vec<String>,
    pub(super) addressing: Stated,
    pub(super) representations: Vec<Representation>,
}

/// `Representation`.
#[derive(Debug)]
pub(super) struct Representation {
    pub(super) id: String,
    pub(super) bandwidth: u64,
    pub(super) coding: Coding,
    pub(super) base_urls: Vec<String>,
    pub(super) addressing: Stated,
}

/// Media type and codecs, as an adaptation set or a representation states them.
#[derive(Debug)]
pub(super) struct Coding {
    pub(super) content_type: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) codecs: Option<String>,
}

/// The addressing of segments, as a period, an adaptation set or a representation states it.
#[derive(Debug)]
pub(super) struct Stated {
    pub(super) template: Option<SegmentTemplate>,
    pub(super) list: Option<SegmentList>,
    pub(super) one_file: Option<SegmentBase>,
}

/// `SegmentTemplate`.
#[derive(Debug, Clone, Default)]
pub(super) struct SegmentTemplate {
    pub(super) media: Option<String>,
    /// The attribute `initialization`, a template.
    pub(super) init_template: Option<String>,
    pub(super) init: Option<Initialization>,
    pub(super) start_number: Option<u64>,
    pub(super) end_number: Option<u64>,
    pub(super) duration: Option<f64>,
    pub(super) timescale: Option<u64>,
    pub(super) time_offset: Option<u64>,
    pub(super) timeline: Option<Vec<S>>,
}

/// `SegmentList`.
#[derive(Debug, Clone, Default)]
pub(super) struct SegmentList {
    pub(super) duration: Option<u64>,
    pub(super) timescale: Option<u64>,
    pub(super) init: Option<Initialization>,
    pub(super) timeline: Option<Vec<S>>,
    pub(super) urls: Vec<SegmentUrl>,
}

/// `SegmentBase`.
#[derive(Debug, Clone, Default)]
pub(super) struct SegmentBase {
    pub(super) timescale: Option<u64>,
    pub(super) time_offset: Option<u64>,
    pub(super) index_range: Option<String>,
    pub(super) init: Option<Initialization>,
}

/// `Initialization`.
#[derive(Debug, Clone, Default)]
pub(super) struct Initialization {
    pub(super) url: Option<String>,
    pub(super) range: Option<String>,
}

/// `SegmentURL`.
#[derive(Debug, Clone, Default)]
pub(super) struct SegmentUrl {
    pub(super) media: Option<String>,
    pub(super) range: Option<String>,
}

/// `S`: consecutive segments of the same duration.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct S {
    pub(super) t: Option<u64>,
    pub(super) n: Option<u64>,
    pub(super) d: u64,
    pub(super) r: i64,
}

impl Mpd {
    /// Reads the root element of a manifest.
    pub(super) fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        Ok(Self {
            is_dynamic: node.attribute("type") == Some("dynamic"),
            seconds: seconds(node, "mediaPresentationDuration")?,
            base_urls: base_urls(node),
            periods: children(node, "Period").map(Period::read).collect::<Result<_, _>>()?,
        })
    }
}

impl Period {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        Ok(Self {
            is_remote: node.attribute((XLINK, "href")).is_some(),
            start: seconds(node, "start")?,
            seconds: seconds(node, "duration")?,
            base_urls: base_urls(node),
            addressing: Stated::read(node)?,
            sets: children(node, "AdaptationSet").map(AdaptationSet::read).collect::<Result<_, _>>()?,
        })
    }
}

impl AdaptationSet {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        let texts = |element, attribute| {
            children(node, element).filter_map(|child| text(child, attribute)).collect::<Vec<_>>()
        };
        Ok(Self {
            coding: Coding::read(node),
            roles: texts("Role", "value"),
            essential: texts("EssentialProperty", "schemeIdUri"),
            base_urls: base_urls(node),
            addressing: Stated::read(node)?,
            representations: children(node, "Representation")
                .map(Representation::read)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Representation {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        Ok(Self {
            id: text(node, "id").unwrap_or_default(),
            bandwidth: number(node, "bandwidth")?.unwrap_or(0),
            coding: Coding::read(node),
            base_urls: base_urls(node),
            addressing: Stated::read(node)?,
        })
    }
}

impl Coding {
    fn read(node: Node<'_, '_>) -> Self {
        Self {
            content_type: text(node, "contentType"),
            mime_type: text(node, "mimeType"),
            codecs: text(node, "codecs"),
        }
    }
}

impl Stated {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        Ok(Self {
            template: child(node, "SegmentTemplate").map(SegmentTemplate::read).transpose()?,
            list: child(node, "SegmentList").map(SegmentList::read).transpose()?,
            one_file: child(node, "SegmentBase").map(SegmentBase::read).transpose()?,
        })
    }
}

impl SegmentTemplate {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        Ok(Self {
            media: text(node, "media"),
            init_template: text(node, "initialization"),
            init: Initialization::of(node),
            start_number: number(node, "startNumber")?,
            end_number: number(node, "endNumber")?,
            duration: number(node, "duration")?,
            timescale: number(node, "timescale")?,
            time_offset: number(node, "presentationTimeOffset")?,
            timeline: timeline(node)?,
        })
    }
}

impl SegmentList {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        let url = |node| SegmentUrl { media: text(node, "media"), range: text(node, "mediaRange") };
        Ok(Self {
            duration: number(node, "duration")?,
            timescale: number(node, "timescale")?,
            init: Initialization::of(node),
            timeline: timeline(node)?,
            urls: children(node, "SegmentURL").map(url).collect(),
        })
    }
}

impl SegmentBase {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        Ok(Self {
            timescale: number(node, "timescale")?,
            time_offset: number(node, "presentationTimeOffset")?,
            index_range: text(node, "indexRange"),
            init: Initialization::of(node),
        })
    }
}

impl Initialization {
    /// Returns the `Initialization` within an element.
    fn of(node: Node<'_, '_>) -> Option<Self> {
        let init = child(node, "Initialization")?;
        Some(Self { url: text(init, "sourceURL"), range: text(init, "range") })
    }
}

impl S {
    fn read(node: Node<'_, '_>) -> Result<Self, ManifestError> {
        let duration = number(node, "d")?;
        Ok(Self {
            t: number(node, "t")?,
            n: number(node, "n")?,
            d: duration.ok_or_else(|| ManifestError::invalid("an S element without duration"))?,
            r: number(node, "r")?.unwrap_or(0),
        })
    }
}

/// Returns the `S` elements of a `SegmentTimeline`.
fn timeline(node: Node<'_, '_>) -> Result<Option<Vec<S>>, ManifestError> {
    let Some(timeline) = child(node, "SegmentTimeline") else { return Ok(None) };
    children(timeline, "S").map(S::read).collect::<Result<_, _>>().map(Some)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> Option<Node<'a, 'i>> {
    children(node, name).next()
}

fn text(node: Node<'_, '_>, name: &str) -> Option<String> {
    node.attribute(name).map(str::to_owned)
}

fn base_urls(node: Node<'_, '_>) -> Vec<String> {
    children(node, "BaseURL").map(|url| url.text().unwrap_or_default().trim().to_owned()).collect()
}

/// Returns an attribute that is an `xs:duration`, in seconds.
fn seconds(node: Node<'_, '_>, name: &str) -> Result<Option<f64>, ManifestError> {
    let wrong = |text: &str| ManifestError::invalid(format!("an invalid duration: {name}=\"{text}\""));
    node.attribute(name).map(|text| duration(text.trim()).ok_or_else(|| wrong(text))).transpose()
}

/// Returns the seconds of an `xs:duration` (XML Schema part 2, §3.2.6). A year counts as 365 days,
/// and a month as 30. Negative durations are refused.
fn duration(text: &str) -> Option<f64> {
    const DAY: f64 = 86_400.0;
    let text = text.strip_prefix('P').filter(|text| !text.is_empty() && !text.ends_with('T'))?;
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let date = sum(date, [('Y', 365.0 * DAY), ('M', 30.0 * DAY), ('D', DAY)])?;
    Some(date + sum(time, [('H', 3600.0), ('M', 60.0), ('S', 1.0)])?)
}

/// Returns the sum in seconds of numbers, each followed by its unit. `units` gives the seconds of
/// each unit, and the order that the units must have.
fn sum(text: &str, units: [(char, f64); 3]) -> Option<f64> {
    let mut rest = text;
    let mut sum = 0.0;
    for (unit, seconds) in units {
        let Some((number, behind)) = rest.split_once(unit) else { continue };
        if !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return None;
        }
        sum += number.parse::<f64>().ok()? * seconds;
        rest = behind;
    }
    rest.is_empty().then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_their_parts() {
        for (text, seconds) in [
            ("PT8S", 8.0),
            ("PT0.5S", 0.5),
            ("PT1H2M3.25S", 3723.25),
            ("P1DT1M", 86_460.0),
            ("P1Y2M", 36_720_000.0),
            ("P2M", 5_184_000.0),
            ("PT0S", 0.0),
        ] {
            assert_eq!(duration(text), Some(seconds), "{text}");
        }
        for text in
            ["", "P", "PT", "P1DT", "8S", "PT8", "PTS", "-PT8S", "PT-8S", "PT1e3S", "PT1S2M", "P1H", "PTinfS"]
        {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn values_that_cannot_be_read_are_refused() {
        let read = |text: &str| {
            let document = roxmltree::Document::parse(text).unwrap();
            Mpd::read(document.root_element()).map_err(|error| error.to_string())
        };
        let template = |inner: &str| {
            read(&format!(
                "<MPD><Period><SegmentTemplate><SegmentTimeline>{inner}</SegmentTimeline></SegmentTemplate></Period></MPD>"
            ))
        };
        assert_eq!(template("<S t='1'/>").unwrap_err(), "an S element without duration");
        assert_eq!(template("<S d='-1'/>").unwrap_err(), "an invalid value: d=\"-1\"");
        assert_eq!(
            read("<MPD mediaPresentationDuration='8'/>").unwrap_err(),
            "an invalid duration: mediaPresentationDuration=\"8\""
        );
        let remote =
            "<MPD xmlns:xlink='http://www.w3.org/1999/xlink'><Period xlink:href='a'/><Period/></MPD>";
        let periods = read(remote).unwrap().periods;
        assert_eq!(periods.iter().map(|period| period.is_remote).collect::<Vec<_>>(), [true, false]);
    }
}
