//! Fragments whose samples do not lie in decode order: a run (`trun`) for each stretch of samples
//! that follow each other in both orders. The runs are in decode order, and their data offsets
//! point into the `mdat` (ISO/IEC 14496-12 §8.8.8).
//!
//! Each sample has auxiliary information, which begins with a byte that states its importance
//! (§8.7.8). It lies at the start of the `mdat` in decode order. Chromium sorts runs by the lower
//! of two offsets, that of their data and that of their auxiliary information, and decodes them in
//! this order. With the information it keeps the decode order; without it, it would take the order
//! of the `mdat`.
//!
//! The bytes of a sample must be contiguous (§8.7.4). Detached layers are therefore not part of
//! their sample. Its auxiliary information states them: for each layer, 32 bits of offset from the
//! start of the `moof`, and 32 bits of size.

use super::fragment::{FragmentSize, FragmentSpec, Layout, mdat_header};
use crate::{
    Error, FourCc,
    boxes::{
        mfhd::Mfhd,
        saio::Saio,
        saiz::{IMPORTANCE, Saiz, SaizTable},
        tfdt::Tfdt,
        trun::Trun,
    },
    error::BoxPath,
    write::{Container, WriteBox, header_size},
};
use bytes::BufMut;
use std::ops::Range;

/// A fragment to write whose samples lie in another order than they are decoded.
#[derive(Debug, Clone, Copy)]
pub struct ReorderedSpec<'a> {
    /// The fragment. Its samples are in decode order, without their detached layers.
    pub fragment: FragmentSpec<'a>,
    /// The positions in decode order of the samples, in the order of the `mdat`. Each sample occurs
    /// once, and then once more for each of its detached layers.
    pub order: &'a [u32],
    /// For each sample in decode order, its importance: 0 is the highest.
    pub importance: &'a [u8],
    /// Sizes in bytes of the detached layers, in the order of the `mdat`: those of the second
    /// and all later times that a sample occurs in `order`.
    pub layers: &'a [u32],
}

/// Most detached layers of one sample.
pub const MAX_LAYERS: usize = 31;

/// Appends `moof` and the start of the `mdat` to `out`: its header and the auxiliary information of
/// each sample. The caller appends the bytes of samples and layers in [`ReorderedSpec::order`]. All
/// fields of samples are written as in [`super::fragment()`].
///
/// # Errors
/// [`Error::TooLarge`] for more than [`super::fragment::MAX_SAMPLES`] samples, or for a data offset
/// of more than 31 bits; [`Error::BadValue`] if the order does not name each sample and each layer
/// once, if a sample has more than [`MAX_LAYERS`] layers, or if the importance of a sample is
/// missing. Nothing is written then.
pub fn reordered_fragment(spec: &ReorderedSpec<'_>, out: &mut Vec<u8>) -> Result<FragmentSize, Error> {
    let layout = Layout::new(&spec.fragment)?;
    let Places { samples, layers, bytes } = places(spec)?;
    let info_sizes = info_sizes(spec.importance.len(), &layers)?;
    let info_bytes = info_sizes.iter().map(|&size| u64::from(size)).sum::<u64>();
    let media = info_bytes + bytes;
    let runs = runs(spec, &samples);
    let mut moof = Moof { spec, layout, runs, info_sizes, saio: Vec::new(), media_start: 0 };
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
    moof.place_info(size.head());
    moof.write(out);
    mdat_header(media, out);
    moof.write_info(&layers, out);
    Ok(size)
}

/// The places of samples and layers. Offsets are in bytes from the first sample in the `mdat`.
struct Places {
    /// The offset of each sample, in decode order.
    samples: Vec<u64>,
    /// The detached layers, in the order of the `mdat`.
    layers: Vec<Layer>,
    /// Size in bytes of all samples and layers.
    bytes: u64,
}

/// A detached layer.
struct Layer {
    /// Position of the sample in decode order.
    sample: usize,
    offset: u64,
    size: u32,
}

fn bad(what: &'static str) -> Error {
    Error::BadValue { path: trun(), offset: 0, what }
}

fn places(spec: &ReorderedSpec<'_>) -> Result<Places, Error> {
    let samples = spec.fragment.samples;
    if spec.importance.len() != samples.len() {
        return Err(bad("an importance is missing"));
    }
    let mut offsets = vec![u64::MAX; samples.len()];
    let mut layers = Vec::with_capacity(spec.layers.len());
    let mut sizes = spec.layers.iter();
    let mut at = 0;
    for &position in spec.order {
        let sample = position as usize;
        let offset = offsets.get_mut(sample).ok_or_else(|| bad("there is no such sample"))?;
        let size = if *offset == u64::MAX {
            *offset = at;
            samples.get(sample).map_or(0, |sample| sample.size)
        } else {
            let &size = sizes.next().ok_or_else(|| bad("a sample occurs twice"))?;
            layers.push(Layer { sample, offset: at, size });
            size
        };
        at += u64::from(size);
    }
    if offsets.contains(&u64::MAX) {
        return Err(bad("a sample does not occur"));
    }
    if sizes.next().is_some() {
        return Err(bad("a layer does not occur"));
    }
    Ok(Places { samples: offsets, layers, bytes: at })
}

/// Returns the size in bytes of the auxiliary information of each sample.
fn info_sizes(samples: usize, layers: &[Layer]) -> Result<Vec<u8>, Error> {
    const _: () = assert!(8 * MAX_LAYERS < u8::MAX as usize);
    let mut sizes = vec![1_u8; samples];
    for layer in layers {
        let Some(size) = sizes.get_mut(layer.sample) else { continue };
        *size = size.checked_add(8).ok_or_else(|| bad("a sample has too many layers"))?;
    }
    Ok(sizes)
}

/// A run of samples.
struct Run {
    /// Positions in decode order.
    samples: Range<usize>,
    /// Offset in bytes from the first sample in the `mdat`.
    offset: u64,
}

/// Returns the runs in decode order. `offsets` are those of the samples.
fn runs(spec: &ReorderedSpec<'_>, offsets: &[u64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut end = u64::MAX;
    for (position, (&offset, sample)) in offsets.iter().zip(spec.fragment.samples).enumerate() {
        match runs.last_mut() {
            Some(run) if offset == end => run.samples.end = position + 1,
            _ => runs.push(Run { samples: position..position + 1, offset }),
        }
        end = offset + u64::from(sample.size);
    }
    runs
}

fn trun() -> BoxPath {
    BoxPath::default().join(FourCc(*b"moof")).join(FourCc(*b"trun"))
}

/// The `moof` to write.
struct Moof<'a> {
    spec: &'a ReorderedSpec<'a>,
    layout: Layout,
    runs: Vec<Run>,
    /// Size in bytes of the auxiliary information of each sample.
    info_sizes: Vec<u8>,
    /// The offset of each run's auxiliary information from the start of the `moof`, in bytes.
    saio: Vec<u32>,
    /// Offset of the first sample in the `mdat` from the start of the `moof`, in bytes.
    media_start: u64,
}

impl Moof<'_> {
    /// Sets the offsets of the auxiliary information, which begins `start` bytes behind the start
    /// of the `moof`.
    fn place_info(&mut self, start: u64) {
        let mut at = start;
        for (offset, run) in self.saio.iter_mut().zip(&self.runs) {
            *offset = u32::try_from(at).unwrap_or(u32::MAX);
            let sizes = self.info_sizes.get(run.samples.clone()).unwrap_or_default();
            at += sizes.iter().map(|&size| u64::from(size)).sum::<u64>();
        }
    }

    /// Appends the auxiliary information of all samples.
    fn write_info(&self, layers: &[Layer], out: &mut Vec<u8>) {
        // The place in `out` of each sample's next layer.
        let mut places = Vec::with_capacity(self.info_sizes.len());
        for (&size, &importance) in self.info_sizes.iter().zip(self.spec.importance) {
            out.put_u8(importance);
            places.push(out.len());
            out.resize(out.len() + usize::from(size) - 1, 0);
        }
        for layer in layers {
            let Some(place) = places.get_mut(layer.sample) else { continue };
            let offset = u32::try_from(self.media_start + layer.offset).unwrap_or(u32::MAX);
            let stated = u64::from(offset) << 32 | u64::from(layer.size);
            if let Some(bytes) = out.get_mut(*place..*place + 8) {
                bytes.copy_from_slice(&stated.to_be_bytes());
            }
            *place += 8;
        }
    }

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
        let info_type = Some(IMPORTANCE);
        let count = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        let (plain, table) =
            (Saiz { info_type, size: 1, count }, SaizTable { info_type, sizes: &self.info_sizes });
        let saiz: &dyn WriteBox = if self.spec.layers.is_empty() { &plain } else { &table };
        let saio = Saio { info_type, offsets: &self.saio };
        let tfdt = Tfdt(decode_time);
        let mut children: Vec<&dyn WriteBox> = vec![&tfhd, &tfdt, saiz, &saio];
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
    use crate::{
        emit::EmitSample,
        fragment::{LayerInfo, Moof as ParsedMoof},
        sample_flags,
    };

    fn sample(size: u32, flags: u32) -> EmitSample {
        EmitSample { size, duration: 2, flags, composition_offset: 1 }
    }

    fn write_layers(
        samples: &[EmitSample],
        order: &[u32],
        layers: &[u32],
    ) -> Result<(Vec<u8>, FragmentSize), Error> {
        let fragment = FragmentSpec {
            sequence: 4,
            track_id: 1,
            sample_description_index: None,
            decode_time: 9,
            samples,
        };
        let importance: Vec<u8> = (0..).take(samples.len()).collect();
        let spec = ReorderedSpec { fragment, order, importance: &importance, layers };
        let mut out = Vec::new();
        let size = reordered_fragment(&spec, &mut out)?;
        Ok((out, size))
    }

    fn write(samples: &[EmitSample], order: &[u32]) -> Result<(Vec<u8>, FragmentSize), Error> {
        write_layers(samples, order, &[])
    }

    #[test]
    fn detached_layers_are_stated_with_their_samples() {
        let samples = [sample(10, 0), sample(20, 0), sample(30, 0)];
        // Two layers of sample 1, and one of sample 0, lie behind all samples.
        let (out, size) = write_layers(&samples, &[0, 1, 2, 1, 0, 1], &[7, 5, 6]).unwrap();
        assert_eq!((out.len() as u64, size.media), (size.head() + 27, 27 + 78));
        let moof_len = usize::try_from(size.moof).unwrap();
        let parsed = ParsedMoof::parse(&bytes::Bytes::from(out[..moof_len].to_vec()), 0).unwrap();
        let track = &parsed.tracks[0];
        assert!(!track.encrypted);
        let start = u32::try_from(out.len()).unwrap();
        assert_eq!(track.runs[0].data_offset, Some(start.cast_signed()), "behind the information");
        let info = track.layers.as_ref().unwrap();
        let sizes = [0, 1, 2, 3].map(|sample| info.size(sample));
        assert_eq!(sizes, [9, 17, 1, 0]);
        let mut at = info.offset as usize;
        assert_eq!(at as u64, size.head());
        let stated: Vec<(u8, Vec<(u32, u32)>)> = sizes[..3]
            .iter()
            .map(|&len| {
                let info = &out[at..at + len];
                at += len;
                (info[0], LayerInfo::layers(info).map(|(offset, size)| (offset - start, size)).collect())
            })
            .collect();
        assert_eq!(stated, [(0, vec![(67, 5)]), (1, vec![(60, 7), (72, 6)]), (2, vec![])]);
    }

    #[test]
    fn samples_with_as_many_layers_state_one_size() {
        let (out, size) = write_layers(&[sample(1, 0); 3], &[0, 1, 2, 2, 1, 0], &[4, 5, 6]).unwrap();
        let moof = bytes::Bytes::from(out[..usize::try_from(size.moof).unwrap()].to_vec());
        let track = ParsedMoof::parse(&moof, 0).unwrap().tracks.remove(0);
        assert_eq!([0, 1, 2].map(|sample| track.layers.as_ref().unwrap().size(sample)), [9; 3]);
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let samples = [sample(1, 0)];
        let of = |count: usize| {
            write_layers(&samples, &vec![0; count + 1], &vec![1; count]).map(|(out, _)| out.len())
        };
        assert!(of(MAX_LAYERS).is_ok());
        assert!(matches!(of(MAX_LAYERS + 1), Err(Error::BadValue { .. })));
        let unused = write_layers(&samples, &[0], &[1]);
        assert!(matches!(unused, Err(Error::BadValue { .. })), "{unused:?}");
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
