//! Cuts: where the slices of a video sample begin and end, and the subsamples made of them (ISO/IEC
//! 23001-7 §9.5).
//!
//! Cuts depend on the media alone. They are the same for all keys and schemes, so they are found
//! once and kept.

use crate::Scheme;
use latemux_isobmff::codec::{Av1Frames, Codec, Config, SliceError, SliceReader, Vp9Frame, Vp9Frames};
use std::ops::Range;

/// Size of a block of AES in bytes.
const BLOCK: u32 = 16;
/// Most clear bytes of one subsample.
const MAX_CLEAR: u32 = u16::MAX as u32;

/// A slice, with the clear bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Bytes from the end of the previous slice to the slice data: NAL units without a slice, then
    /// the length field and the headers of the NAL unit with this slice.
    pub clear: u32,
    /// Bytes of slice data, up to the end of the NAL unit. 0 in the cut that holds the bytes behind
    /// the last slice.
    pub data: u32,
}

/// The reason why a sample cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CutError {
    /// A NAL unit is longer than the rest of its sample.
    #[error("a NAL unit goes beyond its sample")]
    BeyondSample,
    /// The header of a slice cannot be read.
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// A sample has too many slices.
    #[error("a sample has more slices than its subsamples can state")]
    TooMany,
    /// A kind of slice that the scheme does not encrypt.
    #[error("a slice is of a kind that the scheme does not encrypt")]
    NoScheme,
    /// The cuts do not belong to the sample.
    #[error("the slices that were found are not those of the sample")]
    OtherMedia,
}

/// Finds the cuts of the samples of one track, in decode order.
#[derive(Debug, Clone)]
pub struct CutReader(Coding);

#[derive(Debug, Clone)]
enum Coding {
    /// AVC and HEVC, whose NAL units have lengths of some bytes before them.
    NalUnits { slices: SliceReader, length_size: usize },
    /// VP9, with the frames of one sample.
    Vp9(Vp9Frames, Vec<Vp9Frame>),
    /// AV1, with the tiles of one sample.
    Av1(Box<Av1Frames>, Vec<Range<usize>>),
}

impl CutReader {
    /// Creates a reader. Returns `None` for a codec whose slices this crate cannot find.
    pub fn new(codec: &Codec) -> Option<Self> {
        let (slices, length_size) = match &codec.config {
            Config::Avc(avc) => (SliceReader::avc(avc), avc.nal_length_size),
            Config::Hevc(hevc) => (SliceReader::hevc(hevc), hevc.nal_length_size),
            Config::Vp9 => return Some(Self::of_vp9()),
            Config::Av1(av1) => return Some(Self::of_av1(&av1.obus)),
            _ => return None,
        };
        Some(Self::of_slices(slices, length_size))
    }

    /// Creates a reader of samples whose NAL units have lengths of this many bytes.
    pub fn of_slices(slices: SliceReader, length_size: u8) -> Self {
        Self(Coding::NalUnits { slices, length_size: length_size.into() })
    }

    /// Creates a reader of samples of VP9.
    pub fn of_vp9() -> Self {
        Self(Coding::Vp9(Vp9Frames::default(), Vec::new()))
    }

    /// Creates a reader of samples of AV1, with the OBUs of their sample entry.
    pub fn of_av1(config_obus: &[u8]) -> Self {
        Self(Coding::Av1(Box::new(Av1Frames::new(config_obus)), Vec::new()))
    }

    /// Appends the cuts of the next sample. Together they are as long as the sample.
    ///
    /// # Errors
    /// [`CutError::BeyondSample`] and [`CutError::Slice`] for a sample that cannot be read.
    pub fn cut(&mut self, sample: &[u8], cuts: &mut Vec<Cut>) -> Result<(), CutError> {
        match &mut self.0 {
            Coding::NalUnits { slices, length_size } => cut_nal_units(slices, *length_size, sample, cuts),
            Coding::Vp9(reader, frames) => {
                frames.clear();
                reader.read(sample, frames)?;
                cuts.extend(frames.iter().map(|f| Cut { clear: bytes(f.header), data: bytes(f.data) }));
                let index = sample.len() - frames.iter().map(|f| f.header + f.data).sum::<usize>();
                if index > 0 {
                    cuts.push(Cut { clear: bytes(index), data: 0 });
                }
                Ok(())
            }
            Coding::Av1(reader, tiles) => {
                tiles.clear();
                reader.read(sample, tiles)?;
                let mut end = 0;
                for tile in tiles.iter() {
                    cuts.push(Cut { clear: bytes(tile.start - end), data: bytes(tile.len()) });
                    end = tile.end;
                }
                if end < sample.len() {
                    cuts.push(Cut { clear: bytes(sample.len() - end), data: 0 });
                }
                Ok(())
            }
        }
    }
}

fn cut_nal_units(
    slices: &mut SliceReader,
    length_size: usize,
    sample: &[u8],
    cuts: &mut Vec<Cut>,
) -> Result<(), CutError> {
    let mut rest = sample;
    let mut clear = 0;
    while !rest.is_empty() {
        let (length, after) = rest.split_at_checked(length_size).ok_or(CutError::BeyondSample)?;
        let length = length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
        let (nal_unit, after) = after.split_at_checked(length).ok_or(CutError::BeyondSample)?;
        rest = after;
        clear += length_size;
        match slices.header_len(nal_unit)? {
            Some(header) => {
                let data = length - header.min(length);
                cuts.push(Cut { clear: bytes(clear + length - data), data: bytes(data) });
                clear = 0;
            }
            None => clear += length,
        }
    }
    if clear > 0 {
        cuts.push(Cut { clear: bytes(clear), data: 0 });
    }
    Ok(())
}

/// Converts a size. Samples have less than 4 GiB, because their sizes have 32 bits.
fn bytes(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Clear bytes, and protected bytes after them, as `senc` states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subsample {
    /// Clear bytes.
    pub clear: u16,
    /// Protected bytes.
    pub protected: u32,
}

/// Appends the subsamples of a sample with these cuts.
///
/// - `cenc`, PIFF: the protected bytes are a multiple of 16, and what is left over stays clear
///   before them (§9.5.2.2).
/// - `cbcs`: all slice data is protected. The pattern leaves its last bytes clear.
///
/// Slice data of less than a block stays clear. With `has_small`, as AV1 requires, `cbcs` states a
/// subsample for it all the same (AV1 Codec ISO Media File Format Binding §4.1).
///
/// # Errors
/// [`CutError::TooMany`] if the boxes cannot describe so many subsamples.
pub fn subsamples(
    scheme: Scheme,
    has_small: bool,
    cuts: &[Cut],
    subsamples: &mut Vec<Subsample>,
) -> Result<(), CutError> {
    let first = subsamples.len();
    let mut clear = 0;
    let mut push = |clear: &mut u32, protected: u32| {
        while *clear > MAX_CLEAR {
            subsamples.push(Subsample { clear: u16::MAX, protected: 0 });
            *clear -= MAX_CLEAR;
        }
        if *clear > 0 || protected > 0 {
            subsamples.push(Subsample { clear: u16::try_from(*clear).unwrap_or(u16::MAX), protected });
        }
        *clear = 0;
    };
    for cut in cuts {
        let protected = match scheme {
            Scheme::Cbcs if has_small => cut.data,
            _ if cut.data < BLOCK => 0,
            Scheme::Cbcs => cut.data,
            _ => cut.data - cut.data % BLOCK,
        };
        clear += cut.clear + (cut.data - protected);
        if protected > 0 {
            push(&mut clear, protected);
        }
    }
    push(&mut clear, 0);
    if subsamples.len() - first > scheme.max_subsamples() { Err(CutError::TooMany) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_isobmff::codec::{Avc, SliceError};
    use proptest::prelude::*;

    fn made(scheme: Scheme, cuts: &[(u32, u32)]) -> Vec<(u16, u32)> {
        let cuts: Vec<Cut> = cuts.iter().map(|&(clear, data)| Cut { clear, data }).collect();
        let mut made = Vec::new();
        subsamples(scheme, false, &cuts, &mut made).unwrap();
        made.into_iter().map(|one| (one.clear, one.protected)).collect()
    }

    #[test]
    fn subsamples_are_as_the_standard_says() {
        for (cuts, cenc, cbcs) in [
            (&[(7, 33)][..], &[(8, 32)][..], &[(7, 33)][..]),
            (&[(7, 32), (6, 16)], &[(7, 32), (6, 16)], &[(7, 32), (6, 16)]),
            // Less than a block stays clear, and counts as clear before what follows.
            (&[(7, 15), (6, 17)], &[(29, 16)], &[(28, 17)]),
            (&[(7, 15)], &[(22, 0)], &[(22, 0)]),
            (&[(7, 16), (9, 0)], &[(7, 16), (9, 0)], &[(7, 16), (9, 0)]),
            (&[(65_536, 16)], &[(65_535, 0), (1, 16)], &[(65_535, 0), (1, 16)]),
            (&[(65_535, 16)], &[(65_535, 16)], &[(65_535, 16)]),
            (&[], &[], &[]),
        ] {
            assert_eq!(made(Scheme::Cenc, cuts), cenc, "{cuts:?}");
            assert_eq!(made(Scheme::Cbcs, cuts), cbcs, "{cuts:?}");
        }
    }

    #[test]
    fn small_tiles_have_subsamples_in_cbcs_alone() {
        let cuts = [(7, 15), (6, 1), (6, 17), (3, 0)].map(|(clear, data)| Cut { clear, data });
        for (scheme, expected) in
            [(Scheme::Cbcs, &[(7, 15), (6, 1), (6, 17), (3, 0)][..]), (Scheme::Cenc, &[(36, 16), (3, 0)])]
        {
            let mut made = Vec::new();
            subsamples(scheme, true, &cuts, &mut made).unwrap();
            let made: Vec<_> = made.into_iter().map(|one| (one.clear, one.protected)).collect();
            assert_eq!(made, expected, "{scheme:?}");
        }
    }

    #[test]
    fn samples_that_cannot_be_cut_are_refused() {
        let sets = || Vec::new().into();
        let config = Avc {
            nal_length_size: 4,
            profile: [0; 3],
            sps: sets(),
            pps: sets(),
            sps_ext: sets(),
            has_layers: false,
        };
        let mut reader = CutReader::of_slices(SliceReader::avc(&config), 4);
        let mut cut = |sample: &[u8]| {
            let mut cuts = Vec::new();
            reader.cut(sample, &mut cuts).map(|()| cuts)
        };
        // An access unit delimiter and filler data.
        let clear = [0, 0, 0, 2, 9, 0xf0, 0, 0, 0, 1, 12];
        assert_eq!(cut(&clear), Ok(vec![Cut { clear: 11, data: 0 }]));
        assert_eq!(cut(&[]), Ok(vec![]));
        assert_eq!(cut(&[0, 0, 0, 3, 9, 0xf0]), Err(CutError::BeyondSample));
        assert_eq!(cut(&[0, 0, 0]), Err(CutError::BeyondSample));
        // A slice without parameter sets, and a slice of a scalable layer.
        assert_eq!(cut(&[0, 0, 0, 2, 0x65, 0xb8]), Err(CutError::Slice(SliceError::Malformed)));
        assert!(matches!(cut(&[0, 0, 0, 1, 0x74]), Err(CutError::Slice(SliceError::Unsupported(_)))));
    }

    #[test]
    fn more_subsamples_than_a_byte_can_size_are_refused() {
        for (scheme, most) in [(Scheme::Cenc, 39), (Scheme::Cbcs, 42), (Scheme::Piff, 40)] {
            let mut out = vec![Subsample { clear: 1, protected: 0 }; 9];
            let cuts = |count| vec![Cut { clear: 5, data: 16 }; count];
            assert_eq!(subsamples(scheme, false, &cuts(most), &mut out), Ok(()));
            assert_eq!(subsamples(scheme, false, &cuts(most + 1), &mut out), Err(CutError::TooMany));
        }
    }

    proptest! {
        #[test]
        fn subsamples_cover_every_byte_once(
            cuts in prop::collection::vec((0_u32..100_000, 0_u32..100), 0..12),
        ) {
            let total: u64 = cuts.iter().map(|&(clear, data)| u64::from(clear + data)).sum();
            for scheme in [Scheme::Cenc, Scheme::Cbcs, Scheme::Piff] {
                let made = made(scheme, &cuts);
                prop_assert_eq!(made.iter().map(|&(c, p)| u64::from(c) + u64::from(p)).sum::<u64>(), total);
                prop_assert!(made.iter().all(|&one| one != (0, 0)));
                // No more than a block of each slice is left clear.
                let protected: u32 = made.iter().map(|&(_, p)| p).sum();
                let data: u32 = cuts.iter().map(|&(_, data)| data).sum();
                prop_assert!(data - protected <= 15 * u32::try_from(cuts.len()).unwrap());
            }
        }
    }
}
