//! Bit rates of playlists. Each track's samples are read once, however many playlists it is in.

use super::{iframe_durations, listed_segments, packed_for_playlist, targets::VideoTargets};
use crate::{
    carry::{Protocol, sends_webvtt},
    manifest::MICROS,
    protection::Protection,
    segment::{PackedTracks, iframes, ts::PSI_BYTES},
    sizes::{
        Bitrate, SegmentSize, SizesBeside, add_encryption, packed_sizes, segment_and_iframe_sizes, tail_bytes,
    },
};
use latemux_index::{Title, media::TrackKind};
use std::{cell::OnceCell, time::Duration};

/// Sizes of a title's tracks in a protocol, each computed on first use.
#[derive(Debug)]
pub(super) struct Rates<'a> {
    title: &'a Title,
    protocol: Protocol,
    minimum: Option<Duration>,
    protection: Option<&'a Protection>,
    targets: VideoTargets<'a>,
    /// Target durations of I-frame playlists, whose segments are not joined.
    iframe_targets: VideoTargets<'a>,
    beside: SizesBeside<'a>,
    own: Vec<OnceCell<Own>>,
    /// For each track: bit rates of the playlist of it alone.
    alone: Vec<OnceCell<Bitrate>>,
}

/// Sizes and times of one track.
#[derive(Debug, Default)]
struct Own {
    /// Bytes of each segment, without PAT and PMT.
    segments: Vec<u64>,
    /// Bytes of each I-frame.
    iframes: Vec<u64>,
    /// Duration of each I-frame in microseconds, as its playlist states it.
    iframe_durations: Vec<i64>,
}

impl<'a> Rates<'a> {
    pub(super) fn new(
        title: &'a Title,
        protocol: Protocol,
        minimum: Option<Duration>,
        protection: Option<&'a Protection>,
    ) -> Self {
        let own = title.tracks().iter().map(|_| OnceCell::new()).collect();
        let alone = title.tracks().iter().map(|_| OnceCell::new()).collect();
        let targets = VideoTargets::new(title, minimum);
        let iframe_targets = VideoTargets::new(title, None);
        let beside = SizesBeside::new(title, protocol);
        Self { title, protocol, minimum, protection, targets, iframe_targets, beside, own, alone }
    }

    /// Returns the bit rates of the media playlist of tracks, lead first.
    pub(super) fn of(&self, tracks: &[usize]) -> Bitrate {
        let least = || self.targets.least(tracks);
        let compute = || {
            let packed = self.pack(tracks);
            let listed = packed.iter().flat_map(listed_segments).map(|(_, micros)| micros);
            rates_of(listed, &self.bytes(tracks), least())
        };
        match tracks {
            [track] => self.alone.get(*track).map_or_else(compute, |cell| *cell.get_or_init(compute)),
            _ => compute(),
        }
    }

    /// Returns the bit rates of the I-frame playlist of a track.
    pub(super) fn of_iframes(&self, track: usize) -> Bitrate {
        let Some(own) = self.computed(track) else { return rates_of([].into_iter(), &[], 1) };
        if self.are_segments(track, own) {
            return self.of(&[track]);
        }
        let least = self.iframe_targets.least(&[track]);
        rates_of(own.iframe_durations.iter().copied(), &own.iframes, least)
    }

    /// Returns true if the I-frames of a track are its segments, so that both playlists have the
    /// same sizes and durations.
    fn are_segments(&self, track: usize, own: &Own) -> bool {
        self.minimum.is_none()
            && own.iframes.len() == self.title.tracks()[track].grid_segments.len()
            && own.segments.iter().map(|size| size + self.psi()).eq(own.iframes.iter().copied())
    }

    /// Returns at least the bytes of every segment of text in WebVTT. `None` for other tracks.
    fn text_sizes(&self, track: usize) -> Option<Vec<u64>> {
        let of_title = self.title.track(&self.title.tracks()[track]);
        let is_webvtt = of_title.kind == TrackKind::Text && sends_webvtt(self.title, self.protocol);
        let tracks = [track];
        let packed = self.pack(&tracks).filter(|_| is_webvtt)?;
        Some(packed_sizes(self.title, &packed, Protocol::HlsTs))
    }

    fn pack<'t>(&'t self, tracks: &'t [usize]) -> Option<PackedTracks<'t>> {
        packed_for_playlist(self.title, tracks, self.minimum)
    }

    fn sizes(&self, tracks: &[usize]) -> Vec<u64> {
        match self.minimum {
            Some(_) => self.pack(tracks).map(|packed| packed_sizes(self.title, &packed, self.protocol)),
            None => PackedTracks::new(self.title, tracks).map(|packed| self.beside.packed(&packed)),
        }
        .unwrap_or_default()
    }

    /// Returns the bytes of each segment of tracks, lead first, as sent.
    fn bytes(&self, tracks: &[usize]) -> Vec<u64> {
        let Some((&lead, others)) = tracks.split_first() else { return Vec::new() };
        let grid = |track: usize| &self.title.tracks()[track].grid_segments;
        let differs = |&other: &usize| self.minimum.is_some() || grid(lead) != grid(other);
        if others.iter().any(differs) {
            return self.sizes(tracks);
        }
        let mut bytes: Vec<u64> = self.own(lead).iter().map(|size| size + self.psi()).collect();
        for &track in others {
            for (sum, more) in bytes.iter_mut().zip(self.own(track)) {
                *sum += *more;
            }
        }
        if let (Some(last), Some(packed)) = (bytes.last_mut(), self.pack(tracks)) {
            *last += tail_bytes(self.title, &packed, self.protocol);
        }
        bytes
    }

    fn psi(&self) -> u64 {
        if self.protocol == Protocol::HlsTs { PSI_BYTES } else { 0 }
    }

    fn own(&self, track: usize) -> &[u64] {
        self.computed(track).map_or(&[], |own| &own.segments)
    }

    fn computed(&self, track: usize) -> Option<&Own> {
        self.own.get(track).map(|cell| cell.get_or_init(|| self.compute(track)))
    }

    fn compute(&self, track: usize) -> Own {
        if let Some(sizes) = self.text_sizes(track) {
            let segments = sizes.into_iter().map(|size| size.saturating_sub(self.psi())).collect();
            return Own { segments, ..Own::default() };
        }
        let frames = iframes::of_track(self.title, track);
        let (mut segments, mut iframes) = segment_and_iframe_sizes(self.title, track, self.protocol, &frames);
        if self.minimum.is_some() {
            segments = self.sizes(&[track]);
        }
        segments.iter_mut().for_each(|size| *size -= self.psi());
        let name = &self.title.tracks()[track].name;
        let cover = self.protection.map(|p| p.cover(self.protocol, std::slice::from_ref(name)));
        if let (Some(Ok(Some(cover))), Some(packed)) = (cover, self.pack(&[track])) {
            add_encryption(self.title, &packed, track, &cover, &mut segments);
            iframes.iter_mut().for_each(|size| *size += cover.added_bytes(true, 1));
        }
        Own { segments, iframes, iframe_durations: iframe_durations(self.title, track, &frames) }
    }
}

/// Returns the bit rates of segments with the durations in microseconds that a playlist states. Its
/// target duration is at least `least_target` seconds.
fn rates_of(listed: impl Iterator<Item = i64>, bytes: &[u64], least_target: i64) -> Bitrate {
    let segments: Vec<SegmentSize> = listed
        .zip(bytes)
        .map(|(micros, &bytes)| SegmentSize { bytes, duration: u64::try_from(micros).unwrap_or(0) })
        .collect();
    Bitrate::of_playlist(&segments, MICROS.get(), u64::try_from(least_target).unwrap_or(0))
}
