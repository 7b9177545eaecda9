//! A file of Smooth Streaming fragments (ismv, PIFF 1.1): `moov`, the fragments of all tracks by
//! time, and an `mfra` with the position of each.
//!
//! The fragments are the same bytes as under their URLs, with a `tfxd` and without a `tfrf`, which
//! announces fragments of a live presentation. Their times are later than presentation times by one
//! delay. An edit list subtracts it for readers other than Smooth Streaming servers.

use super::Fragment;
use crate::{
    PackError, Resource,
    carry::{Protocol, must_carry},
    segment::{
        Clock, cmaf,
        smooth::{self, SCALE},
    },
};
use bytes::Bytes;
use latemux_index::{Title, media::TrackKind, title::TitleTrack};
use latemux_isobmff::{
    FourCc,
    boxes::{
        ftyp::FileType,
        mfra::{Mfra, Tfra, TfraEntry},
    },
    emit::{InitSegment, InitTrack, WriteBox as _},
};

/// The tracks and fragments of an ismv file.
#[derive(Debug)]
pub struct IsmvFile<'a> {
    clock: Clock<'a>,
    /// Indexes into [`Title::tracks`], in the order of the objects and of the tracks in them.
    tracks: Vec<usize>,
}

/// One fragment of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentRequest {
    /// Index into [`IsmvFile::tracks`].
    pub track: usize,
    /// The resource to plan.
    pub resource: Resource,
}

impl<'a> IsmvFile<'a> {
    /// Creates a file of some tracks of a title (indexes into [`Title::tracks`]), given in any
    /// order.
    ///
    /// # Errors
    /// [`PackError::CannotCarry`] if Smooth Streaming does not carry a track,
    /// [`PackError::NoSuchTrack`] if the title lacks one or no track is given.
    pub fn new(title: &'a Title, tracks: &[usize]) -> Result<Self, PackError> {
        let mut tracks = tracks.to_vec();
        for &index in &tracks {
            let none = || PackError::NoSuchTrack(index.to_string());
            let track = title.track(title.tracks().get(index).ok_or_else(none)?);
            must_carry(Protocol::Smooth, track)?;
        }
        tracks.sort_by_key(|&index| title.tracks().get(index).map(|t| (t.object, t.track)));
        tracks.dedup();
        if tracks.is_empty() {
            return Err(PackError::NoSuchTrack("none".to_owned()));
        }
        Ok(Self { clock: smooth::clock(title), tracks })
    }

    /// Returns the tracks as indexes into [`Title::tracks`], in the order of the file.
    pub fn tracks(&self) -> &[usize] {
        &self.tracks
    }

    /// Returns all bytes before the first fragment: `ftyp` and `moov`.
    pub fn header(&self) -> Bytes {
        let ends =
            self.tracks.iter().filter_map(|&t| self.clock.boundary(t, self.title_track(t)?.numbers().end));
        let duration = ends.max().and_then(|end| u64::try_from(end).ok());
        let tracks =
            self.tracks.iter().filter_map(|&t| Some(self.init_track(t, self.title_track(t)?))).collect();
        let brands = FileType {
            major: FourCc(*b"isml"),
            minor_version: 1,
            // `iso6` permits offsets that count from the `moof`.
            compatible: [*b"piff", *b"iso6"].map(FourCc).to_vec(),
            is_segment: false,
        };
        InitSegment { brands, timescale: SCALE, duration, tracks, pssh: Vec::new() }.to_bytes()
    }

    /// Iterates over the fragments by time, and for equal times in the order of the tracks.
    pub fn fragments(&self) -> impl Iterator<Item = FragmentRequest> + '_ {
        let first = |&track: &usize| self.title_track(track).map_or(0, |track| track.numbers().start);
        let mut next: Vec<u32> = self.tracks.iter().map(first).collect();
        std::iter::from_fn(move || {
            let upcoming =
                next.iter().zip(&self.tracks).enumerate().filter_map(|(position, (&number, &track))| {
                    let of = self.title_track(track)?;
                    (number < of.numbers().end).then_some(())?;
                    Some((self.clock.boundary(track, number)?, position, of))
                });
            let (time, position, of) = upcoming.min_by_key(|&(time, position, _)| (time, position))?;
            if let Some(number) = next.get_mut(position) {
                *number += 1;
            }
            let time = u64::try_from(time).unwrap_or(0);
            Some(FragmentRequest {
                track: position,
                resource: Resource::SmoothFragment(of.name.clone(), time),
            })
        })
    }

    /// Returns the end of the file: the position of each fragment that begins with a sync sample.
    /// `written` lists all fragments in the order of the file, each with its track (as in
    /// [`FragmentRequest::track`]) and the number of bytes before it.
    pub fn index(&self, written: &[(usize, u64, Fragment)]) -> Bytes {
        let entries = |position: usize| {
            let own = written.iter().filter(move |(track, _, fragment)| *track == position && fragment.sync);
            own.map(|&(_, at, fragment)| TfraEntry {
                time: u64::try_from(fragment.first).unwrap_or(0),
                moof_offset: at + fragment.moof_at,
                traf: 1,
                trun: 1,
                sample: 1,
            })
        };
        let tracks = self.tracks.iter().enumerate().map(|(position, &track)| Tfra {
            track_id: smooth::track_id(self.clock.title(), track),
            entries: entries(position).collect(),
        });
        let mut out = Vec::new();
        Mfra { tracks: tracks.collect() }.write(&mut out);
        out.into()
    }

    fn title_track(&self, track: usize) -> Option<&'a TitleTrack> {
        self.clock.title().tracks().get(track)
    }

    fn init_track(&self, index: usize, title_track: &TitleTrack) -> InitTrack {
        let track = self.clock.title().track(title_track);
        let track_id = smooth::track_id(self.clock.title(), index);
        InitTrack {
            timescale: SCALE,
            enabled: track.enabled,
            // Renditions and languages are alternatives.
            alternate_group: match track.kind {
                TrackKind::Video => 1,
                TrackKind::Audio => 2,
                TrackKind::Text => 3,
            },
            edit_media_time: self.clock.delay(),
            ..cmaf::init_track(track_id, track)
        }
    }
}
