//! `senc`: how to decrypt each sample of a fragment (ISO/IEC 23001-7 §7.2), and its forerunner in
//! PIFF 1.1.

use super::tfxd::PIFF_SENC;
use crate::{
    FourCc,
    write::{WriteBox, put_count, put_version_and_flags},
};
use bytes::BufMut;

/// Flag of `senc`: each sample states its subsamples.
const USES_SUBSAMPLES: u32 = 2;

/// The encryption of a fragment's samples, as written to `senc` and sized by `saiz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleEncryption<'a> {
    /// Number of samples.
    pub samples: usize,
    /// True if the information of each sample states its subsamples.
    pub has_subsamples: bool,
    /// The information of all samples: IV, unless that is constant, and with subsamples their
    /// number in 16 bits and for each of them 16 bits of clear and 32 bits of protected bytes.
    pub entries: &'a [u8],
    /// Bytes of the information of each sample. Empty if no sample has any.
    pub sizes: &'a [u8],
}

impl WriteBox for SampleEncryption<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"senc")
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, if self.has_subsamples { USES_SUBSAMPLES } else { 0 });
        put_count(out, self.samples);
        out.put_slice(self.entries);
    }
}

/// The same in a `uuid` box (PIFF 1.1 §5.3.2). Players assume AES-CTR with IVs of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PiffEncryption<'a>(pub &'a SampleEncryption<'a>);

impl WriteBox for PiffEncryption<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"uuid")
    }

    fn payload_size(&self) -> u64 {
        PIFF_SENC.len() as u64 + self.0.payload_size()
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        out.put_slice(&PIFF_SENC);
        self.0.write_payload(out);
    }
}
