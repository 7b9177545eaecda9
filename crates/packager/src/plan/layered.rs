//! Plans of scalable video in order of importance.

use super::{
    MediaFirst, MediaSegment, Planned,
    planner::{Planner, Resolved},
};
use crate::{
    PackError,
    digest::{SampleChoice, cut_text},
    segment::layers::LayeredMedia,
};
use latemux_index::title::Segment;

impl Planner<'_> {
    /// Plans a CMAF segment of a track whose samples may have layers, and lengths of so many bytes
    /// before their NAL units. `what` is the text of its digest in decode order, without the cut.
    pub(super) fn layered(
        &self,
        index: usize,
        segment: Option<Segment>,
        requested: u64,
        nal_length_size: u8,
        what: std::fmt::Arguments<'_>,
    ) -> Result<Planned, PackError> {
        let (segment, samples) = match self.resolve(index, segment, requested, SampleChoice::All)? {
            Resolved::Known(segment, samples) => (segment, samples),
            Resolved::Needs(needs) => return Ok(Planned::Needs(needs)),
        };
        let title_track = &self.title.tracks()[index];
        let cut = cut_text(self.selected, &[index], segment.number, std::iter::once(Some(&segment)));
        let digest = self.digest(format_args!("{what} by layers{cut}"));
        let reach = self.reach([(index, &segment)]);
        let media = LayeredMedia::new(nal_length_size, title_track.object, segment.number + 1, samples);
        let segment = MediaSegment::Layers(Box::new(media));
        Ok(Planned::NeedsMedia(MediaFirst { digest, segment, reach, seal: None }))
    }
}
