//! Rows of subtitles: small responses, whose cost is that of a request rather than of its bytes.

use super::{Bench, Failure, Loaded, Row, Setup, WARM, costs};
use crate::{
    media::{self, lay_out},
    report::Limit,
};
use latemux_index::{media::TrackKind, title::TrackName};
use latemux_packager::{Address, Resource, address::HlsContainer};
use latemux_testmedia::{origin::Origin, subtitles::two_hours};
use std::{fs, time::Duration};

/// Name of the title and of its folder.
const FILM: &str = "film";
/// Name of the file of text.
const TEXT: &str = "film.eng.srt";
/// Most processor time of a segment in microseconds, with the kernel's share.
const MICROS: f64 = 60.0;

type Form = fn(TrackName, u32) -> Resource;

const FORMS: [(&str, Form); 2] = [
    ("WebVTT of HLS, from 2 h of SubRip", |name, number| Resource::HlsText(name, number, HlsContainer::Auto)),
    ("WebVTT in MP4 of DASH, from 2 h of SubRip", Resource::DashSegment),
];

impl Bench {
    /// Measures all segments of the subtitles of a film of two hours, from a file of text.
    pub(super) fn text(&self, name: &'static str) -> Result<Vec<Row>, Failure> {
        FORMS.iter().map(|(what, form)| self.text_in(name, what, *form)).collect()
    }

    fn text_in(&self, name: &'static str, what: &str, form: Form) -> Result<Row, Failure> {
        let setup = self.subtitled(form)?;
        let latemux = setup.latemux(WARM)?;
        let nginx = setup.nginx()?;
        let wrk = setup.wrk()?;
        let ours = Loaded { server: &latemux, head: setup.compare(&latemux)?, wrk: &wrk };
        let theirs = Loaded { server: &nginx, head: setup.compare(&nginx)?, wrk: &wrk };
        let rounds = ours.against(&theirs)?;
        let (ours, theirs, _) = costs(&rounds, |cost| cost.per_request * 1e6);
        let (count, bytes) =
            setup.segments.iter().fold((0, 0), |(count, sum), (_, body)| (count + 1, sum + body.len()));
        let note = format!("{count} segments of {} B; nginx sends them in {theirs:.1} us", bytes / count);
        let rounds = rounds.iter().map(|(ours, _)| ours.per_request * 1e6).collect();
        let limit = Limit::AtMost(MICROS);
        Ok(Row { name, what: what.to_owned(), value: ours, unit: "us of CPU", limit, note, rounds })
    }

    /// Makes a film of two hours with subtitles beside it, and the segments of these.
    fn subtitled(&self, form: Form) -> Result<Setup, Failure> {
        /// The default of `latemux serve`.
        const TARGET: Duration = Duration::from_secs(4);
        let folder = tempfile::tempdir_in(&self.folder)?;
        let film = folder.path().join("library").join(FILM);
        fs::create_dir_all(&film)?;
        let video = media::looped(&media::tiny(), 60)?;
        fs::hard_link(&video, film.join("film.mp4"))?;
        let text = two_hours();
        fs::write(film.join(TEXT), &text)?;
        let mut origin = Origin::open(&[video], TARGET).with_text(TEXT, text.as_bytes(), TARGET);
        let track = origin.names(TrackKind::Text).first().ok_or("no text")?.clone();
        let segments = (1..=origin.segment_count(&track)).map(|number| {
            let address = Address::new(FILM, form(track.clone(), number));
            let response = origin.get_address(&address).map_err(|error| error.to_string())?;
            Ok((address.to_url(), response.bytes))
        });
        let segments: Vec<_> = segments.collect::<Result<_, String>>()?;
        lay_out(&folder.path().join("files"), &segments)?;
        Ok(Setup { folder, segments })
    }
}
