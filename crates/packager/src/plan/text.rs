//! Plans of text that is sent in another form than it is stored in.

use super::{
    MediaFirst, MediaSegment, Part, Planned, SourceRange,
    planner::{Planner, Resolved},
};
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
    Sample, Track,
    media::{Samples, TrackKind},
    title::{Segment, TrackName},
};
use latemux_text::wvtt;

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
        let title_track = &self.title.tracks()[index];
        let track = self.title.track(title_track);
        let is_in_memory = self.title.objects()[title_track.object].inline.is_some();
        // All samples are at hand, so a cue over the edge of a segment can be read as a whole.
        let (samples, window) = match form {
            TextForm::Wvtt(_) => (samples, None),
            _ if is_in_memory => {
                (self.with_neighbours(track, &segment, samples), Some(segment.start..segment.end))
            }
            _ => (samples, None),
        };
        check_size(&samples)?;
        let cut = cut_text(self.selected, &[index], segment.number, std::iter::once(Some(&segment)));
        let id = displayed_rep_id(&title_track.name);
        let number = segment.number + 1;
        let digest = self.digest(format_args!("text {CONVERTER} {form:?} {id} {number}{cut}"));
        let reach = self.reach([(index, &segment)]);
        let text = TextMedia::new(track, title_track.object, form, samples, window);
        let media = MediaFirst { digest, segment: MediaSegment::Text(Box::new(text)), reach, seal: None };
        if !is_in_memory {
            return Ok(Planned::NeedsMedia(media));
        }
        let bytes: Vec<u8> = media.parts().iter().filter_map(|part| self.in_memory(part)).flatten().collect();
        Ok(Planned::Ready(media.plan(&bytes)?))
    }

    /// Returns the samples of a segment with those around it that hold the rest of its cues.
    fn with_neighbours(&self, track: &Track, segment: &Segment, samples: Vec<Sample>) -> Vec<Sample> {
        /// Most samples on each side that a cue is followed over.
        const MOST: u32 = 1024;
        let Samples::Table(table) = &track.samples else { return samples };
        let object = self.title.tracks().iter().find(|t| std::ptr::eq(self.title.track(t), track));
        let Some(object) = object.map(|t| t.object) else { return samples };
        let goes_on = |sample: &Sample| {
            let range = sample.offset..sample.offset + u64::from(sample.size);
            let data = self.in_memory(&Part::Source(SourceRange { object, range }));
            data.is_some_and(|data| wvtt::has_parts_of_cues(&data))
        };
        let mut cut = segment.cut.clone();
        let at = |index: u32| table.range(index..index.saturating_add(1)).next();
        let first = cut.start.saturating_sub(MOST);
        while cut.start > first && at(cut.start).is_some_and(|sample| goes_on(&sample)) {
            cut.start -= 1;
        }
        let last = cut.end.saturating_add(MOST).min(table.len());
        while cut.end < last && at(cut.end - 1).is_some_and(|sample| goes_on(&sample)) {
            cut.end += 1;
        }
        table.range(cut).collect()
    }
}
