//! DRM systems: what they need to request a licence for a key.

use crate::{ContentKey, KeyId, Scheme, key::uuid};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// A DRM system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DrmSystem {
    /// Google Widevine.
    Widevine,
    /// Microsoft PlayReady.
    PlayReady,
    /// Apple FairPlay Streaming.
    FairPlay,
    /// Clear Key of Encrypted Media Extensions, which has no licence server: for demonstrations.
    ClearKey,
}

/// System ID of the `pssh` that Encrypted Media Extensions define ("cenc" initialisation data).
const COMMON_ID: [u8; 16] =
    [0x10, 0x77, 0xef, 0xec, 0xc0, 0xb2, 0x4d, 0x02, 0xac, 0xe3, 0x3c, 0x1e, 0x52, 0xe2, 0xfb, 0x4b];

impl DrmSystem {
    const ALL: [Self; 4] = [Self::Widevine, Self::PlayReady, Self::FairPlay, Self::ClearKey];

    /// Returns the name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Widevine => "widevine",
            Self::PlayReady => "playready",
            Self::FairPlay => "fairplay",
            Self::ClearKey => "clearkey",
        }
    }

    /// Returns the system that configuration files call by this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.name() == name)
    }

    /// Returns the ID of the system, as registered by DASH-IF.
    pub const fn id(self) -> [u8; 16] {
        match self {
            Self::Widevine => 0xedef_8ba9_79d6_4ace_a3c8_27dc_d51d_21ed_u128,
            Self::PlayReady => 0x9a04_f079_9840_4286_ab92_e65b_e088_5f95,
            Self::FairPlay => 0x94ce_86fb_07ff_4f43_adb8_93d2_fa96_8ca2,
            Self::ClearKey => 0xe271_9d58_a985_b3c9_781a_b030_af78_d30e,
        }
        .to_be_bytes()
    }

    /// Returns the system with an ID. Clear Key also has that of the common `pssh`.
    pub fn of_id(id: &[u8; 16]) -> Option<Self> {
        if *id == COMMON_ID {
            return Some(Self::ClearKey);
        }
        Self::ALL.into_iter().find(|system| system.id() == *id)
    }

    /// Returns the ID as a UUID in lower case.
    pub fn uuid(self) -> String {
        uuid(&self.id())
    }

    /// Returns the `pssh` box for a key (ISO/IEC 23001-7 §8.1): the one that the source of the key
    /// states, or else one that is made from the KID. `None` for FairPlay, which has none. Clear
    /// Key has the common one, which states only the KID.
    pub fn pssh(self, key: &ContentKey, scheme: Scheme) -> Option<Vec<u8>> {
        if let Some(stated) = key.stated_for(self).and_then(|stated| stated.pssh.clone()) {
            return Some(stated);
        }
        match self {
            Self::Widevine => Some(pssh_box(&self.id(), &[], &widevine_data(key.id(), scheme))),
            Self::PlayReady => Some(pssh_box(&self.id(), &[], &playready_object(key, scheme))),
            Self::FairPlay => None,
            Self::ClearKey => Some(pssh_box(&COMMON_ID, &[key.id()], &[])),
        }
    }
}

/// Returns true if bytes are one `pssh` box of a system.
pub(crate) fn is_pssh_of(bytes: &[u8], system: DrmSystem) -> bool {
    let Some((head, _)) = bytes.split_first_chunk::<28>() else { return false };
    let ([a, b, c, d, kind @ .., _, _, _, _], id) =
        (head.first_chunk::<12>().copied().unwrap_or_default(), head);
    let is_whole = usize::try_from(u32::from_be_bytes([a, b, c, d])).is_ok_and(|size| size == bytes.len());
    let is_of_system = id.last_chunk::<16>().is_some_and(|id| DrmSystem::of_id(id) == Some(system));
    is_whole && kind == *b"pssh" && is_of_system
}

/// Returns the data of a `pssh` box of version 0.
fn pssh_data(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<28>()?;
    let (size, data) = rest.split_first_chunk::<4>()?;
    let is_whole = usize::try_from(u32::from_be_bytes(*size)).is_ok_and(|size| size == data.len());
    (head[8] == 0 && is_whole).then_some(data)
}

/// Returns a `pssh` box: of version 1 if it names keys, else of version 0.
pub(crate) fn pssh_box(system: &[u8; 16], keys: &[KeyId], data: &[u8]) -> Vec<u8> {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
    let kids = if keys.is_empty() { 0 } else { 4 + 16 * keys.len() };
    let mut out = Vec::with_capacity(32 + kids + data.len());
    out.extend_from_slice(&count(32 + kids + data.len()));
    out.extend_from_slice(b"pssh");
    out.extend_from_slice(&[u8::from(!keys.is_empty()), 0, 0, 0]);
    out.extend_from_slice(system);
    if !keys.is_empty() {
        out.extend_from_slice(&count(keys.len()));
        keys.iter().for_each(|key| out.extend_from_slice(key.bytes()));
    }
    out.extend_from_slice(&count(data.len()));
    out.extend_from_slice(data);
    out
}

/// Returns the `WidevinePsshData` of a key: its field 2, `key_ids`, and its field 9,
/// `protection_scheme`, as a four-character code.
fn widevine_data(id: KeyId, scheme: Scheme) -> Vec<u8> {
    let mut data = vec![0x12, 16];
    data.extend_from_slice(id.bytes());
    data.push(0x48);
    let mut rest = u32::from_be_bytes(if scheme == Scheme::Cbcs { *b"cbcs" } else { *b"cenc" });
    while rest > 0x7f {
        data.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    data.push(rest.to_le_bytes()[0]);
    data
}

/// Returns the PlayReady Object of a key ([MS-PRHEADER] of PlayReady). If the source of the key
/// states none, its only record is a header: of version 4.0.0.0 for AES-CTR, which all clients
/// read, or 4.3.0.0 for AES-CBC.
pub fn playready_object(key: &ContentKey, scheme: Scheme) -> Vec<u8> {
    let stated = key.stated_for(DrmSystem::PlayReady).and_then(|stated| pssh_data(stated.pssh.as_deref()?));
    if let Some(stated) = stated {
        return stated.to_vec();
    }
    let kid = STANDARD.encode(key.id().guid());
    let (version, data) = if scheme == Scheme::Cbcs {
        let kid = format!("<KID ALGID=\"AESCBC\" VALUE=\"{kid}\"></KID>");
        ("4.3.0.0", format!("<PROTECTINFO><KIDS>{kid}</KIDS></PROTECTINFO>"))
    } else {
        let checksum = STANDARD.encode(key.guid_checksum());
        let info = "<PROTECTINFO><KEYLEN>16</KEYLEN><ALGID>AESCTR</ALGID></PROTECTINFO>";
        ("4.0.0.0", format!("{info}<KID>{kid}</KID><CHECKSUM>{checksum}</CHECKSUM>"))
    };
    let header = format!(
        "<WRMHEADER xmlns=\"http://schemas.microsoft.com/DRM/2007/03/PlayReadyHeader\" \
         version=\"{version}\"><DATA>{data}</DATA></WRMHEADER>"
    );
    let text: Vec<u8> = header.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut object = Vec::with_capacity(text.len() + 10);
    let length = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_le_bytes();
    object.extend_from_slice(&u32::try_from(text.len() + 10).unwrap_or(u32::MAX).to_le_bytes());
    object.extend_from_slice(&1_u16.to_le_bytes());
    object.extend_from_slice(&1_u16.to_le_bytes());
    object.extend_from_slice(&length(text.len()));
    object.extend_from_slice(&text);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn key() -> ContentKey {
        let id = "10000000-1000-1000-1000-100000000001".parse().unwrap();
        ContentKey::new(id, Key::from_hex("3a2a1b68dd2bd9b2eeb25e84c4776668").unwrap(), None)
    }

    #[test]
    fn ids_are_those_that_dash_if_lists() {
        for (system, id) in [
            (DrmSystem::Widevine, "edef8ba9-79d6-4ace-a3c8-27dcd51d21ed"),
            (DrmSystem::PlayReady, "9a04f079-9840-4286-ab92-e65be0885f95"),
            (DrmSystem::FairPlay, "94ce86fb-07ff-4f43-adb8-93d2fa968ca2"),
            (DrmSystem::ClearKey, "e2719d58-a985-b3c9-781a-b030af78d30e"),
        ] {
            assert_eq!(system.uuid(), id);
            assert_eq!(DrmSystem::of_name(system.name()), Some(system));
        }
    }

    #[test]
    fn widevine_data_names_key_and_scheme() {
        let id: KeyId = "00112233445566778899aabbccddeeff".parse().unwrap();
        let mut expected = vec![0x12, 0x10];
        expected.extend_from_slice(id.bytes());
        // 0x63656e63 in groups of 7 bits, the lowest first.
        let scheme = [0xe3, 0xdc, 0x95, 0x9b, 0x06];
        assert_eq!(widevine_data(id, Scheme::Cenc), [&expected[..], &[0x48], &scheme].concat());
    }

    /// The key ID of PlayReady is in the byte order of a GUID, and its checksum is made of that.
    #[test]
    fn playready_headers_have_guids() {
        let object = playready_object(&key(), Scheme::Cenc);
        let le = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        assert_eq!((le(&object), le(&object[4..]), le(&object[6..])), (object.len(), 1, 1));
        assert_eq!(le(&object[8..]), object.len() - 10);
        let units: Vec<u16> =
            object[10..].as_chunks::<2>().0.iter().map(|&unit| u16::from_le_bytes(unit)).collect();
        let text = String::from_utf16(&units).unwrap();
        assert!(text.contains("<KID>AAAAEAAQABAQABAAAAAAAQ==</KID>"), "{text}");
        assert!(text.contains("version=\"4.0.0.0\"") && text.contains("AESCTR"), "{text}");
        let cbcs = playready_object(&key(), Scheme::Cbcs);
        assert_ne!(cbcs, object);
    }

    #[test]
    fn the_common_box_names_the_key() {
        let pssh = DrmSystem::ClearKey.pssh(&key(), Scheme::Cenc).unwrap();
        assert_eq!((pssh.len(), pssh[8], &pssh[12..28]), (52, 1, &COMMON_ID[..]));
        assert_eq!(pssh[32..48], *key().id().bytes());
        assert_eq!(DrmSystem::FairPlay.pssh(&key(), Scheme::Cbcs), None);
    }
}
