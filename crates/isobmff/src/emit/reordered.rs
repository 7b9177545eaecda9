//! Fragments whose samples do not lie in decode order: a run (`trun`) for each stretch of samples
//! that follow each other in both orders. The runs are in decode order, and their data offsets
//! point into the `mdat` (ISO/IEC 14496-12 §8.8.8).
//!
//! Each sample has one byte of auxiliary information, its importance (§8.7.8). The bytes lie at the
//! start of the `mdat` in decode order. Chromium sorts runs by the lower of two offsets, that of
//! their data and that of their auxiliary information, and decodes them in this order. With the
//! information it keeps the decode order; without it, it would take the order of the `mdat`.

use super::fragment::{FragmentSize, FragmentSpec, Layout, mdat_header};
use crate::{
    Error, FourCc,
    boxes::{mfhd::Mfhd, saio::Saio, saiz::Saiz, tfdt::Tfdt, trun::Trun},
    error::BoxPath,
    write::{Container, WriteBox, header_size},
};
use std::ops::Range;

/// `aux_info_type` of the importance of samples.
pub const IMPORTANCE: FourCc = FourCc(*b"lmip");

/// A fragment to write whose samples lie in another order than they are decoded.
#[derive(Debug, Clone, Copy)]
pub struct ReorderedSpec<'a> {
    /// The fragment. Its samples are in decode order.
    pub fragment: FragmentSpec<'a>,
    /// The positions in decode order of the samples, in the order of the `mdat`. Each sample occurs
    /// once.
    pub order: &'a [u32],
    /// For each sample in decode order, its importance: 0 is the highest.
    pub importance: &'a [u8],
}

/// Appends `moof` and the start of the `mdat` to `out`: its header and the importance of each
/// sample. The caller appends the samples' bytes in [`ReorderedSpec::order`]. All fields of samples
/// are written as in [`super::fragment()`].
///
/// # Errors
/// [`Error::TooLarge`] for more than [`super::fragment::MAX_SAMPLES`] samples, or for a data offset
/// of more than 31 bits; [`Error::BadValue`] if the order does not name each sample once, or if the
/// importance of a sample is missing. Nothing is written then.
pub fn reordered_fragment(spec: &ReorderedSpec<'_>, out: &mut Vec<u8>) -> Result<FragmentSize, Error> {
    let layout = Layout::new(&spec.fragment)?;
    let runs = runs(spec)?;
    let info_bytes = spec.importance.len() as u64;
    let media = info_bytes + layout.media;
    let mut moof = Moof { spec, layout, runs, saio: Vec::new(), media_start: 0 };
    moof.saio.resize(moof.runs.len(), 0);
    let size = FragmentSize { moof: moof.size(), mdat_header: header_size(media), media };
    // Every offset takes 32 bits, so the size is known before the offsets are.
    let end = size.total();
    if i32::try_from(end).is_err() {
        return Err(Error::TooLarge {
            path: trun(),
            offset: 0,
            what: "data_offset",
            value: end,
            limit: i32::MAX as u64,
        });
    }
    moof.media_start = size.head() + info_bytes;
    for (offset, run) in moof.saio.iter_mut().zip(&moof.runs) {
        *offset = u32::try_from(size.head() + run.samples.start as u64).unwrap_or(u32::MAX);
    }
    moof.write(out);
    mdat_header(media, out);
    out.extend_from_slice(spec.importance);
    Ok(size)
}

/// A run of samples.
struct Run {
    /// Positions in decode order.
    samples: Range<usize>,
    /// Offset in bytes from the first sample in the `mdat`.
    offset: u64,
}

/// Returns the runs in decode order.
fn runs(spec: &ReorderedSpec<'_>) -> Result<Vec<Run>, Error> {
    let samples = spec.fragment.samples;
    let bad = |what| Error::BadValue { path: trun(), offset: 0, what };
    if spec.importance.len() != samples.len() {
        return Err(bad("an importance is missing"));
    }
    let mut offsets = vec![u64::MAX; samples.len()];
    let mut at = 0;
    for &position in spec.order {
        let position = position as usize;
        let offset = offsets.get_mut(position).filter(|offset| **offset == u64::MAX);
        *offset.ok_or_else(|| bad("a sample occurs twice"))? = at;
        at += samples.get(position).map_or(0, |sample| u64::from(sample.size));
    }
    let mut runs: Vec<Run> = Vec::new();
    let mut end = u64::MAX;
    for (position, (offset, sample)) in offsets.into_iter().zip(samples).enumerate() {
        if offset == u64::MAX {
            return Err(bad("a sample does not occur"));
        }
        match runs.last_mut() {
            Some(run) if offset == end => run.samples.end = position + 1,
            _ => runs.push(Run { samples: position..position + 1, offset }),
        }
        end = offset + u64::from(sample.size);
    }
    Ok(runs)
}

fn trun() -> BoxPath {
    BoxPath::default().join(FourCc(*b"moof")).join(FourCc(*b"trun"))
}

/// The `moof` to write.
struct Moof<'a> {
    spec: &'a ReorderedSpec<'a>,
    layout: Layout,
    runs: Vec<Run>,
    /// The offset of each run's auxiliary information from the start of the `moof`, in bytes.
    saio: Vec<u32>,
    /// Offset of the first sample in the `mdat` from the start of the `moof`, in bytes.
    media_start: u64,
}

impl Moof<'_> {
    /// Builds the boxes in the `moof` and passes them to `use_boxes`.
    fn with_boxes<T>(&self, use_boxes: impl FnOnce(&Container<'_>) -> T) -> T {
        let FragmentSpec { sequence, decode_time, samples, .. } = self.spec.fragment;
        let Layout { tfhd, first_sample_flags, fields, .. } = self.layout;
        let truns = self.runs.iter().map(|run| Trun {
            data_offset: i32::try_from(self.media_start + run.offset).unwrap_or(i32::MAX),
            first_sample_flags: first_sample_flags.filter(|_| run.samples.start == 0),
            fields,
            samples: samples.get(run.samples.clone()).unwrap_or_default(),
        });
        let truns: Vec<Trun<'_>> = truns.collect();
        let count = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        let saiz = Saiz { info_type: Some(IMPORTANCE), size: 1, count };
        let saio = Saio { info_type: Some(IMPORTANCE), offsets: &self.saio };
        let tfdt = Tfdt(decode_time);
        let mut children: Vec<&dyn WriteBox> = vec![&tfhd, &tfdt, &saiz, &saio];
        children.extend(truns.iter().map(|trun| trun as &dyn WriteBox));
        use_boxes(&Container(b"moof", &[&Mfhd(sequence), &Container(b"traf", &children)]))
    }
}

impl WriteBox for Moof<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"moof")
    }

    fn payload_size(&self) -> u64 {
        self.with_boxes(|moof| moof.payload_size())
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        self.with_boxes(|moof| moof.write_payload(out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{emit::EmitSample, fragment::Moof as ParsedMoof, sample_flags};

    fn sample(size: u32, flags: u32) -> EmitSample {
        EmitSample { size, duration: 2, flags, composition_offset: 1 }
    }

    fn write(samples: &[EmitSample], order: &[u32]) -> Result<(Vec<u8>, FragmentSize), Error> {
        let fragment = FragmentSpec {
            sequence: 4,
            track_id: 1,
            sample_description_index: None,
            decode_time: 9,
            samples,
        };
        let importance: Vec<u8> = (0..).take(samples.len()).collect();
        let mut out = Vec::new();
        let size = reordered_fragment(&ReorderedSpec { fragment, order, importance: &importance }, &mut out)?;
        Ok((out, size))
    }

    #[test]
    fn runs_are_in_decode_order_and_point_at_their_samples() {
        let sync = sample_flags::SYNC;
        let other = sample_flags::NON_SYNC;
        let samples = [sample(10, sync), sample(20, other), sample(30, other), sample(40, other)];
        let (out, size) = write(&samples, &[0, 2, 3, 1]).unwrap();
        assert_eq!(out.len() as u64, size.head() + 4);
        assert_eq!(out[out.len() - 4..], [0, 1, 2, 3]);
        assert_eq!(size.media, 104);
        let moof_len = usize::try_from(size.moof).unwrap();
        let parsed = ParsedMoof::parse(&bytes::Bytes::from(out[..moof_len].to_vec()), 0).unwrap();
        let track = &parsed.tracks[0];
        assert!(!track.encrypted);
        let start = i32::try_from(size.head() + 4).unwrap();
        let runs: Vec<_> =
            track.runs.iter().map(|run| (run.data_offset.unwrap() - start, run.count)).collect();
        assert_eq!(runs, [(0, 1), (80, 1), (10, 2)]);
        let flags = |run: usize| track.runs[run].iter().map(|s| s.flags).collect::<Vec<_>>();
        assert_eq!((flags(0), flags(1)), (vec![Some(sync)], vec![None]));
    }

    #[test]
    fn an_order_that_is_none_is_refused() {
        let samples = [sample(1, 0), sample(2, 0)];
        for order in [&[0_u32][..], &[0, 0], &[0, 2], &[0, 1, 1], &[]] {
            assert!(matches!(write(&samples, order), Err(Error::BadValue { .. })), "{order:?}");
        }
        assert!(write(&samples, &[1, 0]).is_ok());
    }

    #[test]
    fn a_data_offset_beyond_31_bits_is_refused() {
        let samples = [sample(u32::MAX >> 1, 0), sample(1, 0)];
        let refused = write(&samples, &[1, 0]);
        assert!(matches!(refused, Err(Error::TooLarge { what: "data_offset", .. })), "{refused:?}");
    }
}
