//! Audio and subtitle groups: the renditions that a player may choose from.

use super::{attributes::PlaylistTag, codec_name};
use crate::{
    PackError,
    address::Links,
    carry::Protocol,
    manifest::{audio_of, check_size, track},
};
use latemux_index::{
    Title, Track,
    media::{Captions, Purpose, Role},
    title::TrackName,
};
use latemux_text::language::shortest;

/// Renditions that a variant may be played with: of one codec and channel layout, as HLS demands.
#[derive(Debug)]
pub(super) struct Group {
    /// `GROUP-ID`.
    pub(super) id: String,
    /// Tracks, as indexes into [`Title::tracks`].
    pub(super) members: Vec<usize>,
    /// The track that plays if the user chooses none.
    pub(super) default: usize,
}

/// Groups tracks of one codec and channel layout. The group of the title's default comes first. In
/// every group the default is of the same language, if possible.
pub(super) fn groups(title: &Title, tracks: &[usize], protocol: Protocol, id: &str) -> Vec<Group> {
    let key = |i: usize| {
        let track = track(title, i);
        (codec_name(title, track, protocol), audio_of(track).map(|audio| (audio.channels, audio.joc)))
    };
    let Some(&main) = tracks.first() else { return Vec::new() };
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
            let default = default_of(title, &members, main)?;
            let id = if several { format!("{id}-{number}") } else { id.to_owned() };
            Some(Group { id, members, default })
        })
        .collect()
}

/// Returns `main` if it is in the list, else the first track in its language, else the first track.
fn default_of(title: &Title, tracks: &[usize], main: usize) -> Option<usize> {
    let language = |i: usize| &track(title, i).language;
    let same = || tracks.iter().copied().find(|&i| language(i) == language(main));
    tracks.contains(&main).then_some(main).or_else(same).or(tracks.first().copied())
}

/// Writes the `EXT-X-MEDIA` tags of groups.
pub(super) struct Renditions<'a> {
    pub(super) title: &'a Title,
    pub(super) links: &'a Links<'a>,
    /// `AUDIO` or `SUBTITLES`.
    pub(super) kind: &'static str,
    pub(super) protocol: Protocol,
}

impl Renditions<'_> {
    /// Writes the tags of a group. Fails with [`PackError::ManifestTooLarge`].
    pub(super) fn write(&self, group: &Group, playlist: &mut String) -> Result<(), PackError> {
        let mut names: Vec<String> = Vec::new();
        for &i in &group.members {
            let Track { language, purpose, .. } = track(self.title, i);
            let known = language.is_known().then(|| shortest(language.as_str()));
            let base = &self.base_name(track(self.title, i));
            // NAME is unique in a group (RFC 8216 §4.3.4.1.1).
            let count = names.iter().filter(|name| name == &base).count();
            let name = if count > 0 { format!("{base} {}", count + 1) } else { base.clone() };
            let default = i == group.default && (self.kind == "AUDIO" || purpose.default);
            // Of renditions that a player cannot tell apart, only one may be auto-selected.
            let is_selectable = self.is_selectable(group, i);
            let track_name = &self.title.tracks()[i].name;
            PlaylistTag::new("EXT-X-MEDIA")
                .plain("TYPE", self.kind)
                .quoted("GROUP-ID", &group.id)
                .quoted("NAME", &name)
                .quoted_if("LANGUAGE", known.as_deref())
                .plain("DEFAULT", if default { "YES" } else { "NO" })
                .plain("AUTOSELECT", if default || purpose.forced || is_selectable { "YES" } else { "NO" })
                .plain_if("FORCED", purpose.forced.then_some("YES"))
                .quoted_if("CHARACTERISTICS", characteristics(*purpose))
                .quoted_if("CHANNELS", channels(track(self.title, i)).as_deref())
                .quoted("URI", &self.uri(track_name))
                .write(playlist);
            names.push(base.clone());
            check_size(playlist)?;
        }
        Ok(())
    }

    /// Returns the name of a track for viewers, which others may have too.
    fn base_name(&self, track: &Track) -> String {
        // A quoted string cannot hold quotes.
        let label = track.label.as_ref().map(|label| label.replace('"', "'"));
        label.unwrap_or_else(|| {
            let without = if self.kind == "AUDIO" { "audio" } else { "subtitles" };
            let language = if track.language.is_known() { track.language.as_str() } else { without };
            format!("{language}{}", purpose_name(track.purpose))
        })
    }

    fn is_selectable(&self, group: &Group, i: usize) -> bool {
        // Players tell renditions apart by language and purpose.
        let key = |i: usize| (&track(self.title, i).language, track(self.title, i).purpose);
        let alike = |&&other: &&usize| key(other) == key(i);
        if self.kind == "AUDIO" && key(group.default) == key(i) {
            return i == group.default;
        }
        group.members.iter().find(alike) == Some(&i)
    }

    fn uri(&self, track: &TrackName) -> String {
        self.links.hls_playlist(vec![track.clone()], super::container_of(self.protocol))
    }
}

/// `CLOSED-CAPTIONS` of variants, quoted.
pub(super) const CAPTIONS_GROUP: &str = "\"cc\"";

/// Writes the `EXT-X-MEDIA` tags of closed captions, which have no playlist of their own.
pub(super) fn write_captions(captions: &[Captions], playlist: &mut String) {
    for (place, Captions { channel, language }) in captions.iter().enumerate() {
        // NAME is unique in a group.
        let before = captions.iter().take(place).filter(|other| other.language == *language).count();
        let name = if before > 0 { format!("{language} {}", before + 1) } else { language.to_string() };
        PlaylistTag::new("EXT-X-MEDIA")
            .plain("TYPE", "CLOSED-CAPTIONS")
            .plain("GROUP-ID", CAPTIONS_GROUP)
            .quoted("NAME", &name)
            .quoted("LANGUAGE", &shortest(language.as_str()))
            .plain("DEFAULT", "NO")
            .plain("AUTOSELECT", if before == 0 { "YES" } else { "NO" })
            .quoted("INSTREAM-ID", &channel.to_string())
            .write(playlist);
    }
}

/// Returns `CHARACTERISTICS` (Apple's HLS authoring specification).
fn characteristics(purpose: Purpose) -> Option<&'static str> {
    match purpose.role {
        Role::Captions => Some(
            "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound",
        ),
        Role::Description => Some("public.accessibility.describes-video"),
        Role::Plain | Role::Commentary | Role::Dub => None,
    }
}

/// Returns the end of a NAME that tells tracks of one language apart.
fn purpose_name(purpose: Purpose) -> &'static str {
    match (purpose.forced, purpose.role) {
        (true, _) => " (forced)",
        (false, Role::Captions) => " (for the deaf)",
        (false, Role::Description) => " (described)",
        (false, Role::Commentary) => " (commentary)",
        (false, Role::Dub) => " (dubbed)",
        (false, Role::Plain) => "",
    }
}

/// Returns `CHANNELS`: the number of channels, or the complexity of the objects beside them.
fn channels(track: &Track) -> Option<String> {
    let audio = audio_of(track)?;
    match audio.joc {
        Some(complexity) => Some(format!("{complexity}/JOC")),
        None => (audio.channels > 0).then(|| audio.channels.to_string()),
    }
}
