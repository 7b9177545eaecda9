//! The way in which one response is encrypted: its samples, or the segment as a whole.

use crate::{
    clear_lead::ClearLead,
    digest::extended,
    plan::{Part, Plan},
    segment::{encrypted::EncryptedSegment, ts},
};
use bytes::{Bytes, BytesMut};
use latemux_index::{Track, media::TrackKind};
use latemux_isobmff::{
    FourCc,
    boxes::sinf::{Ivs, TrackEncryption},
    codec::Config,
};
use latemux_protect::{ContentKey, DrmSystem, SampleSeal, Scheme, SegmentCipher};
use std::{fmt, sync::Arc};

/// The text of a key in digests. It does not disclose the key.
pub(super) struct KeyText<'a>(pub(super) &'a ContentKey);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0;
        write!(f, "{} {:x?} {:x?}", key.id(), key.checksum(), key.iv())?;
        let stated = key.signalling();
        if stated.is_empty() { Ok(()) } else { write!(f, " {stated:x?}") }
    }
}

/// The way in which a response is encrypted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cover<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) key: &'a Arc<ContentKey>,
    pub(crate) systems: &'a [DrmSystem],
    /// The clear lead of the title in the protocol.
    pub(crate) lead: ClearLead,
}

impl Cover<'_> {
    /// Returns the digest of a response, from the digest of its clear form.
    pub(crate) fn digest(&self, clear: u128) -> u128 {
        extended(clear, format_args!("{} {}", self.scheme.name(), KeyText(self.key)))
    }

    /// Returns the text of everything that an init segment states beside the key.
    pub(crate) fn systems_text(&self) -> String {
        format!(" for {:?}", self.systems)
    }

    /// Returns the way in which the samples of a track are encrypted.
    pub(crate) fn of_samples(&self, track: &Track, fingerprint: u128) -> SampleSeal<'_> {
        let is_video = track.kind == TrackKind::Video;
        let is_av1 = matches!(track.codec.config, Config::Av1(_));
        SampleSeal { key: self.key, scheme: self.scheme, is_video, is_av1, fingerprint }
    }

    /// Returns the description of the encryption of a track's samples.
    pub(crate) fn track_encryption(&self, is_video: bool) -> TrackEncryption {
        let is_cbcs = self.scheme == Scheme::Cbcs;
        TrackEncryption {
            scheme: FourCc(if is_cbcs { *b"cbcs" } else { *b"cenc" }),
            kid: *self.key.id().bytes(),
            ivs: if is_cbcs { Ivs::Constant(self.key.constant_iv()) } else { Ivs::PerSample },
            pattern: if is_cbcs && is_video { (1, 9) } else { (0, 0) },
        }
    }

    /// Returns the bytes that encryption adds to a segment of one track: the boxes `senc`, `saiz`
    /// and `saio`. Counts one slice for each frame of video; each further one adds 6 bytes.
    pub(crate) fn added_bytes(&self, is_video: bool, samples: u64) -> u64 {
        match self.scheme {
            Scheme::Aes128 => return 0,
            // A byte of emulation prevention for each 4 MB of encrypted bytes on average, which
            // may take one packet more.
            Scheme::SampleAes => return ts::PACKET_BYTES,
            Scheme::Cenc | Scheme::Cbcs | _ => {}
        }
        let senc = 16;
        let saiz = 17;
        let saio = 20;
        let iv = self.scheme.iv_len() as u64;
        let slices = if is_video { 8 } else { 0 };
        match iv + slices {
            0 => senc,
            // Frames differ in their number of slices, and `saiz` has a byte for each.
            sample => senc + saiz + saio + samples * (sample + u64::from(is_video)),
        }
    }

    /// Returns the `pssh` boxes of all systems.
    pub(crate) fn pssh(&self) -> Vec<Bytes> {
        let made = self.systems.iter().filter_map(|system| system.pssh(self.key, self.scheme));
        made.map(Bytes::from).collect()
    }

    /// Returns the seal of a segment, from the digest of its clear form.
    pub(crate) fn seal(&self, clear_digest: u128) -> Seal {
        let digest = self.digest(clear_digest);
        Seal { key: self.key.clone(), iv: self.key.iv_of(clear_digest), digest }
    }
}

/// The encryption of one segment as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Seal {
    key: Arc<ContentKey>,
    iv: [u8; 16],
    /// Digest of the encrypted segment.
    pub(crate) digest: u128,
}

impl Seal {
    /// Encrypts the segment of a plan.
    pub(super) fn seal(&self, plan: Plan) -> Plan {
        let clear = plan.content_length;
        let cipher = SegmentCipher::new(&self.key, self.iv);
        Plan {
            content_length: SegmentCipher::encrypted_len(clear),
            digest: self.digest,
            transform: Some(Box::new(EncryptedSegment::new(cipher, plan.transform, clear))),
            ..plan
        }
    }

    /// Encrypts the segment of a plan that has neither source ranges nor a transform.
    pub(crate) fn seal_inline(&self, plan: Plan) -> Plan {
        let mut cipher = SegmentCipher::new(&self.key, self.iv);
        let mut body = BytesMut::new();
        cipher.finish(&mut body, |body| {
            let inline = plan.parts.iter().map(|part| match part {
                Part::Inline(bytes) => bytes.clone(),
                Part::Source(_) => Bytes::new(),
            });
            inline.for_each(|bytes| body.extend_from_slice(&bytes));
        });
        let parts = vec![Part::Inline(body.freeze())];
        let content_length = parts.iter().map(Part::len).sum();
        Plan { content_length, digest: self.digest, parts, ..plan }
    }
}
