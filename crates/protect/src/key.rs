//! Content keys and their IDs.

use crate::DrmSystem;
use aes::{
    Aes128Enc,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use std::{
    fmt::{self, Write as _},
    str::FromStr,
};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// ID of a key (KID), in the order in which its hexadecimal digits are written. Never 0, which
/// stands for media that is not encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// Returns the ID that consists of these bytes, or `None` if all of them are 0.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Returns the ID that consists of 16 bytes of a digest. If all of them are 0, another ID takes
    /// its place.
    pub fn of_digest(bytes: [u8; 16]) -> Self {
        Self::new(bytes).unwrap_or(Self([1; 16]))
    }

    /// Returns the 16 bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the ID in the byte order of a GUID: its first three fields are little-endian.
    pub fn guid(&self) -> [u8; 16] {
        const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        ORDER.map(|at| self.0[at])
    }

    /// Returns the ID as a UUID in lower case (RFC 9562 §4).
    pub fn uuid(&self) -> String {
        uuid(&self.0)
    }
}

/// Returns 16 bytes as a UUID in lower case (RFC 9562 §4).
pub fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl fmt::Display for KeyId {
    /// Writes 32 hexadecimal digits in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = &'static str;

    /// Parses 32 hexadecimal digits, or a UUID (RFC 9562 §4).
    fn from_str(text: &str) -> Result<Self, &'static str> {
        const PROBLEM: &str = "a KID has 32 hexadecimal digits, and may be written as a UUID";
        let bytes = text.as_bytes();
        let is_uuid = bytes.len() == 36 && [8, 13, 18, 23].iter().all(|&at| bytes.get(at) == Some(&b'-'));
        let plain = if is_uuid { text.replace('-', "") } else { text.to_owned() };
        let bytes = hex(&plain).ok_or(PROBLEM)?;
        Self::new(*bytes).ok_or("a KID of 0 stands for media that is not encrypted")
    }
}

/// The 16 bytes of a key. They are zeroed on drop and never shown.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; 16]);

impl Key {
    /// Returns the key that consists of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses 32 hexadecimal digits.
    ///
    /// # Errors
    /// Returns a sentence for the operator, which does not repeat the text.
    pub fn from_hex(text: &str) -> Result<Self, &'static str> {
        hex(text).map(|bytes| Self(*bytes)).ok_or("a key has 32 hexadecimal digits")
    }

    /// Returns the bytes. Only responses that deliver the key may hold them.
    pub const fn expose(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// What the source of a key states for a DRM system, in place of what would be made from the ID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Signalling {
    /// The DRM system.
    pub system: DrmSystem,
    /// The `pssh` box.
    pub pssh: Option<Vec<u8>>,
    /// The attributes of `EXT-X-KEY`, beginning with `METHOD`.
    pub hls: Option<String>,
}

/// A key with its ID, and with the IV that was given with it, if any.
pub struct ContentKey {
    id: KeyId,
    key: Key,
    iv: Option<[u8; 16]>,
    signalling: Vec<Signalling>,
    cipher: Aes128Enc,
}

impl ContentKey {
    /// Makes a content key.
    pub fn new(id: KeyId, key: Key, iv: Option<[u8; 16]>) -> Self {
        let cipher = Aes128Enc::new(&(*key.expose()).into());
        Self { id, key, iv, signalling: Vec::new(), cipher }
    }

    /// Returns the same key with an IV.
    #[must_use]
    pub fn with_iv(&self, iv: [u8; 16]) -> Self {
        let Self { id, key, signalling, .. } = self;
        Self::new(*id, key.clone(), Some(iv)).with_signalling(signalling.clone())
    }

    /// Adds what the source of the key states for DRM systems.
    #[must_use]
    pub fn with_signalling(self, signalling: Vec<Signalling>) -> Self {
        Self { signalling, ..self }
    }

    /// Returns what the source of the key states for DRM systems.
    pub fn signalling(&self) -> &[Signalling] {
        &self.signalling
    }

    /// Returns what the source of the key states for a DRM system.
    pub fn stated_for(&self, system: DrmSystem) -> Option<&Signalling> {
        self.signalling.iter().find(|stated| stated.system == system)
    }

    /// Returns the ID of the key.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Returns the key.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the IV that was given with the key.
    pub const fn iv(&self) -> Option<[u8; 16]> {
        self.iv
    }

    /// Returns the first 8 bytes of the encrypted KID. They tell keys apart and do not disclose
    /// them.
    pub fn checksum(&self) -> [u8; 8] {
        let encrypted = self.encrypt_block(self.id.0);
        std::array::from_fn(|i| encrypted[i])
    }

    /// Returns the IV of a segment whose clear bytes have this digest. If no IV was given with the
    /// key, it is the encrypted digest. Under this key, no other digest then has the same IV, and
    /// nobody without the key can predict it.
    pub fn iv_of(&self, digest: u128) -> [u8; 16] {
        // A block cipher maps no two blocks to the same one.
        self.iv.unwrap_or_else(|| self.encrypt_block(digest.to_le_bytes()))
    }

    /// Returns the IVs of the samples of an object in `cenc` and PIFF.
    pub fn sample_ivs(&self, fingerprint: u128) -> SampleIvs {
        SampleIvs(u128::from_be_bytes(self.encrypt_block(fingerprint.to_le_bytes())))
    }

    /// Returns the IV of all samples in `cbcs`: the one given with the key, or else the key's ID.
    pub fn constant_iv(&self) -> [u8; 16] {
        self.iv.unwrap_or(self.id.0)
    }

    /// Returns the checksum that PlayReady headers hold: the first 8 bytes of the encrypted ID, in
    /// the byte order of a GUID.
    pub fn guid_checksum(&self) -> [u8; 8] {
        let encrypted = self.encrypt_block(self.id.guid());
        std::array::from_fn(|i| encrypted[i])
    }

    pub(crate) fn cipher(&self) -> &Aes128Enc {
        &self.cipher
    }

    fn encrypt_block(&self, block: [u8; 16]) -> [u8; 16] {
        let mut block = block.into();
        self.cipher.encrypt_block(&mut block);
        block.into()
    }
}

/// The IVs of an object's samples under one key, derived from a pseudo-random block of the object.
#[derive(Debug, Clone, Copy)]
pub struct SampleIvs(u128);

impl SampleIvs {
    /// Returns the IV of a sample in `cenc`: the first counter of its keystream.
    ///
    /// The sample's offset in the object is added to the lower half of the object's block. A sample
    /// uses no more counters than it has bytes. Samples that do not overlap therefore never share a
    /// counter, and samples of two objects share one only if 64 random bits are equal. The highest
    /// bit of the lower half is 0, so counting never overflows it. Decryptors differ in what they
    /// do after an overflow.
    pub fn counter(&self, offset: u64) -> [u8; 16] {
        let low = (self.0 & u128::from(u64::MAX >> 2)) + u128::from(offset & (u64::MAX >> 2));
        (self.0 >> 64 << 64 | low).to_be_bytes()
    }

    /// Returns the IV of a sample in PIFF, followed by 8 bytes that count blocks from 0. The IV is
    /// the sample's offset in the object, added to a pseudo-random number of the object.
    ///
    /// Samples of one object have different offsets. Samples of two objects have equal IVs only if
    /// the numbers of these objects differ by less than their size: for two objects of 16 GiB, in
    /// one of 2^29 pairs.
    pub fn short_counter(&self, offset: u64) -> [u8; 16] {
        (self.0 & !u128::from(u64::MAX)).wrapping_add(u128::from(offset) << 64).to_be_bytes()
    }
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Parses the 32 hexadecimal digits of an IV, with or without `0x` before them.
///
/// # Errors
/// Returns a sentence for the operator if the text has another form.
pub fn parse_iv(text: &str) -> Result<[u8; 16], &'static str> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X")).unwrap_or(text);
    hex(digits).map(|bytes| *bytes).ok_or("an IV has 32 hexadecimal digits")
}

/// Parses 32 hexadecimal digits.
fn hex(text: &str) -> Option<Zeroizing<[u8; 16]>> {
    let mut bytes = Zeroizing::new([0; 16]);
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KID: &str = "00112233-4455-6677-8899-aabbccddeeff";

    fn key(hex: &str) -> ContentKey {
        ContentKey::new(KID.parse().unwrap(), Key::from_hex(hex).unwrap(), None)
    }

    #[test]
    fn ids_are_read_as_uuids_and_as_digits() {
        let id: KeyId = KID.parse().unwrap();
        assert_eq!(id.to_string(), "00112233445566778899aabbccddeeff");
        assert_eq!("00112233445566778899AABBCCDDEEFF".parse(), Ok(id));
        for text in ["", "0", "00112233-4455-6677-8899-aabbccddeef", "0011223344556677-8899-aabb-ccddeeff-0"]
        {
            text.parse::<KeyId>().unwrap_err();
        }
        assert!(
            "00000000-0000-0000-0000-000000000000".parse::<KeyId>().unwrap_err().contains("not encrypted")
        );
    }

    #[test]
    fn no_debug_text_and_no_error_holds_a_key() {
        let hex = "deadbeefdeadbeefdeadbeefdeadbeef";
        let key = key(hex);
        let text = format!("{key:?} {:?}", key.key()).to_lowercase();
        assert!(!text.contains("dead") && !text.contains("222"), "{text}");
        assert!(!Key::from_hex("deadbeefx").unwrap_err().contains("dead"));
    }

    /// The block cipher is AES-128: the example of FIPS 197, appendix B.
    #[test]
    fn checksums_and_ivs_are_made_by_aes() {
        let id = KeyId::new(*hex("3243f6a8885a308d313198a2e0370734").unwrap()).unwrap();
        let key = ContentKey::new(id, Key::from_hex("2b7e151628aed2a6abf7158809cf4f3c").unwrap(), None);
        assert_eq!(key.checksum(), [0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb]);
        let digest = u128::from_le_bytes(*id.bytes());
        assert_eq!(key.iv_of(digest)[..8], key.checksum());
        let given = ContentKey::new(id, key.key().clone(), Some([7; 16]));
        assert_eq!(given.iv_of(digest), [7; 16]);
    }
}
