//! The keys that playlists name (RFC 8216 §4.3.2.4).

use super::attributes::PlaylistTag;
use crate::{
    PackError,
    address::Links,
    carry::Protocol,
    digest::{CmafText, Fmp4Text, SampleChoice, TsText, cut_text, digest_of, packed_text},
    protection::{Cover, KeyUri, Protection},
    segment::PackedTracks,
    selection::Selected,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use latemux_index::title::{Segment, TrackName};
use latemux_protect::{DrmSystem, KeyId, Scheme, systems::playready_object};
use std::{collections::BTreeSet, fmt::Write as _, time::Duration};

/// The keys of the segments of one playlist.
///
/// All segments have one key. If they are encrypted as a whole, and no IV was given with the key,
/// each segment has an IV of its own, and so a tag.
#[derive(Debug)]
pub(super) struct SegmentKeys<'a> {
    cover: Cover<'a>,
    uris: KeyUris,
    selected: &'a Selected<'a>,
    protocol: Protocol,
    /// Indexes into the selected `Title::tracks`, video first.
    tracks: Vec<usize>,
    minimum: Option<Duration>,
}

impl<'a> SegmentKeys<'a> {
    /// Returns the keys of a playlist of tracks packed together. `None` if they are clear. Fails
    /// with [`PackError::CannotProtect`] if the protocol has no scheme.
    pub(super) fn of(
        protection: Option<&'a Protection>,
        selected: &'a Selected<'a>,
        links: &Links<'_>,
        protocol: Protocol,
        tracks: &[usize],
        minimum: Option<Duration>,
    ) -> Result<Option<Self>, PackError> {
        let Some(protection) = protection else { return Ok(None) };
        let title = selected.title();
        let names: Vec<TrackName> = tracks.iter().map(|&i| title.tracks()[i].name.clone()).collect();
        let Some(cover) = protection.cover(protocol, &names)? else { return Ok(None) };
        let mut tracks = tracks.to_vec();
        tracks.sort_by_key(|&i| (title.track(&title.tracks()[i]).kind, i));
        let uris = KeyUris::of(protection, links, cover.key.id());
        Ok(Some(Self { cover, uris, selected, protocol, tracks, minimum }))
    }

    /// Returns a writer of the tags before each segment.
    pub(super) fn writer(&self) -> KeyWriter<'_> {
        KeyWriter { keys: self, is_written: false }
    }

    /// Returns the digest of the clear form of samples of a segment (0-based), by the texts of the
    /// planner.
    fn clear_digest(&self, number: u32, choice: SampleChoice) -> u128 {
        let title = self.selected.title();
        let cut = if choice == SampleChoice::All { self.cut_text(number) } else { String::new() };
        let names = || self.tracks.iter().map(|&i| &title.tracks()[i].name);
        let number = number + 1;
        match (self.protocol, self.tracks.as_slice()) {
            (Protocol::HlsCmaf, [only]) => {
                let name = &title.tracks()[*only].name;
                digest_of(title, format_args!("{}{cut}", CmafText(choice, name, number)))
            }
            (Protocol::HlsCmaf, _) => {
                digest_of(title, format_args!("{}", Fmp4Text(&packed_text(names(), number, &cut))))
            }
            _ => digest_of(title, format_args!("{}", TsText(choice, &packed_text(names(), number, &cut)))),
        }
    }

    fn cut_text(&self, number: u32) -> String {
        let packed = PackedTracks::new(self.selected.title(), &self.tracks);
        let packed = packed.map(|packed| packed.joined(self.minimum));
        let shares: Vec<Option<Segment>> =
            packed.iter().flat_map(|packed| packed.shares(number)).map(|(_, share)| share).collect();
        cut_text(self.selected, &self.tracks, number, shares.iter().map(Option::as_ref))
    }
}

/// Writes the tags of the segments of a playlist.
pub(super) struct KeyWriter<'a> {
    keys: &'a SegmentKeys<'a>,
    is_written: bool,
}

impl KeyWriter<'_> {
    /// Writes the tag before samples of a segment (0-based), unless the one before it applies.
    pub(super) fn write(&mut self, number: u32, choice: SampleChoice, playlist: &mut String) {
        let SegmentKeys { cover, uris, .. } = self.keys;
        if cover.scheme.is_of_samples() {
            if !std::mem::replace(&mut self.is_written, true) {
                write_sample_keys("EXT-X-KEY", cover, uris, playlist);
            }
            return;
        }
        let given = cover.key.iv();
        if given.is_some() && std::mem::replace(&mut self.is_written, true) {
            return;
        }
        let iv = given.unwrap_or_else(|| cover.key.iv_of(self.keys.clear_digest(number, choice)));
        PlaylistTag::new("EXT-X-KEY")
            .plain("METHOD", "AES-128")
            .quoted("URI", &uris.plain)
            .plain("IV", format_args!("0x{:032x}", u128::from_be_bytes(iv)))
            .write(playlist);
    }
}

/// Writes the keys of tracks into a multivariant playlist, so that players can get them early.
/// Fails with [`PackError::CannotProtect`] if the protocol has no scheme.
pub(super) fn write_session_keys<'a>(
    protection: &Protection,
    protocol: Protocol,
    tracks: impl Iterator<Item = &'a TrackName>,
    links: &Links<'_>,
    playlist: &mut String,
) -> Result<(), PackError> {
    let mut written = BTreeSet::new();
    for track in tracks {
        let Some(cover) = protection.cover(protocol, std::slice::from_ref(track))? else { continue };
        let id = cover.key.id();
        let is_new = written.insert(id);
        if is_new && cover.scheme.is_of_samples() {
            let uris = KeyUris::of(protection, links, id);
            write_sample_keys("EXT-X-SESSION-KEY", &cover, &uris, playlist);
        } else if is_new {
            PlaylistTag::new("EXT-X-SESSION-KEY")
                .plain("METHOD", "AES-128")
                .quoted("URI", &KeyUris::of(protection, links, id).plain)
                .write(playlist);
        }
    }
    Ok(())
}

/// Writes a tag for each DRM system by which players get the key of encrypted samples.
fn write_sample_keys(name: &str, cover: &Cover<'_>, uris: &KeyUris, playlist: &mut String) {
    let method = if cover.scheme == Scheme::Cenc { "SAMPLE-AES-CTR" } else { "SAMPLE-AES" };
    let tag = |uri: &str| PlaylistTag::new(name).plain("METHOD", method).quoted("URI", uri);
    let id = cover.key.id();
    // The others know no encrypted samples in transport streams.
    let in_ts = |system: &&DrmSystem| matches!(system, DrmSystem::FairPlay | DrmSystem::ClearKey);
    for system in cover.systems.iter().filter(|s| cover.scheme != Scheme::SampleAes || in_ts(s)) {
        let stated = cover.key.stated_for(*system).and_then(|stated| stated.hls.as_deref());
        // What the source of the key states is used if it is for this method.
        if let Some(stated) = stated.filter(|tag| tag.split(',').next() == Some(&format!("METHOD={method}")))
        {
            // Writing to a string cannot fail.
            let _ = writeln!(playlist, "#{name}:{stated}");
            continue;
        }
        let tag = match system {
            DrmSystem::Widevine => {
                let pssh = system.pssh(cover.key, cover.scheme).unwrap_or_default();
                tag(&format!("data:text/plain;base64,{}", STANDARD.encode(pssh)))
                    .plain("KEYID", format_args!("0x{id}"))
                    .quoted("KEYFORMAT", &format!("urn:uuid:{}", system.uuid()))
            }
            DrmSystem::PlayReady => {
                let object = playready_object(cover.key, cover.scheme);
                tag(&format!("data:text/plain;charset=UTF-16;base64,{}", STANDARD.encode(object)))
                    .quoted("KEYFORMAT", "com.microsoft.playready")
            }
            // Its licence brings the IV.
            DrmSystem::FairPlay => tag(&uris.fairplay).quoted("KEYFORMAT", "com.apple.streamingkeydelivery"),
            DrmSystem::ClearKey if cover.scheme != Scheme::Cenc => {
                let iv = u128::from_be_bytes(cover.key.constant_iv());
                tag(&uris.plain).plain("IV", format_args!("0x{iv:032x}")).quoted("KEYFORMAT", "identity")
            }
            DrmSystem::ClearKey => tag(&uris.plain).quoted("KEYFORMAT", "identity"),
        };
        tag.quoted("KEYFORMATVERSIONS", "1").write(playlist);
    }
}

/// The URIs of one key.
#[derive(Debug)]
struct KeyUris {
    /// The URL of the key itself.
    plain: String,
    fairplay: String,
}

impl KeyUris {
    fn of(protection: &Protection, links: &Links<'_>, id: KeyId) -> Self {
        let plain = match protection.uri() {
            KeyUri::Own => links.key(id),
            KeyUri::Template(template) => template.replace("{kid}", &id.to_string()),
        };
        Self { plain, fairplay: protection.fairplay_uri(id) }
    }
}
