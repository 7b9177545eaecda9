//! Keys of a title, and the tracks that each is for: by a filter, or by the usage rules of a key
//! document.

use crate::{frame_rate::constant_frame_rate, selection::filter::Filter};
use latemux_index::Title;
use latemux_isobmff::codec::Media;
use latemux_protect::{ContentKey, DocumentKey, Scheme, UsageRule, usage::TrackFacts};
use std::sync::Arc;

/// A key, and the tracks that it is for.
#[derive(Debug, Clone)]
pub struct TrackKey {
    /// The key.
    pub key: Arc<ContentKey>,
    /// The only scheme of Common Encryption that the key may be used in. `None` for all schemes.
    pub scheme: Option<Scheme>,
    /// The tracks.
    pub tracks: KeyTracks,
}

/// The tracks that a key is for.
#[derive(Debug, Clone)]
pub enum KeyTracks {
    /// All.
    All,
    /// Those that a filter is true of.
    Filter(Filter),
    /// Those that one of these rules is true of.
    Rules(Vec<UsageRule>),
}

impl KeyTracks {
    /// Returns true if the key is for a track (an index into [`Title::tracks`]).
    pub(super) fn include(&self, title: &Title, track: usize) -> bool {
        match self {
            Self::All => true,
            Self::Filter(filter) => filter.matches(title, track),
            Self::Rules(rules) => {
                let facts = track_facts(title, track);
                rules.iter().any(|rule| rule.matches(&facts))
            }
        }
    }
}

/// Returns the properties of a track that usage rules compare.
fn track_facts(title: &Title, index: usize) -> TrackFacts {
    let named = &title.tracks()[index];
    let track = title.track(named);
    let mut facts = TrackFacts { bitrate: named.name.bitrate, ..TrackFacts::default() };
    match &track.codec.media {
        Media::Video(video) => {
            facts.pixels = Some(u64::from(video.width) * u64::from(video.height));
            facts.frame_rate = constant_frame_rate(title, index);
        }
        Media::Audio(audio) => facts.channels = Some(audio.channels.into()),
        Media::Text => {}
    }
    facts.labels.push(named.name.stem.clone());
    if track.language.is_known() {
        facts.labels.push(track.language.to_string());
    }
    facts
}

impl From<DocumentKey> for TrackKey {
    fn from(stated: DocumentKey) -> Self {
        let tracks = stated.rules.map_or(KeyTracks::All, KeyTracks::Rules);
        Self { key: Arc::new(stated.key), scheme: stated.scheme, tracks }
    }
}
