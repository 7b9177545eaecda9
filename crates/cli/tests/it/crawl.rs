//! Finds every URL of a title as players do: in manifests, with parsers of other projects.

use crate::client::{Answer, get};
use dash_mpd_core::{AdaptationSet, MPD};
use roxmltree::Document;
use std::{collections::BTreeMap, net::SocketAddr};

/// Manifests where players of a title start.
pub(crate) const NATIVE: [&str; 6] =
    [".mpd", ".mpd?mpd_segment_template=number", ".m3u8", ".m3u8?hls_fmp4", "Manifest", ".f4m"];

/// Returns all responses reached from these manifests, by path and query.
pub(crate) fn crawl(server: SocketAddr, entries: &[String]) -> BTreeMap<String, Answer> {
    let mut found = BTreeMap::new();
    let mut open = entries.to_vec();
    while let Some(path) = open.pop() {
        if found.contains_key(&path) {
            continue;
        }
        let response = get(server, &path);
        assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
        let links = match response.headers["content-type"].as_str() {
            "application/vnd.apple.mpegurl" => hls(response.text()),
            "application/dash+xml" => dash(response.text()),
            "application/vnd.ms-sstr+xml" => smooth(response.text()),
            "application/f4m+xml" => hds(response.text()),
            "video/abst" => hds_fragments(&path, &response.body),
            _ => Vec::new(),
        };
        open.extend(links.iter().map(|link| resolve(&path, link)));
        found.insert(path, response);
    }
    found
}

/// Resolves a relative reference against a path (RFC 3986 §5.2, as far as players need it).
fn resolve(from: &str, link: &str) -> String {
    let path = from.split('?').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    let mut link = link;
    while let Some(rest) = link.strip_prefix("../") {
        parts.pop();
        link = rest;
    }
    format!("{}/{link}", parts.join("/"))
}

/// Returns the lines that are URIs, and the `URI="…"` attributes (RFC 8216 §4.1).
fn hls(text: &str) -> Vec<String> {
    let attribute = |line: &str| line.split_once("URI=\"")?.1.split('"').next().map(str::to_owned);
    text.lines()
        .filter_map(|line| if line.starts_with('#') { attribute(line) } else { Some(line.to_owned()) })
        .filter(|line| !line.is_empty())
        .collect()
}

fn dash(text: &str) -> Vec<String> {
    let mpd: MPD = dash_mpd_core::parse(text).expect("an MPD");
    mpd.periods.iter().flat_map(|period| period.adaptations.iter().flat_map(set)).collect()
}

/// Returns the `Url` of each stream, filled in for each of its levels and chunks.
fn smooth(text: &str) -> Vec<String> {
    let document = Document::parse(text).expect("XML");
    let mut urls = Vec::new();
    for stream in document.descendants().filter(|n| n.has_tag_name("StreamIndex")) {
        let url = stream.attribute("Url").expect("a URL");
        for level in stream.children().filter(|n| n.has_tag_name("QualityLevel")) {
            let url = url.replace("{bitrate}", level.attribute("Bitrate").expect("a bit rate"));
            let mut at = 0;
            for c in stream.children().filter(|n| n.has_tag_name("c")) {
                let number = |name: &str| c.attribute(name).map(|v| v.parse::<u64>().expect("a number"));
                at = number("t").unwrap_or(at);
                for _ in 0..number("r").unwrap_or(1) {
                    urls.push(url.replace("{start time}", &at.to_string()));
                    at += number("d").expect("a duration");
                }
            }
        }
    }
    urls
}

/// Returns the URL of the bootstrap information beside each `media`.
fn hds(text: &str) -> Vec<String> {
    let document = Document::parse(text).expect("XML");
    let media = document.descendants().filter(|n| n.tag_name().name() == "media");
    let url =
        |n: roxmltree::Node<'_, '_>| n.attribute("url").expect("a URL").trim_end_matches('-').to_owned();
    // nginx-vod-module uses another name.
    media.map(|n| format!("{}.abst", url(n).replacen("frag-", "bootstrap-", 1))).collect()
}

/// Returns the URLs of as many fragments as the entry of the segment run table states.
fn hds_fragments(path: &str, abst: &[u8]) -> Vec<String> {
    let at = abst.windows(4).position(|w| w == b"asrt").expect("a segment run table");
    let count = abst[at + 17..at + 21].iter().fold(0_u32, |n, &b| n << 8 | u32::from(b));
    let name = path.rsplit('/').next().and_then(|file| file.strip_suffix(".abst")).expect("a name");
    let name = name.replacen("bootstrap-", "frag-", 1);
    (1..=count).map(|n| format!("{name}-Seg1-Frag{n}")).collect()
}

fn set(set: &AdaptationSet) -> Vec<String> {
    let mut urls = Vec::new();
    for representation in &set.representations {
        let template = representation.SegmentTemplate.as_ref().or(set.SegmentTemplate.as_ref());
        let template = template.expect("a template");
        let id = representation.id.as_deref().expect("an id");
        let fill = |url: &Option<String>| url.as_deref().expect("a URL").replace("$RepresentationID$", id);
        urls.push(fill(&template.initialization));
        let media = fill(&template.media);
        let mut at = 0;
        let mut number = template.startNumber.unwrap_or(1);
        for s in &template.SegmentTimeline.as_ref().expect("a timeline").segments {
            at = s.t.unwrap_or(at);
            for _ in 0..=s.r.unwrap_or(0) {
                urls.push(media.replace("$Time$", &at.to_string()).replace("$Number$", &number.to_string()));
                (at, number) = (at + s.d, number + 1);
            }
        }
    }
    urls
}
