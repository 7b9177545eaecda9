//! Plans of text that is sent in another form than it is stored in.

use super::{MediaFirst, MediaSegment, Planned, planner::Planner, planner::Resolved};
use crate::{
    PackError,
    address::{HlsContainer, displayed_rep_id},
    carry::{Protocol, find_carried},
    digest::{SampleChoice, cut_text},
    segment::{
        PackedTracks,
        text::{CONVERTER, TextForm, TextMedia, check_size},
    },
};
use latemux_index::{
    media::TrackKind,
    title::{Segment, TrackName},
};

impl Planner<'_> {
    /// Plans a WebVTT segment of HLS (1-based).
    pub(super) fn hls_text(
        &self,
        name: &TrackName,
        number: u32,
        container: HlsContainer,
    ) -> Result<Planned, PackError> {
        let (protocol, form) = match container {
            HlsContainer::Auto => (Protocol::HlsTs, TextForm::WebVttOfTs),
            HlsContainer::Cmaf => (Protocol::HlsCmaf, TextForm::WebVttOfCmaf),
        };
        let (index, track) = find_carried(self.title, protocol, name)?;
        if track.kind != TrackKind::Text {
            return Err(PackError::NoSuchTrack(name.to_string()));
        }
        let tracks = [index];
        let packed =
            PackedTracks::new(self.title, &tracks).map(|packed| packed.joined(self.selected.minimum));
        let segment = number.checked_sub(1).and_then(|number| packed?.share(index, number));
        self.converted(index, segment, u64::from(number), form)
    }

    /// Plans a segment of a track in a form that its media is converted to.
    pub(super) fn converted(
        &self,
        index: usize,
        segment: Option<Segment>,
        requested: u64,
        form: TextForm,
    ) -> Result<Planned, PackError> {
        let (segment, samples) = match self.resolve(index, segment, requested, SampleChoice::All)? {
            Resolved::Known(segment, samples) => (segment, samples),
            Resolved::Needs(needs) => return Ok(Planned::Needs(needs)),
        };
        check_size(&samples)?;
        let title_track = &self.title.tracks()[index];
        let cut = cut_text(self.selected, &[index], segment.number, &[Some(&segment)]);
        let id = displayed_rep_id(&title_track.name);
        let number = segment.number + 1;
        let digest = self.digest(format_args!("text {CONVERTER} {form:?} {id} {number}{cut}"));
        let reach = self.reach([(index, &segment)]);
        let text = TextMedia::new(self.title.track(title_track), title_track.object, form, samples);
        Ok(Planned::NeedsMedia(MediaFirst { digest, segment: MediaSegment::Text(text), reach, seal: None }))
    }
}
