//! The `moof` box (ISO/IEC 14496-12 §8.8): the samples of one movie fragment.

use crate::{
    Error,
    boxes::{
        mfhd::Mfhd,
        saio::Saio,
        saiz::{IMPORTANCE, Saiz},
        tfdt::Tfdt,
        tfhd::Tfhd,
        tfxd::{self, PIFF_SENC, TFXD},
        trun::TrackRun,
    },
    cursor::Cursor,
    header,
};
use bytes::Bytes;
use std::ops::Range;

/// A parsed `moof`. Its runs are views into the bytes it was parsed from.
#[derive(Debug, Clone)]
pub struct Moof {
    /// Sequence number of `mfhd`.
    pub sequence: u32,
    /// Track fragments in file order. Several may belong to one track.
    pub tracks: Vec<TrackFragment>,
}

/// One `traf`.
#[derive(Debug, Clone)]
pub struct TrackFragment {
    /// `track_ID` of `tfhd`.
    pub track_id: u32,
    /// `base_data_offset` of `tfhd`, in bytes from the start of the file.
    pub base_data_offset: Option<u64>,
    /// `default-base-is-moof` of the `tfhd` flags.
    pub default_base_is_moof: bool,
    /// `duration-is-empty` of the `tfhd` flags: the fragment has no samples.
    pub duration_is_empty: bool,
    /// 1-based index into `stsd`. This and the following defaults are `None` if `trex` holds them.
    pub sample_description_index: Option<u32>,
    /// Default sample duration in track ticks.
    pub default_duration: Option<u32>,
    /// Default sample size in bytes.
    pub default_size: Option<u32>,
    /// Default sample flags (§8.8.3.1).
    pub default_flags: Option<u32>,
    /// Base media decode time of `tfdt` in track ticks, before the edit list.
    pub decode_time: Option<u64>,
    /// Absolute time and duration of a Smooth Streaming file's `tfxd` ([MS-SSTR] 2.2.4.4), in track
    /// ticks.
    pub tfxd: Option<(u64, u64)>,
    /// True if there is encryption data for samples (`senc`, PIFF's `uuid`, `saiz`).
    pub encrypted: bool,
    /// Layers of samples outside the runs, see [`crate::emit::ReorderedSpec::layers`].
    pub layers: Option<LayerInfo>,
    /// Runs in file order.
    pub runs: Vec<TrackRun>,
}

/// Auxiliary information of the type [`IMPORTANCE`] that states layers of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerInfo {
    /// Size in bytes of the information of each sample, if all have the same, else 0.
    common: u8,
    /// Size in bytes of the information of each sample, in decode order, if they differ.
    sizes: Bytes,
    /// Offset in bytes of the information of the first sample, from the base of the data offsets.
    /// That of the others follows.
    pub offset: u32,
}

impl LayerInfo {
    /// Returns the size in bytes of the information of a sample, whose number counts from 0.
    pub fn size(&self, sample: usize) -> usize {
        let stated = self.sizes.get(sample).copied().filter(|_| self.common == 0);
        stated.unwrap_or(self.common).into()
    }

    /// Returns the offset from the base of the data offsets and the size in bytes of each layer
    /// that the information of a sample states.
    pub fn layers(info: &[u8]) -> impl Iterator<Item = (u32, u32)> {
        // The importance comes first.
        let (places, _) = info.get(1..).unwrap_or_default().as_chunks::<8>();
        places.iter().map(|&[a, b, c, d, e, f, g, h]| {
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
        })
    }
}

impl Moof {
    /// Maximum number of track fragments that are read.
    pub const MAX_TRACKS: usize = 1024;

    /// Parses a whole `moof` box, header included. `offset` is its offset in the file, for error
    /// messages.
    ///
    /// # Errors
    /// Any error in a box that it reads; [`Error::Missing`] without `mfhd` or `tfhd`;
    /// [`Error::TooLarge`] for counts beyond the bytes, [`Error::OverLimit`] for counts beyond the
    /// limits of this crate.
    pub fn parse(moof: &Bytes, offset: u64) -> Result<Self, Error> {
        let moof = header::expect(moof, offset, b"moof")?.payload;
        let mut sequence = None;
        let mut tracks = Vec::new();
        let mut bare = BareBudget::default();
        for child in moof.boxes() {
            let child = child?;
            match &child.kind().0 {
                b"mfhd" if sequence.is_none() => sequence = Some(Mfhd::parse(child.payload)?.0),
                b"traf" => {
                    let count = tracks.len() as u64 + 1;
                    moof.check_limit("number of traf", count, Self::MAX_TRACKS as u64)?;
                    tracks.push(TrackFragment::parse(&child.payload, &mut bare)?);
                }
                _ => {}
            }
        }
        let sequence = sequence.ok_or_else(|| moof.missing(b"mfhd"))?;
        Ok(Self { sequence, tracks })
    }
}

impl TrackFragment {
    /// Returns the runs, each with the range of its samples' bytes in the file. `moof` is the range
    /// of the fragment's `moof` in the file. The track fragment must state no `base_data_offset`.
    /// If the first run states no offset, it begins behind the header of the `mdat` that follows.
    /// `default_size` is the size of samples whose run states none.
    pub fn placed_runs(
        &self,
        moof: Range<u64>,
        default_size: u32,
    ) -> impl Iterator<Item = (Range<u64>, &TrackRun)> {
        let mut next = moof.end.saturating_add(8);
        self.runs.iter().map(move |run| {
            let stated = run.data_offset.map(|offset| moof.start.saturating_add_signed(offset.into()));
            let start = stated.unwrap_or(next);
            next = start.saturating_add(run.bytes(default_size));
            (start..next, run)
        })
    }
}

/// Number of samples without fields of their own, over all runs of a `moof`. No bytes confirm them,
/// so all runs together may claim only as many as one run may.
#[derive(Default)]
struct BareBudget(u32);

impl BareBudget {
    fn spend(&mut self, run: &TrackRun, payload: &Cursor<'_>) -> Result<(), Error> {
        if run.is_bare() {
            self.0 += run.count;
        }
        payload.check_limit("samples without fields", self.0.into(), TrackRun::MAX_BARE.into())
    }
}

impl TrackFragment {
    fn parse(traf: &Cursor<'_>, bare: &mut BareBudget) -> Result<Self, Error> {
        let mut tfhd = None;
        let mut decode_time = None;
        let mut tfxd = None;
        let mut encrypted = false;
        let mut layer_sizes = None;
        let mut layer_offset = None;
        let mut runs = Vec::new();
        for child in traf.boxes() {
            let child = child?;
            match &child.kind().0 {
                b"tfhd" if tfhd.is_none() => tfhd = Some(Tfhd::parse(child.payload)?),
                b"tfdt" if decode_time.is_none() => decode_time = Some(Tfdt::parse(child.payload)?.0),
                b"trun" => {
                    let run = TrackRun::parse(child.payload.clone())?;
                    bare.spend(&run, &child.payload)?;
                    runs.push(run);
                }
                b"senc" => encrypted = true,
                b"saiz" => {
                    let mut payload = child.payload;
                    let saiz = Saiz::parse(&mut payload).ok();
                    // Other auxiliary information does not concern encryption.
                    encrypted |= saiz.is_none_or(|saiz| saiz.is_encryption());
                    // One byte is the importance alone, without layers.
                    let has_layers = |saiz: &Saiz| saiz.info_type == Some(IMPORTANCE) && saiz.size != 1;
                    if let Some(Saiz { size, count, .. }) = saiz.filter(has_layers) {
                        let count = if size == 0 { count } else { 0 };
                        layer_sizes = Some((size, payload.table("sample_count", count, 1)?));
                    }
                }
                b"saio" => {
                    if let Ok((Some(IMPORTANCE), offset)) = Saio::parse_first(child.payload) {
                        layer_offset = offset;
                    }
                }
                b"uuid" => match child.usertype() {
                    Some(TFXD) => tfxd = Some(tfxd::parse(child.payload)?),
                    Some(PIFF_SENC) => encrypted = true,
                    _ => {}
                },
                _ => {}
            }
        }
        let tfhd = tfhd.ok_or_else(|| traf.missing(b"tfhd"))?;
        Ok(Self {
            track_id: tfhd.track_id,
            base_data_offset: tfhd.base_data_offset,
            default_base_is_moof: tfhd.default_base_is_moof,
            duration_is_empty: tfhd.duration_is_empty,
            sample_description_index: tfhd.sample_description_index,
            default_duration: tfhd.default_duration,
            default_size: tfhd.default_size,
            default_flags: tfhd.default_flags,
            decode_time,
            tfxd,
            encrypted,
            layers: layer_sizes.zip(layer_offset).map(|((common, sizes), offset)| LayerInfo {
                common,
                sizes,
                offset,
            }),
            runs,
        })
    }
}
