//! Requests for keys by SPEKE 2.0: a CPIX document (2.3) without keys, which the server returns
//! with them.

use crate::{
    DrmSystem, KeyId, Scheme,
    key::uuid,
    usage::{AudioFilter, Bounds, VideoFilter},
};
use std::fmt::Write as _;
use xxhash_rust::xxh3::xxh3_128;

/// Tracks that share a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// Value of `intendedTrackType`.
    name: &'static str,
    video: Option<VideoFilter>,
    audio: Option<AudioFilter>,
}

/// The keys of a title, as the names of SPEKE's presets state them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract(Vec<Group>);

const fn pixels(name: &'static str, min: Option<u64>, max: Option<u64>) -> Group {
    let any = Bounds { min: None, max: None };
    Group { name, video: Some(VideoFilter { pixels: Bounds { min, max }, frame_rate: any }), audio: None }
}

const fn channels(name: &'static str, min: Option<u64>, max: Option<u64>) -> Group {
    Group { name, video: None, audio: Some(AudioFilter { channels: Bounds { min, max } }) }
}

/// Most pixels of standard definition.
const SD: u64 = 1024 * 576;
/// Most pixels of high definition.
const HD: u64 = 1920 * 1080;

/// The presets that are known.
const PRESETS: [(&str, &[Group]); 5] = [
    ("video-1", &[pixels("VIDEO", None, None)]),
    ("video-2", &[pixels("SD", None, Some(SD)), pixels("HD", Some(SD + 1), None)]),
    (
        "video-3",
        &[
            pixels("SD", None, Some(SD)),
            pixels("HD", Some(SD + 1), Some(HD)),
            pixels("UHD", Some(HD + 1), None),
        ],
    ),
    ("audio-1", &[channels("AUDIO", None, None)]),
    ("audio-2", &[channels("STEREO_AUDIO", None, Some(2)), channels("MULTICHANNEL_AUDIO", Some(3), None)]),
];

impl Contract {
    /// Reads the names of presets, such as `video-2,audio-1`, or `shared` for one key.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const PROBLEM: &str = "contract must be shared, or one of video-1, video-2, video-3 and one of audio-1, \
                               audio-2, with a comma between them";
        if text == "shared" {
            let name = "ALL";
            let all =
                Group { name, video: Some(VideoFilter::default()), audio: Some(AudioFilter::default()) };
            return Ok(Self(vec![all]));
        }
        let mut groups = Vec::new();
        for preset in text.split(',') {
            let (_, known) = PRESETS.iter().find(|(name, _)| *name == preset.trim()).ok_or(PROBLEM)?;
            let is_audio = |group: &Group| group.audio.is_some();
            if groups.iter().any(|group| is_audio(group) == known.iter().any(is_audio)) {
                return Err(PROBLEM);
            }
            groups.extend_from_slice(known);
        }
        Ok(Self(groups))
    }
}

/// A request for the keys of one title in one scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// IDs of the requested keys.
    pub ids: Vec<KeyId>,
    /// The document to send.
    pub document: String,
}

impl Request {
    /// Makes a request. The IDs of keys are made from the ID of the content, so that every node
    /// requests the same ones.
    pub fn new(content_id: &str, contract: &Contract, scheme: Scheme, systems: &[DrmSystem]) -> Self {
        let name = scheme.name();
        let id = |group: &Group| {
            let text = format!("latemux speke\0{content_id}\0{}\0{name}", group.name);
            KeyId::of_digest(xxh3_128(text.as_bytes()).to_be_bytes())
        };
        let mut keys = String::new();
        let mut signalling = String::new();
        let mut rules = String::new();
        let ids: Vec<KeyId> = contract.0.iter().map(id).collect();
        for (group, id) in contract.0.iter().zip(&ids) {
            let kid = id.uuid();
            // Writing to a string cannot fail.
            let _ = write!(keys, r#"<cpix:ContentKey kid="{kid}" commonEncryptionScheme="{name}"/>"#);
            for system in systems.iter().filter(|system| **system != DrmSystem::ClearKey) {
                let system = uuid(&system.id());
                let _ = write!(
                    signalling,
                    "<cpix:DRMSystem kid=\"{kid}\" systemId=\"{system}\"><cpix:PSSH/>\
                     <cpix:ContentProtectionData/><cpix:HLSSignalingData playlist=\"media\"/></cpix:DRMSystem>"
                );
            }
            let kind = group.name;
            let _ = write!(rules, r#"<cpix:ContentKeyUsageRule kid="{kid}" intendedTrackType="{kind}">"#);
            if let Some(filter) = group.video {
                write_filter("VideoFilter", ("minPixels", "maxPixels"), filter.pixels, &mut rules);
            }
            if let Some(filter) = group.audio {
                write_filter("AudioFilter", ("minChannels", "maxChannels"), filter.channels, &mut rules);
            }
            rules.push_str("</cpix:ContentKeyUsageRule>");
        }
        if !signalling.is_empty() {
            signalling = format!("<cpix:DRMSystemList>{signalling}</cpix:DRMSystemList>");
        }
        let document = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <cpix:CPIX contentId=\"{}\" version=\"2.3\" xmlns:cpix=\"urn:dashif:org:cpix\" \
             xmlns:pskc=\"urn:ietf:params:xml:ns:keyprov:pskc\"><cpix:ContentKeyList>{keys}\
             </cpix:ContentKeyList>{signalling}<cpix:ContentKeyUsageRuleList>{rules}\
             </cpix:ContentKeyUsageRuleList></cpix:CPIX>\n",
            escaped(content_id)
        );
        Self { ids, document }
    }
}

fn write_filter(name: &str, (min, max): (&str, &str), bounds: Bounds, out: &mut String) {
    let _ = write!(out, "<cpix:{name}");
    for (name, bound) in [(min, bounds.min), (max, bounds.max)] {
        if let Some(bound) = bound {
            let _ = write!(out, " {name}=\"{bound}\"");
        }
    }
    out.push_str("/>");
}

/// Returns text for an attribute. Characters that XML cannot state are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpix;

    #[test]
    fn contracts_name_each_kind_once() {
        for (text, count) in
            [("shared", 1), ("video-1", 1), ("audio-1", 1), ("video-2,audio-1", 3), ("audio-2, video-3", 5)]
        {
            assert_eq!(Contract::parse(text).unwrap().0.len(), count, "{text}");
        }
        for text in ["", "video", "video-9", "video-1,video-2", "audio-1,audio-1", "shared,audio-1"] {
            Contract::parse(text).unwrap_err();
        }
    }

    /// Other content, another scheme and another group have other IDs; the same have the same.
    #[test]
    fn ids_follow_from_content_group_and_scheme() {
        let contract = Contract::parse("video-2,audio-1").unwrap();
        let ids = |id: &str, scheme| Request::new(id, &contract, scheme, &[]).ids;
        let mut all = [ids("a", Scheme::Cenc), ids("a", Scheme::Cbcs), ids("b", Scheme::Cenc)].concat();
        assert_eq!(ids("a", Scheme::Cenc), all[..3]);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 9);
    }

    /// The server fills in the keys. Its answer, made from the request, is read with the same
    /// rules.
    #[test]
    fn filled_requests_are_documents() {
        let contract = Contract::parse("video-2,audio-1").unwrap();
        let request = Request::new("a & <b>\"\u{7}", &contract, Scheme::Cbcs, &[DrmSystem::Widevine]);
        assert!(request.document.contains("contentId=\"a &amp; &lt;b>&quot;\u{fffd}\""));
        let secret = "<cpix:Data><pskc:Secret><pskc:PlainValue>AAECAwQFBgcICQoLDA0ODw==</pskc:PlainValue>\
                      </pskc:Secret></cpix:Data>";
        let filled = request.document.replace(
            "commonEncryptionScheme=\"cbcs\"/>",
            &format!("commonEncryptionScheme=\"cbcs\">{secret}</cpix:ContentKey>"),
        );
        let keys = cpix::read(&filled).unwrap();
        assert_eq!(keys.iter().map(|key| key.key.id()).collect::<Vec<_>>(), request.ids);
        assert!(keys.iter().all(|key| key.scheme == Some(Scheme::Cbcs)));
        let rules: Vec<_> = keys.iter().map(|key| key.rules.clone().unwrap().pop().unwrap()).collect();
        assert_eq!(rules[0].video[0].pixels, Bounds { min: None, max: Some(589_824) });
        assert_eq!(rules[1].video[0].pixels, Bounds { min: Some(589_825), max: None });
        assert_eq!(rules[2].audio, [AudioFilter::default()]);
        // The document without keys is refused.
        cpix::read(&request.document).unwrap_err();
    }
}
