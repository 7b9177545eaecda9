//! Every URL of a title, found as players find them: in the text of manifests, by parsers that are not ours.

use crate::client::{Answer, get};
use dash_mpd_core::{AdaptationSet, MPD};
use std::{collections::BTreeMap, net::SocketAddr};

/// Where players start.
const ENTRIES: [&str; 4] = [".mpd", ".mpd?mpd_segment_template=number", ".m3u8", ".m3u8?hls_fmp4"];

/// All answers of a title, by path and query.
pub(crate) fn crawl(server: SocketAddr, base: &str) -> BTreeMap<String, Answer> {
    let mut found = BTreeMap::new();
    let mut open: Vec<String> = ENTRIES.iter().map(|entry| format!("{base}/{entry}")).collect();
    while let Some(path) = open.pop() {
        if found.contains_key(&path) {
            continue;
        }
        let answer = get(server, &path);
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        let links = match answer.headers["content-type"].as_str() {
            "application/vnd.apple.mpegurl" => hls(answer.text()),
            "application/dash+xml" => dash(answer.text()),
            _ => Vec::new(),
        };
        open.extend(links.iter().map(|link| resolve(&path, link)));
        found.insert(path, answer);
    }
    found
}

/// A relative reference against a path (RFC 3986 §5.2, the part players need).
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

/// Lines that are URIs, and `URI="…"` attributes (RFC 8216 §4.1).
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

fn set(set: &AdaptationSet) -> Vec<String> {
    let mut urls = Vec::new();
    for representation in &set.representations {
        let template = representation.SegmentTemplate.as_ref().or(set.SegmentTemplate.as_ref());
        let template = template.expect("a template");
        let id = representation.id.as_deref().expect("an id");
        let fill = |url: &Option<String>| url.as_deref().expect("a URL").replace("$RepresentationID$", id);
        urls.push(fill(&template.initialization));
        let (media, mut at, mut number) = (fill(&template.media), 0, template.startNumber.unwrap_or(1));
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
