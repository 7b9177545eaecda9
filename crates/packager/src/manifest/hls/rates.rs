//! Bit rates of variants. Each track's samples are read once, however many variants it is in.

use crate::{
    carry::Protocol,
    segment::{PackedTracks, ts::PSI_BYTES},
    sizes::{Bitrate, SegmentSize, iframe_sizes, packed_sizes, segment_and_iframe_sizes},
};
use latemux_index::Title;
use std::{borrow::Cow, cell::OnceCell, time::Duration};

/// Sizes of a title's tracks in a protocol, each computed on first use.
#[derive(Debug)]
pub(super) struct Rates<'a> {
    title: &'a Title,
    protocol: Protocol,
    minimum: Option<Duration>,
    /// For each track: bytes of its segments without PAT and PMT, and of its I-frames.
    own: Vec<OnceCell<(Vec<u64>, Vec<u64>)>>,
}

impl<'a> Rates<'a> {
    pub(super) fn new(title: &'a Title, protocol: Protocol, minimum: Option<Duration>) -> Self {
        Self { title, protocol, minimum, own: title.tracks().iter().map(|_| OnceCell::new()).collect() }
    }

    /// Returns the bit rates of tracks packed into one segment each, played together with tracks
    /// that have segments of their own. The first of all tracks is the lead. In CMAF, where no
    /// tracks are packed together, the distinction has no effect.
    pub(super) fn of(&self, packed: &[usize], beside: &[usize]) -> Bitrate {
        let tracks: Vec<usize> = packed.iter().chain(beside).copied().collect();
        let (Some(all), Some(&lead)) = (self.pack(&tracks), tracks.first()) else {
            return Bitrate { peak: 0, average: 0 };
        };
        let psi = self.psi() * (1 + beside.len() as u64);
        let mut bytes: Vec<u64> = self.own(lead).iter().map(|size| size + psi).collect();
        for &track in tracks.iter().skip(1) {
            for (sum, more) in bytes.iter_mut().zip(self.added(lead, track).iter()) {
                *sum += *more;
            }
        }
        let segments: Vec<SegmentSize> = all
            .numbers()
            .zip(bytes)
            .map(|(number, bytes)| SegmentSize { bytes, duration: all.duration(number) })
            .collect();
        Bitrate::of(&segments, self.title.track(all.lead()).timescale.get())
    }

    fn pack<'t>(&'t self, tracks: &'t [usize]) -> Option<PackedTracks<'t>> {
        Some(PackedTracks::new(self.title, tracks)?.joined(self.minimum))
    }

    fn sizes(&self, tracks: &[usize]) -> Vec<u64> {
        self.pack(tracks).map(|packed| packed_sizes(self.title, &packed, self.protocol)).unwrap_or_default()
    }

    fn psi(&self) -> u64 {
        if self.protocol == Protocol::HlsTs { PSI_BYTES } else { 0 }
    }

    fn own(&self, track: usize) -> &[u64] {
        self.computed(track).map_or(&[], |(own, _)| own)
    }

    /// Returns the bytes of the I-frame at the start of every segment of a track, as sent alone.
    pub(super) fn iframes(&self, track: usize) -> &[u64] {
        self.computed(track).map_or(&[], |(_, iframes)| iframes)
    }

    fn computed(&self, track: usize) -> Option<&(Vec<u64>, Vec<u64>)> {
        let compute = || {
            let (mut own, iframes) = match self.minimum {
                None => segment_and_iframe_sizes(self.title, track, self.protocol),
                Some(_) => (self.sizes(&[track]), iframe_sizes(self.title, track, self.protocol)),
            };
            own.iter_mut().for_each(|size| *size -= self.psi());
            (own, iframes)
        };
        self.own.get(track).map(|cell| cell.get_or_init(compute))
    }

    /// Returns the bytes that a track adds to each of the lead's segments.
    fn added(&self, lead: usize, track: usize) -> Cow<'_, [u64]> {
        let grid = |track: usize| &self.title.tracks()[track].grid_segments;
        if self.minimum.is_none() && grid(lead) == grid(track) {
            return Cow::Borrowed(self.own(track));
        }
        let both = self.sizes(&[lead, track]);
        let alone = self.own(lead).iter().map(|size| size + self.psi());
        both.iter().zip(alone).map(|(both, alone)| both.saturating_sub(alone)).collect()
    }
}
