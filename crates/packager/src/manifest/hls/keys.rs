//! The keys that playlists name (RFC 8216 §4.3.2.4).

use super::attributes::PlaylistTag;
use crate::{
    PackError,
    address::Links,
    carry::Protocol,
    clear_lead::ClearLead,
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
/// All segments behind the clear lead have one key. If they are encrypted as a whole, and no IV was
/// given with the key, each segment has an IV of its own, and so a tag.
#[derive(Debug)]
pub(super) struct SegmentKeys<'a> {
    /// The encryption of the segments. `None` if they are clear.
    cover: Option<(Cover<'a>, KeyUris)>,
    lead: ClearLead,
    /// True if there is a discontinuity behind the lead. All playlists of a title have it there.
    has_border: bool,
    selected: &'a Selected<'a>,
    protocol: Protocol,
    /// Indexes into the selected `Title::tracks`, video first.
    tracks: Vec<usize>,
    minimum: Option<Duration>,
}

impl<'a> SegmentKeys<'a> {
    /// Returns the keys of a playlist of tracks packed together. `None` for a title without
    /// protection. Fails with [`PackError::CannotProtect`] if the protocol has no scheme.
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
        let cover = protection.cover(protocol, &names)?;
        let mut tracks = tracks.to_vec();
        tracks.sort_by_key(|&i| (title.track(&title.tracks()[i]).kind, i));
        let cover = cover.map(|cover| (cover, KeyUris::of(protection, links, cover.key.id())));
        let lead = protection.lead_in(protocol);
        // Encryption of whole segments changes nothing in the decrypted ones, so that players need
        // no discontinuity at the end of the lead.
        let has_border = protection.schemes().of(protocol).is_some_and(Scheme::is_of_samples);
        Ok(Some(Self { cover, lead, has_border, selected, protocol, tracks, minimum }))
    }

    /// Returns true if segments have a key.
    pub(super) fn are_some(&self) -> bool {
        self.cover.is_some()
    }

    /// Returns true if a segment (0-based) is part of a lead that has its own init segment.
    pub(super) fn has_lead_init(&self, number: u32) -> bool {
        self.have_sample_entries() && self.is_in_lead(number)
    }

    /// Returns true if the sample entry states the encryption.
    fn have_sample_entries(&self) -> bool {
        self.cover.as_ref().is_some_and(|(cover, _)| cover.scheme.is_common_encryption())
    }

    /// Returns true if a segment (0-based) is part of the clear lead.
    fn is_in_lead(&self, number: u32) -> bool {
        let packed = PackedTracks::new(self.selected.title(), &self.tracks);
        let packed = packed.map(|packed| packed.joined(self.minimum));
        packed.is_some_and(|packed| self.lead.holds_packed(self.selected, &packed, number))
    }

    /// Returns a writer of the tags before each segment. `init` is the URL of the init segment of
    /// segments behind the lead, if they have one.
    pub(super) fn writer<'k>(&'k self, init: Option<&'k str>) -> KeyWriter<'k> {
        KeyWriter { keys: self, init, place: Place::Start, is_written: false }
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
    init: Option<&'a str>,
    place: Place,
    is_written: bool,
}

/// The place of the last segment written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// There is none yet.
    Start,
    InLead,
    BehindLead,
}

impl KeyWriter<'_> {
    /// Writes the tags before samples of a segment (0-based), unless those before it apply.
    pub(super) fn write(&mut self, number: u32, choice: SampleChoice, playlist: &mut String) {
        // No segment behind one that is not part of the lead is part of it.
        if self.place != Place::BehindLead && self.keys.is_in_lead(number) {
            if self.place == Place::Start && self.keys.are_some() {
                PlaylistTag::new("EXT-X-KEY").plain("METHOD", "NONE").write(playlist);
            }
            self.place = Place::InLead;
            return;
        }
        if std::mem::replace(&mut self.place, Place::BehindLead) == Place::InLead {
            self.write_border(playlist);
        }
        self.write_key(number, choice, playlist);
    }

    /// Writes the tags between the lead and the first segment behind it, but those of keys.
    fn write_border(&self, playlist: &mut String) {
        if self.keys.has_border {
            playlist.push_str("#EXT-X-DISCONTINUITY\n");
        }
        if let Some(init) = self.init
            && self.keys.have_sample_entries()
        {
            PlaylistTag::new("EXT-X-MAP").quoted("URI", init).write(playlist);
        }
    }

    fn write_key(&mut self, number: u32, choice: SampleChoice, playlist: &mut String) {
        let Some((cover, uris)) = &self.keys.cover else { return };
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
