//! `sinf`: the protection of an encrypted sample entry (ISO/IEC 14496-12 §8.12, ISO/IEC 23001-7
//! §8).

use super::stsd::SampleEntry;
use crate::{
    FourCc,
    write::{Container, WriteBox, put_header, put_version_and_flags},
};
use bytes::BufMut;

/// The IVs of the samples of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ivs {
    /// Each sample has one of 16 bytes, in `senc`.
    PerSample,
    /// All samples have this one.
    Constant([u8; 16]),
}

/// The default encryption of a track, for `schm` and `tenc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackEncryption {
    /// Scheme: `cenc` or `cbcs`.
    pub scheme: FourCc,
    /// ID of the key.
    pub kid: [u8; 16],
    /// IVs of the samples.
    pub ivs: Ivs,
    /// Number of encrypted and of clear blocks in a pattern. `(0, 0)` without a pattern.
    pub pattern: (u8, u8),
}

impl SampleEntry {
    /// Returns the entry as that of an encrypted track: its coding name becomes `encv` for video or
    /// else `enca`, and a `sinf` follows its boxes.
    #[must_use]
    pub fn encrypted(&self, is_video: bool, encryption: &TrackEncryption) -> Self {
        let format = FourCc(if is_video { *b"encv" } else { *b"enca" });
        let (clear, rest) = self.parts();
        let frma = Frma(self.format);
        let schm = Schm(encryption.scheme);
        let schi = Container(b"schi", &[&Tenc(encryption)]);
        let sinf = Container(b"sinf", &[&frma, &schm, &schi]);
        let mut raw = Vec::with_capacity(rest.len() + 128);
        put_header(&mut raw, format, clear + sinf.size());
        raw.put_bytes(0, 6);
        raw.put_u16(self.data_reference_index);
        raw.put_slice(rest);
        sinf.write(&mut raw);
        Self { format, data_reference_index: self.data_reference_index, raw: raw.into() }
    }
}

/// `frma`: the coding name before encryption.
struct Frma(FourCc);

impl WriteBox for Frma {
    fn kind(&self) -> FourCc {
        FourCc(*b"frma")
    }

    fn payload_size(&self) -> u64 {
        4
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        out.put_slice(&self.0.0);
    }
}

/// `schm`: the scheme, in version 1.0.
struct Schm(FourCc);

impl WriteBox for Schm {
    fn kind(&self) -> FourCc {
        FourCc(*b"schm")
    }

    fn payload_size(&self) -> u64 {
        12
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_slice(&self.0.0);
        out.put_u32(0x0001_0000);
    }
}

/// `tenc` (ISO/IEC 23001-7 §8.2). Version 1 states a pattern.
struct Tenc<'a>(&'a TrackEncryption);

impl Tenc<'_> {
    const IV_LEN: u8 = 16;
}

impl WriteBox for Tenc<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"tenc")
    }

    fn payload_size(&self) -> u64 {
        24 + if matches!(self.0.ivs, Ivs::Constant(_)) { 17 } else { 0 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let (encrypted, clear) = self.0.pattern;
        // A constant IV goes with `cbcs`, whose pattern only version 1 can state.
        let version = u8::from(matches!(self.0.ivs, Ivs::Constant(_)));
        put_version_and_flags(out, version, 0);
        out.put_u8(0);
        out.put_u8(encrypted << 4 | clear & 0x0f);
        // default_isProtected
        out.put_u8(1);
        match self.0.ivs {
            Ivs::PerSample => {
                out.put_u8(Self::IV_LEN);
                out.put_slice(&self.0.kid);
            }
            Ivs::Constant(iv) => {
                out.put_u8(0);
                out.put_slice(&self.0.kid);
                out.put_u8(Self::IV_LEN);
                out.put_slice(&iv);
            }
        }
    }
}
