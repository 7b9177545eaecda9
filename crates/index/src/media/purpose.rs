//! The purposes of text and audio, by which players choose and menus tell tracks apart.

use crate::media::TrackKind;
use latemux_isobmff::boxes::{kind::Kind, stsd::SampleEntry};

/// The purpose of text or audio. The default is that of plain subtitles and of the main audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Purpose {
    /// Text that is shown even if the viewer chooses no subtitles: signs and foreign speech.
    pub forced: bool,
    /// Text that is preferred to other text.
    pub default: bool,
    /// The audience or the author it has.
    pub role: Role,
}

/// The role of text or audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Role {
    /// Subtitles, or the main audio.
    #[default]
    Plain,
    /// Text for the deaf: states sounds too.
    Captions,
    /// Audio for the blind, which describes the picture.
    Description,
    /// Remarks of others about the title.
    Commentary,
    /// Audio that is spoken by others than in the original.
    Dub,
}

/// Roles of MPEG-DASH (ISO/IEC 23009-1 §5.8.5.5).
const DASH_ROLES: &str = "urn:mpeg:dash:role:2011";
/// Kinds of tracks of HTML.
const HTML_KINDS: &str = "about:html-kind";
/// Roles of the scheme of MPEG-DASH that change nothing.
const WITHOUT_EFFECT: [&str; 10] = [
    "main",
    "alternate",
    "supplementary",
    "subtitle",
    "sign",
    "metadata",
    "enhanced-audio-intelligibility",
    "emergency",
    "karaoke",
    "easyreader",
];

const ROLES: [Role; 5] = [Role::Plain, Role::Captions, Role::Description, Role::Commentary, Role::Dub];

impl Purpose {
    /// Returns the purpose that a track states in its roles (`kind`), and 3GPP text in its sample
    /// entry: it may be forced as a whole (3GPP TS 26.245 §5.16 and the `displayFlags` of
    /// QuickTime).
    pub(crate) fn of_track(kind: TrackKind, entry: &SampleEntry, kinds: &[Kind]) -> Self {
        let flags = entry.raw.get(16..20).and_then(|flags| flags.first_chunk::<4>());
        let all = flags.is_some_and(|&flags| u32::from_be_bytes(flags) & 0x8000_0000 != 0);
        let mut purpose = Self { forced: entry.format == b"tx3g" && all, ..Self::default() };
        for stated in kinds {
            match (&*stated.scheme, &*stated.value) {
                (DASH_ROLES, role) => {
                    purpose.add_role(kind, role);
                }
                (HTML_KINDS, "main-desc") => purpose.add(kind, Role::Description),
                (HTML_KINDS, "captions") => purpose.add(kind, Role::Captions),
                (HTML_KINDS, "commentary") => purpose.add(kind, Role::Commentary),
                _ => {}
            }
        }
        purpose
    }

    /// Adds a role of the scheme `urn:mpeg:dash:role:2011`. Returns false if it is none.
    pub fn add_role(&mut self, kind: TrackKind, role: &str) -> bool {
        match role {
            "forced-subtitle" | "forced_subtitle" => self.forced |= kind == TrackKind::Text,
            "caption" => self.add(kind, Role::Captions),
            "description" => self.add(kind, Role::Description),
            "commentary" => self.add(kind, Role::Commentary),
            "dub" => self.add(kind, Role::Dub),
            other => return WITHOUT_EFFECT.contains(&other),
        }
        true
    }

    /// Adds a purpose as Apple's characteristics of media name it, without
    /// `public.accessibility.`. Returns false if it is none.
    pub fn add_characteristic(&mut self, kind: TrackKind, name: &str) -> bool {
        match name {
            "describes-video" => self.add(kind, Role::Description),
            "transcribes-spoken-dialog" | "describes-music-and-sound" => self.add(kind, Role::Captions),
            _ => return false,
        }
        true
    }

    /// Adds a role, unless tracks of the kind cannot have it, or the track has one already.
    fn add(&mut self, kind: TrackKind, role: Role) {
        let is_possible = match role {
            Role::Plain => false,
            Role::Captions => kind == TrackKind::Text,
            Role::Description | Role::Dub => kind == TrackKind::Audio,
            Role::Commentary => kind != TrackKind::Video,
        };
        if is_possible && self.role == Role::Plain {
            self.role = role;
        }
    }

    /// Returns the place of a track among others of its language: preferred ones first, then plain
    /// ones, those for the deaf and the blind, forced ones, and commentaries.
    pub const fn rank(self) -> u8 {
        match self {
            Self { default: true, .. } => 0,
            Self { role: Role::Commentary, .. } => 4,
            Self { forced: true, .. } => 3,
            Self { role: Role::Captions | Role::Description, .. } => 2,
            Self { role: Role::Plain | Role::Dub, .. } => 1,
        }
    }

    /// Returns the purpose as a number for [`Self::of_bits`].
    pub(crate) fn bits(self) -> u8 {
        let role = ROLES.iter().position(|&role| role == self.role).unwrap_or_default();
        u8::try_from(role).unwrap_or_default() << 2 | u8::from(self.default) << 1 | u8::from(self.forced)
    }

    /// Returns the purpose that [`Self::bits`] wrote. `None` for other numbers.
    pub(crate) fn of_bits(bits: u8) -> Option<Self> {
        let role = *ROLES.get(usize::from(bits >> 2))?;
        Some(Self { forced: bits & 1 != 0, default: bits & 2 != 0, role })
    }
}

#[cfg(test)]
mod tests {
    use super::{Purpose, ROLES, Role};
    use crate::media::TrackKind;

    #[test]
    fn purposes_survive_their_numbers() {
        for role in ROLES {
            for (forced, default) in [(false, false), (true, false), (false, true), (true, true)] {
                let purpose = Purpose { forced, default, role };
                assert_eq!(Purpose::of_bits(purpose.bits()), Some(purpose));
            }
        }
        assert_eq!(Purpose::of_bits(0xFF), None);
    }

    #[test]
    fn roles_apply_to_the_kinds_that_can_have_them() {
        let of = |kind, roles: &[&str]| {
            let mut purpose = Purpose::default();
            assert!(roles.iter().all(|role| purpose.add_role(kind, role)), "{roles:?}");
            (purpose.forced, purpose.role)
        };
        assert_eq!(of(TrackKind::Audio, &["caption", "description"]), (false, Role::Description));
        assert_eq!(of(TrackKind::Text, &["description", "caption"]), (false, Role::Captions));
        assert_eq!(of(TrackKind::Text, &["main", "forced-subtitle"]), (true, Role::Plain));
        assert_eq!(of(TrackKind::Audio, &["commentary", "dub"]), (false, Role::Commentary));
        assert_eq!(of(TrackKind::Video, &["commentary", "forced-subtitle"]), (false, Role::Plain));
        assert!(!Purpose::default().add_role(TrackKind::Text, "captions"));
        assert!(!Purpose::default().add_characteristic(TrackKind::Text, "easy-to-read"));
    }
}
