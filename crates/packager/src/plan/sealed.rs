//! Segments whose samples are encrypted one by one.

use super::{
    Class, CutSamples, KnownCuts, NeedsCuts, Part, Plan, Planned, SourceRange, Transform, planner::Planner,
};
use crate::{
    PackError, protection::Cover, segment::checked::CheckedSamples, segment::encrypted::EncryptedSamples,
};
use latemux_index::{Sample, media::TrackKind};
use latemux_isobmff::boxes::senc::SampleEncryption;
use latemux_protect::{CutReader, FoundCuts, PackedCuts};

/// Video of a codec whose slices cannot be found.
const NOT_CUT: PackError = PackError::CannotProtect("video other than AVC, HEVC, AV1 or VP9");

/// The inputs of the encryption of samples.
#[derive(Clone, Copy)]
pub(super) struct Sealing<'a> {
    pub(super) cover: &'a Cover<'a>,
    pub(super) cuts: &'a dyn KnownCuts,
}

/// A segment of one track that is to be encrypted.
pub(super) struct ClearSegment {
    /// Index into [`Title::tracks`].
    pub(super) index: usize,
    /// Digest of its clear form.
    pub(super) digest: u128,
    pub(super) content_type: &'static str,
    pub(super) reach: Vec<SourceRange>,
}

impl Planner<'_> {
    /// Plans a segment whose samples are encrypted. `parts` returns its parts with the samples in
    /// clear, of which the first one is the head.
    pub(super) fn sealed(
        &self,
        Sealing { cover, cuts }: Sealing<'_>,
        clear: ClearSegment,
        samples: &[Sample],
        parts: impl FnOnce(&SampleEncryption<'_>) -> Result<Vec<Part>, PackError>,
    ) -> Result<Planned, PackError> {
        let title_track = &self.title.tracks()[clear.index];
        let object = title_track.object;
        let track = self.title.track(title_track);
        let ClearSegment { content_type, reach, .. } = clear;
        let digest = cover.digest(clear.digest);
        let is_video = track.kind == TrackKind::Video;
        let mut known = None;
        if is_video {
            let of = CutSamples::of(object, track.id, samples);
            known = cuts.get(&of);
            if known.is_none() {
                return Ok(Planned::NeedsCuts(Box::new(NeedsCuts {
                    of,
                    track: title_track.name.to_string(),
                    samples: samples.iter().map(|sample| (sample.offset, sample.size)).collect(),
                    reader: CutReader::new(&track.codec).ok_or(NOT_CUT)?,
                    digest,
                    content_type,
                    reach,
                    found: PackedCuts::default(),
                    buffer: Vec::new(),
                })));
            }
        }
        let seal = cover.of_samples(track, self.title.objects()[object].fingerprint);
        let places = samples.iter().map(|sample| (sample.offset, sample.size));
        let sealed = seal
            .seal(places, known.as_ref().map(|known| &*known.cuts))
            .map_err(|problem| PackError::CannotCut { track: title_track.name.to_string(), problem })?;
        let encryption = SampleEncryption {
            samples: sealed.samples,
            has_subsamples: is_video,
            entries: &sealed.entries,
            sizes: &sealed.sizes,
        };
        let parts = parts(&encryption)?;
        let head = parts.first().map_or(0, Part::len);
        let head = u32::try_from(head).map_err(|_| PackError::TooLarge("a moof of 4 GiB"))?;
        let cipher = sealed.cipher(cover.key, head);
        let transform: Box<dyn Transform> = match known.filter(|known| !known.is_checked()) {
            Some(FoundCuts { cuts, check: Some(check) }) => {
                let sizes = samples.iter().map(|sample| sample.size);
                let reader = CutReader::new(&track.codec).ok_or(NOT_CUT)?;
                let name = title_track.name.to_string();
                Box::new(CheckedSamples::new(cipher, head, sizes, (reader, cuts), check, name))
            }
            _ => Box::new(EncryptedSamples(cipher)),
        };
        Ok(Planned::Ready(Plan {
            content_type,
            content_length: parts.iter().map(Part::len).sum(),
            digest,
            class: Class::Media,
            parts,
            transform: Some(transform),
            reach,
        }))
    }
}
