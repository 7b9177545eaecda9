//! Plans of thumbnails.

use super::{Class, Part, Planned, SourceRange, planner::Planner};
use crate::{
    PackError,
    address::{IFrameNumber, displayed_rep_id},
    segment::cmaf::{self, SampleForm},
};
use latemux_index::{
    media::{
        Samples, TrackKind,
        thumbnails::{ThumbnailTrack, Tiles},
    },
    title::{TitleThumbnails, TrackName},
};

impl<'a> Planner<'a> {
    /// Plans a sheet of thumbnails by its number (1-based).
    pub(super) fn thumbnail_sheet(&self, name: &TrackName, number: u32) -> Result<Planned, PackError> {
        let (of, track) = self.thumbnails(name)?;
        let sheet = number.checked_sub(1).and_then(|index| track.sheet(index));
        let range = sheet.map(|sheet| sheet.bytes).filter(|bytes| !bytes.is_empty());
        let range = range.ok_or_else(|| no_sheet(name, number))?;
        let parts = vec![Part::Source(SourceRange { object: of.object, range })];
        let what = format_args!("thumbnails {} {number}", displayed_rep_id(name));
        Ok(self.ready(Class::Media, "image/jpeg", what, parts, Vec::new()))
    }

    /// Plans the init segment of pictures that HLS lists as I-frames.
    pub(super) fn thumbnail_init(&self, name: &TrackName) -> Result<Planned, PackError> {
        let (_, track) = self.pictures(name)?;
        let what = format_args!("thumbnails init {}", displayed_rep_id(name));
        Ok(self.init(TrackKind::Video, what, cmaf::init(&track.track)))
    }

    /// Plans a picture as an I-frame of HLS. Each picture counts as a segment.
    pub(super) fn thumbnail_iframe(&self, name: &TrackName, n: IFrameNumber) -> Result<Planned, PackError> {
        let (of, track) = self.pictures(name)?;
        let number = n.segment;
        let index = number.checked_sub(1).filter(|_| n.place == 1).ok_or_else(|| no_sheet(name, number))?;
        let Samples::Table(table) = &track.track.samples else { return Err(no_sheet(name, number)) };
        let samples: Vec<_> = table.range(index..number).collect();
        if samples.is_empty() {
            return Err(no_sheet(name, number));
        }
        let parts = cmaf::media(of.object, number, &samples, SampleForm::Clear)?;
        let what = format_args!("thumbnails iframe {} {number}", displayed_rep_id(name));
        Ok(self.ready(Class::Media, "video/mp4", what, parts, Vec::new()))
    }

    fn thumbnails(&self, name: &TrackName) -> Result<(&'a TitleThumbnails, &'a ThumbnailTrack), PackError> {
        let of = self.title.find_thumbnails(name).ok_or_else(|| PackError::NoSuchTrack(name.to_string()))?;
        Ok((of, self.title.thumbnail_track(of)))
    }

    /// Finds thumbnails whose sheets are single pictures.
    fn pictures(&self, name: &TrackName) -> Result<(&'a TitleThumbnails, &'a ThumbnailTrack), PackError> {
        let found = self.thumbnails(name)?;
        if found.0.tiles == Tiles::ONE { Ok(found) } else { Err(PackError::NoSuchTrack(name.to_string())) }
    }
}

fn no_sheet(name: &TrackName, number: u32) -> PackError {
    PackError::NoSuchSegment { track: name.to_string(), segment: number.to_string() }
}
