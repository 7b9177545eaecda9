//! Init segments, and checks of the fragments of CMAF and Smooth Streaming: the samples of a `moof`
//! must lie within the next `mdat`, and the decode times of each track must be continuous.

use super::{
    body::{BodyCheck, Span},
    boxes::{BoxEvent, BoxWalk},
};
use crate::failure::{Failure, Reason};
use bytes::Bytes;
use latemux_isobmff::{
    Error,
    cursor::Cursor,
    fragment::{Moof, TrackFragment},
    movie::{Movie, Track},
};
use std::{ops::Range, sync::Arc};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        bad(error.to_string())
    }
}

fn bad(why: impl Into<String>) -> Failure {
    Failure::new(Reason::BadBoxes, why)
}

/// The parts of an init segment that are needed to read its fragments.
#[derive(Debug, Clone)]
pub struct Init {
    tracks: Vec<InitTrack>,
}

#[derive(Debug, Clone, Copy, Default)]
struct InitTrack {
    id: u32,
    /// Ticks per second.
    timescale: u32,
    /// Seconds from composition time to presentation time, as the edit list states.
    shift: f64,
    default_duration: u32,
    default_size: u32,
}

impl Init {
    /// Reads an init segment.
    ///
    /// # Errors
    /// [`Reason::BadBoxes`] if the body has no `moov` or no tracks, or a track cannot be read.
    pub fn read(body: &Bytes) -> Result<Self, Failure> {
        let file = Cursor::new(body, 0);
        let mut moov = None;
        for child in file.boxes() {
            let child = child?;
            if child.kind() == b"moov" {
                moov = Some((child.raw(), child.offset));
            }
        }
        let (moov, offset) = moov.ok_or_else(|| bad("an init segment without moov"))?;
        let movie = Movie::parse(&moov, offset)?;
        let trexes = movie.fragments.as_deref().unwrap_or_default();
        let mut tracks = Vec::new();
        for track in &movie.tracks {
            let track = track.as_ref().map_err(|error| bad(error.to_string()))?;
            let trex = trexes.iter().find(|trex| trex.track_id == track.id);
            tracks.push(InitTrack {
                id: track.id,
                timescale: track.timescale.get(),
                shift: shift(track, movie.timescale.get()),
                default_duration: trex.map_or(0, |trex| trex.duration),
                default_size: trex.map_or(0, |trex| trex.size),
            });
        }
        if tracks.is_empty() {
            return Err(bad("an init segment without tracks"));
        }
        Ok(Self { tracks })
    }
}

/// Returns the shift of an edit list in seconds. Empty edits delay the media, and the first other
/// edit may skip its start (ISO/IEC 14496-12 §8.6.6).
fn shift(track: &Track, movie_timescale: u32) -> f64 {
    let mut shift = 0.0;
    for edit in &track.edits {
        match edit.media_time {
            None => shift += edit.duration as f64 / f64::from(movie_timescale),
            Some(time) => return shift - time as f64 / f64::from(track.timescale.get()),
        }
    }
    shift
}

/// The check of one segment of fragments.
#[derive(Debug)]
pub(super) struct FragmentCheck {
    walk: BoxWalk,
    state: FragmentState,
}

#[derive(Debug, Default)]
struct FragmentState {
    init: Option<Arc<Init>>,
    timescale: u64,
    /// The byte ranges of the samples in the last `moof`, until its `mdat` arrives.
    pending: Option<Vec<Range<u64>>>,
    spans: Vec<Span>,
    fragments: usize,
    /// True if any fragment states no decode time.
    is_untimed: bool,
}

impl FragmentCheck {
    pub(super) fn new(init: Option<Arc<Init>>, timescale: u64) -> Self {
        Self {
            walk: BoxWalk::default(),
            state: FragmentState { init, timescale, ..FragmentState::default() },
        }
    }
}

impl BodyCheck for FragmentCheck {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let state = &mut self.state;
        self.walk.push(bytes, &[b"moof"], |event| match event {
            BoxEvent::Box { bytes, offset } => state.moof(&bytes, offset),
            BoxEvent::MediaStart { offset, size } => state.media_data(offset, size),
            BoxEvent::Media(_) => Ok(()),
        })
    }

    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure> {
        self.walk.finish()?;
        if self.state.pending.is_some() {
            return Err(bad("a moof without its mdat"));
        }
        if self.state.fragments == 0 {
            return Err(bad("a segment without moof"));
        }
        Ok(if self.state.is_untimed { Vec::new() } else { self.state.spans })
    }
}

impl FragmentState {
    fn moof(&mut self, bytes: &Bytes, offset: u64) -> Result<(), Failure> {
        if self.pending.is_some() {
            return Err(bad("a moof without its mdat"));
        }
        let moof = Moof::parse(bytes, offset)?;
        let mut runs = Vec::new();
        let end_of_moof = offset + bytes.len() as u64;
        for fragment in &moof.tracks {
            let known = self.init.as_ref().and_then(|i| i.tracks.iter().find(|t| t.id == fragment.track_id));
            if self.init.is_some() && known.is_none() {
                let id = fragment.track_id;
                return Err(bad(format!("a fragment of track {id}, which the init segment does not have")));
            }
            self.track_fragment(fragment, known.copied(), offset..end_of_moof, &mut runs)?;
        }
        self.pending = Some(runs);
        self.fragments += 1;
        Ok(())
    }

    fn track_fragment(
        &mut self,
        fragment: &TrackFragment,
        known: Option<InitTrack>,
        moof: Range<u64>,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), Failure> {
        let defaults = known.unwrap_or(InitTrack {
            id: fragment.track_id,
            timescale: u32::try_from(self.timescale).unwrap_or(u32::MAX),
            ..InitTrack::default()
        });
        let default_duration = fragment.default_duration.unwrap_or(defaults.default_duration);
        let default_size = fragment.default_size.unwrap_or(defaults.default_size);
        // Ticks since the decode time of the first sample.
        let mut elapsed = 0_i64;
        let mut earliest = i64::MAX;
        let mut last = 0_u32;
        for (bytes, run) in fragment.placed_runs(moof, default_size) {
            for sample in run.iter() {
                earliest = earliest.min(elapsed + i64::from(sample.composition_offset));
                last = sample.duration.unwrap_or(default_duration);
                elapsed += i64::from(last);
            }
            // Offsets with another base count from the start of a file and cannot be checked.
            if fragment.base_data_offset.is_none() {
                runs.push(bytes);
            }
        }
        if earliest == i64::MAX {
            return Ok(());
        }
        let smooth = self.init.is_none();
        let Some(start) = fragment.decode_time.or(fragment.tfxd.map(|(time, _)| time)) else {
            self.is_untimed = true;
            return Ok(());
        };
        let scale = f64::from(defaults.timescale.max(1));
        let decode = start as f64 / scale;
        let frame = f64::from(last) / scale;
        // Smooth Streaming manifests state decode times.
        let shown = if smooth { decode } else { decode + earliest as f64 / scale + defaults.shift };
        let end = decode + elapsed as f64 / scale;
        let slack = (frame / 2.0).max(0.001);
        match self.spans.iter_mut().find(|span| span.track == fragment.track_id) {
            None => self.spans.push(Span { track: fragment.track_id, begins: shown, decode, end, slack }),
            Some(span) if (decode - span.end).abs() > span.slack => {
                let before = span.end;
                let why =
                    format!("a fragment begins at {decode:.3} s, but the last one ended at {before:.3} s");
                return Err(Failure::new(Reason::TimelineGap, why));
            }
            Some(span) => (span.end, span.slack) = (end, slack),
        }
        Ok(())
    }

    fn media_data(&mut self, offset: u64, size: u64) -> Result<(), Failure> {
        let Some(runs) = self.pending.take() else {
            return Err(bad("an mdat without its moof"));
        };
        let end = offset.saturating_add(size);
        if let Some(run) = runs.iter().find(|run| run.start < offset || run.end > end) {
            let Range { start: from, end: to } = run;
            let why = format!("samples at bytes {from} to {to} are not within the mdat at {offset} to {end}");
            return Err(bad(why));
        }
        Ok(())
    }
}
