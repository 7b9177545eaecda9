//! The selected part of a title: some tracks, from one time to another.
//!
//! The clip is cut from the whole title, and the filter is applied after it. The contents of a
//! segment thus do not depend on the tracks that are listed beside it.

use super::{
    Extent, Selection,
    packed_tracks::{NANOS, PackedTracks},
};
use crate::PackError;
use latemux_index::{Title, title::Segment};
use latemux_isobmff::Time;
use std::{borrow::Cow, time::Duration};

/// A title, and the part of it that a request selects.
#[derive(Debug)]
pub(crate) struct Selected<'a> {
    /// The whole title.
    pub whole: &'a Title,
    /// The selected part, unless everything is selected.
    own: Option<Title>,
    /// For each track of `own`, its index in the whole title. `None` if the tracks are the same.
    of_whole: Option<Vec<usize>>,
    /// The shortest length of HLS segments, if they are joined.
    pub minimum: Option<Duration>,
}

impl<'a> Selected<'a> {
    /// Applies a selection to a title. Only manifests are filtered, because segments' URLs name
    /// tracks. Fails with [`PackError::NothingSelected`] if no track is left, with
    /// [`PackError::NothingInClip`] if no sample is left.
    pub(crate) fn new(whole: &'a Title, selection: &Selection, is_manifest: bool) -> Result<Self, PackError> {
        let mut selected = Self { whole, own: None, of_whole: None, minimum: selection.minimum_segment };
        if !selection.clip.is_everything() {
            let clip = selection.clip;
            let clipped = whole.clipped(clip.begin().map(time), clip.end().map(time)).filter(|clipped| {
                // There may be no sample between two times.
                clipped.tracks().iter().any(|track| track.segment_count() > 0)
            });
            selected.own = Some(clipped.ok_or(PackError::NothingInClip)?);
        }
        if let Some(names) = selection.tracks.as_ref().filter(|_| is_manifest) {
            selected.keep(|title, track| {
                title.tracks().get(track).is_some_and(|track| names.contains(&track.name))
            })?;
        }
        if let Some(filter) = selection.filter.as_ref().filter(|_| is_manifest) {
            selected.keep(|title, track| filter.matches(title, track))?;
        }
        Ok(selected)
    }

    /// Leaves out the tracks that `is_kept` is false of.
    fn keep(&mut self, is_kept: impl Fn(&Title, usize) -> bool) -> Result<(), PackError> {
        let title = self.title();
        let mut of_whole = Vec::new();
        let kept = title.with_tracks(|track| {
            let is_kept = is_kept(title, track);
            of_whole.extend(self.index_in_whole(track).filter(|_| is_kept));
            is_kept
        });
        if kept.tracks().is_empty() {
            return Err(PackError::NothingSelected);
        }
        self.own = Some(kept);
        self.of_whole = Some(of_whole);
        Ok(())
    }

    /// Returns the indexes in the whole title of selected tracks.
    fn in_whole<'t>(&self, tracks: &'t [usize]) -> Option<Cow<'t, [usize]>> {
        match &self.of_whole {
            Some(_) => tracks.iter().map(|&track| self.index_in_whole(track)).collect(),
            None => Some(Cow::Borrowed(tracks)),
        }
    }

    /// Returns the index in the whole title of a selected track.
    pub(crate) fn index_in_whole(&self, track: usize) -> Option<usize> {
        match &self.of_whole {
            Some(of_whole) => of_whole.get(track).copied(),
            None => Some(track).filter(|&track| track < self.whole.tracks().len()),
        }
    }

    /// Returns the selected part. Its segments have the same numbers as in the whole title.
    pub(crate) fn title(&self) -> &Title {
        self.own.as_ref().unwrap_or(self.whole)
    }

    /// Returns `Whole` if a segment (0-based) of tracks packed together (indexes into the selected
    /// [`Title::tracks`]) is one of the whole title. `minimum` is the length for joining.
    pub(crate) fn extent(&self, tracks: &[usize], minimum: Option<Duration>, number: u32) -> Extent {
        if self.own.is_none() && minimum.is_none() {
            return Extent::Whole;
        }
        let Some(of_whole) = self.in_whole(tracks) else { return Extent::Selected };
        let packed = PackedTracks::new(self.title(), tracks).zip(PackedTracks::new(self.whole, &of_whole));
        let Some((packed, whole)) = packed else { return Extent::Selected };
        let packed = packed.joined(minimum);
        // A playlist asks this of each of its segments.
        let mut shares = tracks.iter().zip(&*of_whole);
        extent(shares.all(|(&track, &in_whole)| packed.share(track, number) == whole.share(in_whole, number)))
    }

    /// Returns `Whole` if all segments of packed tracks are the whole title's: one template serves.
    pub(crate) fn extent_of_all(&self, tracks: &[usize]) -> Extent {
        let Some(packed) = PackedTracks::new(self.title(), tracks) else { return Extent::Selected };
        if self.own.is_none() {
            return Extent::Whole;
        }
        let Some(of_whole) = self.in_whole(tracks) else { return Extent::Selected };
        let Some(whole) = PackedTracks::new(self.whole, &of_whole) else { return Extent::Selected };
        let same = |number: u32| {
            let mut shares = tracks.iter().zip(&*of_whole);
            shares.all(|(&track, &in_whole)| packed.share(track, number) == whole.share(in_whole, number))
        };
        extent(packed.numbers().all(same))
    }

    /// Like [`Self::extent_of_all`], for protocols in which a clip is moved to start at 0.
    pub(crate) fn extent_if_moved(&self, tracks: &[usize]) -> Extent {
        if self.is_moved() { Extent::Selected } else { self.extent_of_all(tracks) }
    }

    /// True for a clip that starts later than the whole title.
    pub(crate) fn is_moved(&self) -> bool {
        self.title().start() != self.whole.start()
    }

    /// True if the tracks' shares of a segment are those of the whole title.
    pub(crate) fn is_whole<'s>(
        &self,
        tracks: &[usize],
        number: u32,
        mut shares: impl Iterator<Item = Option<&'s Segment>>,
    ) -> bool {
        // Most requests select nothing.
        if self.own.is_none() && self.minimum.is_none() {
            return true;
        }
        let Some(whole) = self.shares_in_whole(tracks, number) else { return false };
        whole.iter().all(|share| shares.next() == Some(share.as_ref())) && shares.next().is_none()
    }

    fn shares_in_whole(&self, tracks: &[usize], number: u32) -> Option<Vec<Option<Segment>>> {
        let tracks = self.in_whole(tracks)?;
        Some(PackedTracks::new(self.whole, &tracks)?.shares(number).map(|(_, share)| share).collect())
    }
}

fn extent(whole: bool) -> Extent {
    if whole { Extent::Whole } else { Extent::Selected }
}

fn time(since_start: Duration) -> Time {
    Time::new(i64::try_from(since_start.as_nanos()).unwrap_or(i64::MAX), NANOS)
}
