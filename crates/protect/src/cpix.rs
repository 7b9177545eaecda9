//! CPIX documents: keys, the tracks that they are for, and what DRM systems need to be told
//! (DASH-IF, Content Protection Information Exchange Format, versions 2.0 to 2.4).
//!
//! A document is used as a whole or not at all: what is not understood might restrict a key to
//! other tracks. Keys that are encrypted, and keys for periods of time, are refused.

use crate::{
    ContentKey, DrmSystem, Key, KeyId, Scheme, Signalling, UsageRule,
    document::{DocumentError, DocumentKey, MAX_BYTES, MAX_KEYS, decoded, decoded_block},
    systems::is_pssh_of,
    usage::{AudioFilter, Bounds, IntendedKind, VideoFilter},
};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// The namespace of all versions.
const CPIX: &str = "urn:dashif:org:cpix";
/// The namespace of the elements that hold a key.
const PSKC: &str = "urn:ietf:params:xml:ns:keyprov:pskc";
/// Most elements, attributes and texts of a document.
const MAX_NODES: u32 = 100_000;

type Result<T> = std::result::Result<T, DocumentError>;

/// Reads a document.
///
/// # Errors
/// [`DocumentError`] for a document that is not of the standard's form, or states what is not
/// supported.
pub fn read(text: &str) -> Result<Vec<DocumentKey>> {
    if text.len() > MAX_BYTES {
        return Err(DocumentError("the document is longer than 1 MiB"));
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|_| DocumentError("the document is not well-formed XML without a DTD"))?;
    let root = document.root_element();
    if !root.has_tag_name((CPIX, "CPIX")) {
        return Err(DocumentError("the root of the document is not CPIX"));
    }
    if let Some(version) = root.attribute("version")
        && !["2.0", "2.1", "2.2", "2.3", "2.4"].contains(&version)
    {
        return Err(DocumentError("the version of CPIX is not 2.0 to 2.4"));
    }
    if child(root, "ContentKeyPeriodList")?.is_some() {
        return Err(DocumentError("keys for periods are not supported"));
    }
    let mut rules = read_rules(root)?;
    let mut signalling = read_systems(root)?;
    let list = child(root, "ContentKeyList")?.ok_or(DocumentError("the document has no keys"))?;
    let mut keys: Vec<DocumentKey> = Vec::new();
    for element in elements(list, "ContentKey") {
        let id = key_id(element)?;
        if keys.iter().any(|known| known.key.id() == id) {
            return Err(DocumentError("two keys have the same KID"));
        }
        if keys.len() == MAX_KEYS {
            return Err(DocumentError("the document has more than 256 keys"));
        }
        let iv = element
            .attribute("explicitIV")
            .map(|text| decoded_block(text).ok_or(DocumentError("an explicitIV is not 16 bytes of base64")));
        let key = ContentKey::new(id, secret(element)?, iv.transpose()?)
            .with_signalling(signalling.remove(&id).unwrap_or_default());
        // Where the document has rules, a key without one is for no track.
        let rules = rules.as_mut().map(|rules| rules.remove(&id).unwrap_or_default());
        keys.push(DocumentKey { key, scheme: scheme(element)?, rules });
    }
    if keys.is_empty() {
        return Err(DocumentError("the document has no keys"));
    }
    if !signalling.is_empty() || rules.is_some_and(|rules| !rules.is_empty()) {
        return Err(DocumentError("a rule or a DRM system is of a key that the document lacks"));
    }
    Ok(keys)
}

/// Returns the elements of CPIX with a name.
fn elements<'a, 'input>(
    parent: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    parent.children().filter(move |node| node.has_tag_name((CPIX, name)))
}

/// Returns the only element with a name, if there is one.
fn child<'a, 'input>(parent: Node<'a, 'input>, name: &'static str) -> Result<Option<Node<'a, 'input>>> {
    let mut found = elements(parent, name);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(DocumentError("an element occurs twice that may occur once")),
        (found, None) => Ok(found),
    }
}

fn key_id(element: Node<'_, '_>) -> Result<KeyId> {
    let id = element.attribute("kid").and_then(|text| text.parse().ok());
    id.ok_or(DocumentError("a kid is missing, not a UUID, or 0"))
}

/// Returns the scheme of a key.
fn scheme(element: Node<'_, '_>) -> Result<Option<Scheme>> {
    match element.attribute("commonEncryptionScheme") {
        None => Ok(None),
        Some("cenc") => Ok(Some(Scheme::Cenc)),
        Some("cbcs") => Ok(Some(Scheme::Cbcs)),
        Some(_) => Err(DocumentError("a commonEncryptionScheme is neither cenc nor cbcs")),
    }
}

/// Returns the bytes of a key.
fn secret(element: Node<'_, '_>) -> Result<Key> {
    let inner = |parent: Node<'_, '_>, name: &str| {
        parent.children().find(|node| node.has_tag_name((PSKC, name))).map(|node| node.id())
    };
    let document = element.document();
    let data = child(element, "Data")?.ok_or(DocumentError("a key has no data"))?;
    let secret = inner(data, "Secret").and_then(|id| document.get_node(id));
    let secret = secret.ok_or(DocumentError("a key has no secret"))?;
    if inner(secret, "EncryptedValue").is_some() {
        return Err(DocumentError("encrypted keys are not supported"));
    }
    let value = inner(secret, "PlainValue").and_then(|id| document.get_node(id));
    let value = value.and_then(|value| decoded_block(value.text().unwrap_or_default()));
    value.map(Key::new).ok_or(DocumentError("a key is not 16 bytes of base64"))
}

/// Returns the rules of each key. `None` for a document without rules.
fn read_rules(root: Node<'_, '_>) -> Result<Option<BTreeMap<KeyId, Vec<UsageRule>>>> {
    let Some(list) = child(root, "ContentKeyUsageRuleList")? else { return Ok(None) };
    let mut rules = BTreeMap::<KeyId, Vec<UsageRule>>::new();
    for element in elements(list, "ContentKeyUsageRule") {
        let kind = element.attribute("intendedTrackType");
        let is = |name: &str| kind.is_some_and(|kind| kind.eq_ignore_ascii_case(name));
        let mut rule = UsageRule {
            kind: match (is("video"), is("audio")) {
                (true, _) => Some(IntendedKind::Video),
                (_, true) => Some(IntendedKind::Audio),
                _ => None,
            },
            ..UsageRule::default()
        };
        for filter in element.children().filter(Node::is_element) {
            add_filter(filter, &mut rule)?;
        }
        rules.entry(key_id(element)?).or_default().push(rule);
    }
    Ok(Some(rules))
}

fn add_filter(filter: Node<'_, '_>, rule: &mut UsageRule) -> Result<()> {
    let name = if filter.tag_name().namespace() == Some(CPIX) { filter.tag_name().name() } else { "" };
    let only = |known: &[&str]| match filter.attributes().all(|a| known.contains(&a.name())) {
        true => Ok(()),
        false => Err(DocumentError("a filter has an attribute that is not supported")),
    };
    match name {
        "VideoFilter" => {
            only(&["minPixels", "maxPixels", "minFps", "maxFps"])?;
            let pixels = bounds(filter, "minPixels", "maxPixels")?;
            rule.video.push(VideoFilter { pixels, frame_rate: bounds(filter, "minFps", "maxFps")? });
        }
        "AudioFilter" => {
            only(&["minChannels", "maxChannels"])?;
            rule.audio.push(AudioFilter { channels: bounds(filter, "minChannels", "maxChannels")? });
        }
        "BitrateFilter" => {
            only(&["minBitrate", "maxBitrate"])?;
            rule.bitrate.push(bounds(filter, "minBitrate", "maxBitrate")?);
        }
        "LabelFilter" => {
            only(&["label"])?;
            let label = filter.attribute("label").ok_or(DocumentError("a LabelFilter has no label"))?;
            rule.labels.push(label.to_owned());
        }
        "KeyPeriodFilter" => return Err(DocumentError("keys for periods are not supported")),
        _ => return Err(DocumentError("a usage rule has a filter that is not supported")),
    }
    Ok(())
}

fn bounds(filter: Node<'_, '_>, min: &str, max: &str) -> Result<Bounds> {
    let bound = |name| match filter.attribute(name).map(str::parse) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value)),
        Some(Err(_)) => Err(DocumentError("a bound of a filter is not a whole number")),
    };
    Ok(Bounds { min: bound(min)?, max: bound(max)? })
}

/// Returns what the document states for each key to the DRM systems that are known. Others are left
/// out.
fn read_systems(root: Node<'_, '_>) -> Result<BTreeMap<KeyId, Vec<Signalling>>> {
    let mut found = BTreeMap::<KeyId, Vec<Signalling>>::new();
    let Some(list) = child(root, "DRMSystemList")? else { return Ok(found) };
    for element in elements(list, "DRMSystem") {
        let of_key = found.entry(key_id(element)?).or_default();
        let system = element.attribute("systemId").and_then(|text| text.parse::<KeyId>().ok());
        let system = system.ok_or(DocumentError("a systemId is missing or not a UUID"))?;
        let Some(system) = DrmSystem::of_id(system.bytes()) else { continue };
        if of_key.iter().any(|known| known.system == system) {
            return Err(DocumentError("a key has a DRM system twice"));
        }
        of_key.push(Signalling { system, pssh: read_pssh(element, system)?, hls: read_hls(element)? });
    }
    Ok(found)
}

fn read_pssh(element: Node<'_, '_>, system: DrmSystem) -> Result<Option<Vec<u8>>> {
    let text = child(element, "PSSH")?.and_then(|pssh| pssh.text()).unwrap_or_default();
    let pssh = decoded(text).ok_or(DocumentError("a PSSH is not base64"))?.to_vec();
    match pssh.is_empty() {
        true => Ok(None),
        false if is_pssh_of(&pssh, system) => Ok(Some(pssh)),
        false => Err(DocumentError("a PSSH is not a box of its DRM system")),
    }
}

/// Returns the attributes of the tag for media playlists: of `EXT-X-KEY`, if one is stated.
fn read_hls(element: Node<'_, '_>) -> Result<Option<String>> {
    let stated = || elements(element, "HLSSignalingData");
    let is_media = |node: &Node<'_, '_>| node.attribute("playlist").is_none_or(|name| name == "media");
    let Some(node) = stated().find(is_media).or_else(|| stated().next()) else { return Ok(None) };
    const PROBLEM: DocumentError = DocumentError("HLS signalling is not base64 of a tag EXT-X-KEY");
    let bytes = decoded(node.text().unwrap_or_default()).ok_or(PROBLEM)?;
    let text = str::from_utf8(&bytes).map_err(|_| PROBLEM)?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let mut tags = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let tag = line.strip_prefix("#EXT-X-KEY:").or(line.strip_prefix("#EXT-X-SESSION-KEY:"));
        tag.filter(|tag| tag.starts_with("METHOD=") && !tag.chars().any(char::is_control))
    });
    match (tags.next().flatten(), tags.next()) {
        (Some(tag), None) => Ok(Some(tag.to_owned())),
        _ => Err(PROBLEM),
    }
}

#[cfg(test)]
#[path = "cpix_tests.rs"]
mod tests;
