//! The selected part of a title: some tracks, from one time to another.
//!
//! The clip is cut from the whole title, and the filter is applied after it. The contents of a
//! segment thus do not depend on the tracks that are listed beside it.

use crate::{
    Address, PackError,
    address::{Extent, Resource},
    segment::Mux,
};
use latemux_index::{Title, title::Segment};
use latemux_isobmff::{Time, Timescale};
use std::time::Duration;

/// Nanoseconds.
const NANOS: Timescale = match Timescale::new(1_000_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// A title, and the part of it that a request selects.
#[derive(Debug)]
pub struct Selected<'a> {
    /// The whole title.
    pub whole: &'a Title,
    /// The selected part, unless everything is selected.
    own: Option<Title>,
    /// The shortest length of HLS segments, if they are joined.
    pub minimum: Option<Duration>,
}

impl<'a> Selected<'a> {
    /// Applies a selection to a title. Only manifests are filtered (`is_manifest`), because the URL
    /// of a segment names its tracks.
    ///
    /// # Errors
    /// [`PackError::NothingSelected`] if no track is left, [`PackError::NothingInClip`] if no
    /// sample is left.
    pub fn new(whole: &'a Title, address: &Address) -> Result<Self, PackError> {
        let selection = &address.selection;
        let mut own = None;
        if !selection.clip.is_everything() {
            let (begin, end) = (selection.clip.begin(), selection.clip.end());
            let clipped = whole.clipped(begin.map(time), end.map(time)).filter(|clipped| {
                // There may be no sample between two times.
                clipped.tracks().iter().any(|track| track.segment_count() > 0)
            });
            own = Some(clipped.ok_or(PackError::NothingInClip)?);
        }
        if let Some(tracks) = selection.tracks.as_ref().filter(|_| address.resource.is_manifest()) {
            let title = own.as_ref().unwrap_or(whole);
            let chosen = title.with_tracks(|track| {
                title.tracks().get(track).is_some_and(|track| tracks.contains(&track.name))
            });
            if chosen.tracks().is_empty() {
                return Err(PackError::NothingSelected);
            }
            own = Some(chosen);
        }
        if let Some(filter) = selection.filter.as_ref().filter(|_| address.resource.is_manifest()) {
            let title = own.as_ref().unwrap_or(whole);
            let chosen = title.with_tracks(|track| filter.takes(title, track));
            if chosen.tracks().is_empty() {
                return Err(PackError::NothingSelected);
            }
            own = Some(chosen);
        }
        Ok(Self { whole, own, minimum: selection.minimum_segment })
    }

    /// Returns the selected part. It has no more tracks than the whole title, and its segments have
    /// the same numbers.
    #[must_use]
    pub fn title(&self) -> &Title {
        self.own.as_ref().unwrap_or(self.whole)
    }

    /// Returns `Whole` if a segment (0-based) of tracks packed together (indexes into the selected
    /// [`Title::tracks`]) is one of the whole title. `minimum` is the length that segments are
    /// joined to.
    #[must_use]
    pub fn extent(&self, tracks: &[usize], minimum: Option<Duration>, number: u32) -> Extent {
        if self.own.is_none() && minimum.is_none() {
            return Extent::Whole;
        }
        let Some(mux) = Mux::new(self.title(), tracks) else { return Extent::Selected };
        let parts: Vec<Option<Segment>> = mux.joined(minimum).parts(number).map(|(_, part)| part).collect();
        let parts: Vec<Option<&Segment>> = parts.iter().map(Option::as_ref).collect();
        extent(self.is_whole(tracks, number, &parts))
    }

    /// Returns `Whole` if the sync sample at the start of a track's segment is that of the whole
    /// title.
    #[must_use]
    pub fn iframe_extent(&self, track: usize, number: u32) -> Extent {
        let segment = self.title().tracks().get(track).and_then(|track| track.segment(number));
        extent(self.starts_whole(&[track], number, &[segment.as_ref()]))
    }

    /// Returns `Whole` if all segments of tracks packed together are those of the whole title, so
    /// that one template serves for their URLs.
    #[must_use]
    pub fn extent_of_all(&self, tracks: &[usize]) -> Extent {
        let Some(mux) = Mux::new(self.title(), tracks) else { return Extent::Selected };
        extent(mux.numbers().all(|number| self.extent(tracks, None, number) == Extent::Whole))
    }

    /// True if the tracks' shares of a segment are those of the whole title.
    pub(crate) fn is_whole(&self, tracks: &[usize], number: u32, parts: &[Option<&Segment>]) -> bool {
        // Most requests select nothing.
        (self.own.is_none() && self.minimum.is_none())
            || self
                .in_whole(tracks, number)
                .is_some_and(|whole| whole.iter().map(Option::as_ref).eq(parts.iter().copied()))
    }

    /// True if the shares begin with the same samples as in the whole title.
    pub(crate) fn starts_whole(&self, tracks: &[usize], number: u32, parts: &[Option<&Segment>]) -> bool {
        let start = |segment: &Segment| segment.cut.start;
        self.in_whole(tracks, number).is_some_and(|whole| {
            let starts = whole.iter().map(|part| part.as_ref().map(start));
            starts.eq(parts.iter().map(|part| part.map(start)))
        })
    }

    fn in_whole(&self, tracks: &[usize], number: u32) -> Option<Vec<Option<Segment>>> {
        let name = |&i: &usize| self.title().tracks().get(i).map(|track| &track.name);
        let tracks = tracks.iter().map(|i| self.whole.find(name(i)?)).collect::<Option<Vec<usize>>>()?;
        Some(Mux::new(self.whole, &tracks)?.parts(number).map(|(_, part)| part).collect())
    }
}

fn extent(whole: bool) -> Extent {
    if whole { Extent::Whole } else { Extent::Selected }
}

fn time(since_start: Duration) -> Time {
    Time::new(i64::try_from(since_start.as_nanos()).unwrap_or(i64::MAX), NANOS)
}

impl Resource {
    /// True for resources that are made from the index alone and list others. Segments are
    /// immutable; manifests are not.
    #[must_use]
    pub fn is_manifest(&self) -> bool {
        matches!(
            self,
            Self::DashManifest(_)
                | Self::HlsMultivariant(_)
                | Self::HlsPlaylist(..)
                | Self::HlsIFramePlaylist(..)
                | Self::SmoothManifest
                | Self::HdsManifest
                | Self::HdsBootstrap(_)
        )
    }
}
