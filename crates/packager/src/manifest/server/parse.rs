//! The parser of server manifests. Anybody may have uploaded them, so every count is bounded.

use super::{Element, ServerManifest};
use crate::selection::filter::kind_name;
use latemux_index::media::{Captions, Purpose, Role, TrackKind};
use latemux_isobmff::boxes::mdhd::Language;
use latemux_text::TextFormat;
use roxmltree::{Document, Node, ParsingOptions};
use std::sync::Arc;

/// Largest accepted manifest, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most elements, pieces of text and comments.
const MAX_NODES: u32 = 100_000;
/// Deepest nesting. The format has 5 levels.
const MAX_DEPTH: u32 = 32;
/// Most attributes of one element, counted by `=`. The parser compares each with every other.
const MAX_ATTRIBUTES: usize = 1024;
/// Most namespace declarations. Each element inherits all of them.
const MAX_NAMESPACES: usize = 64;
/// Most tracks of a manifest.
const MAX_ELEMENTS: usize = 1024;
const MAX_SRC: usize = 4096;
/// Longest label, in bytes.
const MAX_LABEL: usize = 512;
/// Highest bit rate, in bits per second. The limit keeps URLs short.
const MAX_BITRATE: u64 = 1_000_000_000_000;

/// Namespace of the document (SMIL 2.0).
pub(super) const SMIL: &str = "http://www.w3.org/2001/SMIL20/Language";

/// The reason why a server manifest is refused. [`Self::reason`] is the stable word for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The manifest has more than [`MAX_BYTES`], or too many of its parts.
    #[error("{what}: more than {limit}")]
    TooLarge {
        /// Description of the limited items, in the plural.
        what: &'static str,
        /// The highest number allowed.
        limit: usize,
    },
    /// The document is not XML, has a document type, or is not a server manifest.
    #[error("{0}")]
    Malformed(String),
    /// An element lacks a value or has a wrong one.
    #[error("{element}: {problem}")]
    Element {
        /// Description of the element.
        element: String,
        /// Description of the problem, for people.
        problem: String,
    },
}

impl ManifestError {
    /// Returns the stable word for logs, metrics and responses.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "manifest_too_large",
            Self::Malformed(_) | Self::Element { .. } => "manifest_malformed",
        }
    }
}

/// Parses a server manifest.
///
/// # Errors
/// [`ManifestError`] with the exceeded limit, the document's problem, or the wrong element.
pub fn parse(bytes: &[u8]) -> Result<ServerManifest, ManifestError> {
    let malformed = |what: String| ManifestError::Malformed(what);
    if bytes.len() > MAX_BYTES {
        return Err(ManifestError::TooLarge { what: "bytes of a server manifest", limit: MAX_BYTES });
    }
    let text = std::str::from_utf8(bytes).map_err(|e| malformed(format!("not UTF-8: {e}")))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_counts(text)?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::NodesLimitReached => {
            ManifestError::TooLarge { what: "nodes of a server manifest", limit: MAX_NODES as usize }
        }
        error => malformed(error.to_string()),
    })?;
    check_depth(&document)?;

    let root = document.root_element();
    if !is(root, "smil") {
        return Err(malformed(format!("the root element is <{}>, not <smil>", root.tag_name().name())));
    }
    let bodies = root.children().filter(|n| is(*n, "body"));
    let switches = bodies.flat_map(|n| n.children()).filter(|n| is(*n, "switch"));
    let tracks = switches.flat_map(|n| n.children()).filter_map(|n| Some((kind(n)?, n)));
    let mut elements = Vec::new();
    for (kind, node) in tracks {
        if elements.len() >= MAX_ELEMENTS {
            return Err(ManifestError::TooLarge { what: "tracks of a server manifest", limit: MAX_ELEMENTS });
        }
        elements.push(element(kind, node)?);
    }
    if elements.is_empty() {
        return Err(malformed("no video, audio or textstream in smil/body/switch".to_owned()));
    }
    Ok(ServerManifest { elements })
}

/// Refuses documents that would take the XML parser long.
fn check_counts(text: &str) -> Result<(), ManifestError> {
    if text.matches("xmlns").count() > MAX_NAMESPACES {
        return Err(ManifestError::TooLarge { what: "namespaces", limit: MAX_NAMESPACES });
    }
    // Attribute values hold no `<`, so all attributes of an element are between two of them.
    if text.split('<').any(|tag| tag.bytes().filter(|&b| b == b'=').count() > MAX_ATTRIBUTES) {
        return Err(ManifestError::TooLarge { what: "attributes of one element", limit: MAX_ATTRIBUTES });
    }
    Ok(())
}

fn check_depth(document: &Document<'_>) -> Result<(), ManifestError> {
    // Nodes are numbered in document order, so a parent comes before its children.
    let mut depths = vec![0_u32];
    for node in document.descendants().skip(1) {
        let parent = node.parent().map_or(0, |parent| parent.id().get_usize());
        let depth = depths.get(parent).map_or(MAX_DEPTH, |depth| depth + 1);
        if depth > MAX_DEPTH {
            let limit = MAX_DEPTH as usize;
            return Err(ManifestError::TooLarge { what: "levels of elements", limit });
        }
        depths.push(depth);
    }
    Ok(())
}

/// True if a node is a SMIL element with a name. Old writers omit the namespace.
fn is(node: Node<'_, '_>, name: &str) -> bool {
    let tag = node.tag_name();
    node.is_element() && tag.name() == name && tag.namespace().is_none_or(|namespace| namespace == SMIL)
}

fn kind(node: Node<'_, '_>) -> Option<TrackKind> {
    let kinds = [TrackKind::Video, TrackKind::Audio, TrackKind::Text];
    kinds.into_iter().find(|kind| is(node, kind_name(*kind)))
}

fn element(kind: TrackKind, node: Node<'_, '_>) -> Result<Element, ManifestError> {
    let line = node.document().text_pos_at(node.range().start).row;
    let src = node.attribute("src").unwrap_or_default();
    let refuse = |problem: String| {
        let named = if src.is_empty() { String::new() } else { format!(" src=\"{}\"", shown(src)) };
        Err(ManifestError::Element {
            element: format!("<{}{named}> in line {line}", kind_name(kind)),
            problem,
        })
    };
    if src.is_empty() {
        return refuse("no src".to_owned());
    }
    if src.len() > MAX_SRC {
        return refuse(format!("the src has {} bytes", src.len()));
    }
    let Some(bitrate) = node.attribute("systemBitrate") else {
        return refuse("no systemBitrate".to_owned());
    };
    let Some(bitrate) = number(bitrate).filter(|rate| (1..=MAX_BITRATE).contains(rate)) else {
        return refuse(format!("wrong systemBitrate \"{}\"", shown(bitrate)));
    };
    // A file of text has one track.
    let is_text_file = kind == TrackKind::Text && TextFormat::of_name(src).is_some();
    let only = is_text_file.then_some("1");
    let Some(track_id) = param(node, "trackID").or(only) else {
        return refuse("no param trackID".to_owned());
    };
    let Some(track_id) = number(track_id).and_then(|id| u32::try_from(id).ok()).filter(|&id| id > 0) else {
        return refuse(format!("wrong trackID \"{}\"", shown(track_id)));
    };
    let (role, forced) = match purpose(kind, node) {
        Ok(stated) => stated,
        Err(problem) => return refuse(problem),
    };
    let label = param(node, "label").map(str::trim).filter(|label| !label.is_empty());
    if let Some(label) = label.filter(|label| label.len() > MAX_LABEL) {
        return refuse(format!("the label has {} bytes", label.len()));
    }
    let captions = match param(node, "captions").map(captions).transpose() {
        Ok(Some(_)) if kind != TrackKind::Video => {
            return refuse("captions of something else than video".to_owned());
        }
        Ok(captions) => captions,
        Err(problem) => return refuse(problem),
    };
    let language = node.attribute("systemLanguage").map(str::trim).and_then(Language::new);
    Ok(Element {
        kind,
        src: src.to_owned(),
        bitrate,
        language: language.filter(Language::is_known),
        track_id,
        tiles: param(node, "tiles").map(str::to_owned),
        label: label.map(str::to_owned),
        role,
        forced,
        captions,
        name: param(node, "trackName")
            .filter(|name| *name != kind_name(kind) && !name.is_empty())
            .map(str::to_owned),
        line,
    })
}

/// Reads the params `role`, `accessibility` and `forced`. Each of the first two is a list with
/// white space or commas between its values. Returns the role, if one of them is stated, and
/// whether text is forced, if that is. Fails with the problem, for people.
fn purpose(kind: TrackKind, node: Node<'_, '_>) -> Result<(Option<Role>, Option<bool>), String> {
    let role = param(node, "role");
    let accessibility = param(node, "accessibility");
    let mut stated = Purpose::default();
    for value in listed(role) {
        if !stated.add_role(kind, value) {
            return Err(format!("unknown role \"{}\"", shown(value)));
        }
    }
    for value in listed(accessibility) {
        let name = value.strip_prefix("public.accessibility.").unwrap_or(value);
        if !stated.add_characteristic(kind, name) {
            return Err(format!("unknown accessibility \"{}\"", shown(value)));
        }
    }
    let forced = match param(node, "forced").map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None => role.map(|_| stated.forced),
        Some("true" | "yes" | "1") => Some(kind == TrackKind::Text),
        Some("false" | "no" | "0") => Some(false),
        Some(other) => return Err(format!("wrong value \"{}\" of forced", shown(other))),
    };
    let is_stated = role.or(accessibility).is_some();
    Ok((is_stated.then_some(stated.role), forced))
}

/// Reads a list of closed captions such as `CC1=eng;SERVICE1=spa`. Fails with the problem, for
/// people.
fn captions(list: &str) -> Result<Arc<[Captions]>, String> {
    let mut found: Vec<Captions> = Vec::new();
    for item in list.split([';', ',']).map(str::trim).filter(|item| !item.is_empty()) {
        let (channel, language) = item.split_once('=').unwrap_or((item, ""));
        let wrong = || format!("wrong captions \"{}\"", shown(item));
        let channel = channel.trim().parse().map_err(|why| format!("{}: {why}", wrong()))?;
        let language = Language::new(language.trim()).filter(Language::is_known);
        let language = language.ok_or_else(|| format!("{}: no language", wrong()))?;
        if found.iter().any(|other| other.channel == channel) {
            return Err(format!("{channel} is listed twice in captions"));
        }
        found.push(Captions { channel, language });
    }
    Ok(found.into())
}

fn listed(list: Option<&str>) -> impl Iterator<Item = &str> {
    let values = list.unwrap_or_default().split(|c: char| c == ',' || c.is_whitespace());
    values.filter(|value| !value.is_empty())
}

/// Returns the value of a param. Writers differ in upper and lower case.
fn param<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let params = node.children().filter(|child| is(*child, "param"));
    let mut named = params.filter(|p| p.attribute("name").is_some_and(|n| n.eq_ignore_ascii_case(name)));
    named.next()?.attribute("value")
}

/// Parses digits, with white space around them.
fn number(text: &str) -> Option<u64> {
    let digits = text.trim();
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Shortens text from a client for an error message.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}
