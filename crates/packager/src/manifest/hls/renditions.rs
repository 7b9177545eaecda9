//! Audio and subtitle groups: which renditions a player may choose from.

use super::attributes::Tag;
use crate::{address::Links, carry::Protocol};
use latemux_index::{Title, Track, title::TrackName};
use latemux_isobmff::codec::{Audio, Media};

/// Renditions a variant may be played with: of one codec and channel layout, as HLS wants them, in any number of languages.
#[derive(Debug)]
pub(super) struct Group {
    /// `GROUP-ID`.
    pub(super) id: String,
    /// Tracks, as indexes in [`Title::tracks`].
    pub(super) members: Vec<usize>,
    /// The one that plays when the user chooses nothing.
    pub(super) default: usize,
}

impl Group {
    /// `CODECS` of all its members: by construction they agree.
    pub(super) fn codecs<'a>(&self, title: &'a Title) -> &'a str {
        &track(title, self.default).codec.rfc6381
    }
}

fn track(title: &Title, index: usize) -> &Track {
    title.track(&title.tracks()[index])
}

fn audio(track: &Track) -> Option<&Audio> {
    match &track.codec.media {
        Media::Audio(audio) => Some(audio),
        _ => None,
    }
}

/// Groups tracks that sound alike to a decoder. The group of the title's default comes first; in every group its language is the
/// default where it can be.
pub(super) fn groups(title: &Title, tracks: &[usize], id: &str) -> Vec<Group> {
    let key = |i: usize| {
        let track = track(title, i);
        (&track.codec.rfc6381, audio(track).map(|audio| (audio.channels, audio.joc)))
    };
    let Some(main) = default_of(title, tracks, None) else { return Vec::new() };
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for &i in tracks {
        match sets.iter_mut().find(|set| set.first().is_some_and(|&other| key(other) == key(i))) {
            Some(set) => set.push(i),
            None => sets.push(vec![i]),
        }
    }
    sets.sort_by_key(|set| !set.contains(&main));
    let several = sets.len() > 1;
    (1..)
        .zip(sets)
        .filter_map(|(number, members)| {
            let default = default_of(title, &members, Some(main))?;
            let id = if several { format!("{id}-{number}") } else { id.to_owned() };
            Some(Group { id, members, default })
        })
        .collect()
}

/// The first enabled track, of the language of `main` if there is one, else the first.
fn default_of(title: &Title, tracks: &[usize], main: Option<usize>) -> Option<usize> {
    let same = |&&i: &&usize| main.is_none_or(|main| track(title, i).language == track(title, main).language);
    let enabled = |&&i: &&usize| track(title, i).enabled;
    let all = || tracks.iter();
    main.filter(|main| tracks.contains(main))
        .or_else(|| all().filter(same).find(enabled).copied())
        .or_else(|| all().find(same).copied().filter(|_| main.is_some()))
        .or_else(|| all().find(enabled).copied())
        .or_else(|| all().next().copied())
}

/// `EXT-X-MEDIA` tags of groups.
pub(super) struct Renditions<'a> {
    pub(super) title: &'a Title,
    pub(super) links: &'a Links<'a>,
    /// `AUDIO` or `SUBTITLES`.
    pub(super) kind: &'static str,
    pub(super) protocol: Protocol,
    /// The default's media is in the variant itself.
    pub(super) default_in_variant: bool,
}

impl Renditions<'_> {
    pub(super) fn write(&self, group: &Group, playlist: &mut String) {
        let mut names: Vec<String> = Vec::new();
        for &i in &group.members {
            let language = &track(self.title, i).language;
            let known = language.is_known().then(|| language.as_str());
            let base = known.unwrap_or(if self.kind == "AUDIO" { "audio" } else { "subtitles" });
            // NAME is unique in a group (RFC 8216 §4.3.4.1.1).
            let count = names.iter().filter(|name| *name == base).count();
            let name = if count > 0 { format!("{base} {}", count + 1) } else { base.to_owned() };
            let default = i == group.default && self.kind == "AUDIO";
            // Of those that differ in nothing a player could choose by, only one may be chosen by it.
            let first_alike = self.first_alike(group, i);
            let track_name = &self.title.tracks()[i].name;
            let uri = (!(default && self.default_in_variant)).then(|| self.uri(track_name));
            Tag::new("EXT-X-MEDIA")
                .plain("TYPE", self.kind)
                .quoted("GROUP-ID", &group.id)
                .quoted("NAME", &name)
                .quoted_if("LANGUAGE", known)
                .plain("DEFAULT", if default { "YES" } else { "NO" })
                .plain("AUTOSELECT", if default || first_alike { "YES" } else { "NO" })
                .quoted_if("CHANNELS", channels(track(self.title, i)).as_deref())
                .quoted_if("URI", uri.as_deref())
                .write(playlist);
            names.push(base.to_owned());
        }
    }

    fn first_alike(&self, group: &Group, i: usize) -> bool {
        let language = |i: usize| &track(self.title, i).language;
        let alike = |&&other: &&usize| language(other) == language(i);
        let has_default = language(group.default) == language(i);
        if has_default { i == group.default } else { group.members.iter().find(alike) == Some(&i) }
    }

    fn uri(&self, track: &TrackName) -> String {
        self.links.hls_playlist(vec![track.clone()], super::container_of(self.protocol))
    }
}

/// `CHANNELS`: how many, and that there are objects beside them.
fn channels(track: &Track) -> Option<String> {
    let audio = audio(track)?;
    match audio.joc {
        Some(complexity) => Some(format!("{complexity}/JOC")),
        None => (audio.channels > 0).then(|| audio.channels.to_string()),
    }
}
