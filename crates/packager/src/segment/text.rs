//! Segments of timed text that are made anew: WebVTT of HLS, and samples of WebVTT in MP4 from 3GPP
//! text. Their length depends on their media, which is read before the response starts.

use super::{cmaf, smooth::TextFragment};
use crate::{PackError, part::Part, selection::DashText};
use bytes::Bytes;
use latemux_index::{Sample, Track, title::Segment};
use latemux_isobmff::{FourCc, Time, boxes::stsd::SampleEntry, codec::Config, time::Round};
use latemux_text::language::shortest;
use latemux_text::{Cue, Joiner, SampleCue, decode, ttml, tx3g, webvtt, wvtt};
use std::ops::Range;

/// Part of the digests of all segments that this module makes. It is raised with every change of
/// their bytes.
pub(crate) const CONVERTER: u32 = 2;

/// `Content-Type` of WebVTT.
pub(crate) const WEBVTT_TYPE: &str = "text/vtt";

/// Time in units of 1/90,000 s in TS segments at which presentation time 0 is sent.
const TS_START: u64 = 900_000;

/// The form in which text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// WebVTT segments beside TS.
    WebVttOfTs,
    /// WebVTT segments beside CMAF.
    WebVttOfCmaf,
    /// A CMAF segment with the samples of WebVTT, with its number, 1-based.
    Wvtt(u32),
    /// A fragment of Smooth Streaming with a TTML document.
    Ttml(TextFragment),
    /// A CMAF segment with a TTML document.
    Stpp(TtmlSegment),
}

/// A CMAF segment of text in one TTML document, as its only sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TtmlSegment {
    /// Number of the segment, 1-based.
    number: u32,
    /// Decode time and duration of its sample in track ticks.
    decode_time: i64,
    duration: u32,
    /// Milliseconds of presentation in which the segment is shown.
    from: u64,
    until: u64,
    /// Milliseconds from presentation time 0 to media time 0, from which times of a document count
    /// (ISO/IEC 14496-30 §5.6).
    offset: i64,
}

impl TtmlSegment {
    /// Describes a segment of a track.
    pub(crate) fn new(track: &Track, segment: &Segment) -> Self {
        let millis = |ticks| milliseconds(Time::new(ticks, track.timescale));
        let shown = |ticks| u64::try_from(millis(ticks)).unwrap_or(0);
        let media_time = track.presentation.media_time;
        Self {
            number: segment.number + 1,
            decode_time: segment.start + media_time,
            duration: u32::try_from(segment.end - segment.start).unwrap_or(u32::MAX),
            from: shown(segment.start),
            until: shown(segment.end),
            offset: millis(media_time),
        }
    }
}

/// `codecs` of the TTML that is made: text of IMSC1.
pub(crate) const STPP_CODECS: &str = "stpp.ttml.im1t";

/// Returns true for text that DASH sends as TTML which is made of it.
pub(crate) fn is_made_ttml(track: &Track, form: DashText) -> bool {
    form == DashText::Stpp && matches!(track.codec.config, Config::Wvtt | Config::Tx3g)
}

/// Returns true for text whose fragments of Smooth Streaming are TTML which is made of it. Times of
/// TTML in MP4 count from the start of the track, but there from the start of the fragment.
/// Pictures have no text, so their documents stay as they are.
pub(crate) fn is_made_for_smooth(track: &Track) -> bool {
    match track.codec.config {
        Config::Wvtt | Config::Tx3g => true,
        Config::Stpp => !has_pictures(track),
        _ => false,
    }
}

/// Returns true for TTML whose subtitles are pictures by its sample entry: an image profile of
/// IMSC, or media types of further files in its samples (ISO/IEC 14496-12 §12.6.3.2).
fn has_pictures(track: &Track) -> bool {
    /// Strings follow the header, six reserved bytes and the data reference.
    const STRINGS: usize = 16;
    let is_image_profile = |part: &str| part.starts_with("im") && part.ends_with('i');
    let strings = track.sample_entry.raw.get(STRINGS..).unwrap_or_default();
    let media_types = strings.split(|&byte| byte == 0).nth(2).unwrap_or_default();
    track.codec.rfc6381.split(['.', '|', '+']).any(is_image_profile) || !media_types.is_empty()
}

/// Returns the sample entry of the TTML that is made (ISO/IEC 14496-30 §5.3).
pub(crate) fn ttml_entry() -> SampleEntry {
    const RAW: &[u8] = b"\0\0\0\x59stpp\0\0\0\0\0\0\0\x01http://www.w3.org/ns/ttml\0\0\0\
        \0\0\0\x2Dmime\0\0\0\0application/ttml+xml;codecs=im1t\0";
    SampleEntry { format: FourCc(*b"stpp"), data_reference_index: 1, raw: Bytes::from_static(RAW) }
}

/// A segment of text whose media is to be read.
#[derive(Debug)]
pub(crate) struct TextMedia {
    /// Source bytes in the order that [`Self::segment`] takes them.
    pub(crate) parts: Vec<Part>,
    form: TextForm,
    source: TextSource,
    samples: Vec<Sample>,
    /// Milliseconds within which its cues are shown, if the samples hold others too.
    window: Option<Range<u64>>,
}

impl TextMedia {
    /// Prepares a segment with samples of an object. Cues that are not shown within `window`, in
    /// ticks, are left out.
    pub(crate) fn new(
        track: &Track,
        object: usize,
        form: TextForm,
        samples: Vec<Sample>,
        window: Option<Range<i64>>,
    ) -> Self {
        let mut parts = Vec::new();
        Part::push_samples(&mut parts, object, &samples);
        let millis = |ticks| u64::try_from(milliseconds(Time::new(ticks, track.timescale))).unwrap_or(0);
        let window = window.map(|window| millis(window.start)..millis(window.end));
        Self { parts, form, source: TextSource::of(track), samples, window }
    }

    /// Returns the media type of the segment.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.form {
            TextForm::WebVttOfTs | TextForm::WebVttOfCmaf => WEBVTT_TYPE,
            TextForm::Wvtt(_) | TextForm::Ttml(_) | TextForm::Stpp(_) => "application/mp4",
        }
    }

    /// Returns the segment, from all bytes of the parts. Missing bytes count as samples without
    /// text.
    pub(crate) fn segment(&self, media: &[u8]) -> Bytes {
        match self.form {
            TextForm::WebVttOfTs => self.webvtt(media, TS_START),
            TextForm::WebVttOfCmaf => self.webvtt(media, 0),
            TextForm::Wvtt(number) => self.wvtt(media, number),
            TextForm::Ttml(fragment) => self.ttml(media, fragment),
            TextForm::Stpp(segment) => self.stpp(media, segment),
        }
    }

    fn cues(&self, media: &[u8]) -> Vec<Cue> {
        let mut joiner = Joiner::default();
        for (sample, data) in self.with_data(media) {
            self.source.push_cues(sample, data, &mut joiner);
        }
        let mut cues = joiner.finish();
        if let Some(window) = &self.window {
            cues.retain(|cue| cue.start < window.end && cue.end > window.start);
        }
        cues
    }

    fn ttml(&self, media: &[u8], fragment: TextFragment) -> Bytes {
        let mut cues = self.cues(media);
        for cue in &mut cues {
            if let Some(window) = &self.window {
                // Players draw all that a document shows, and the next one goes on with the cue.
                (cue.start, cue.end) = (cue.start.max(window.start), cue.end.min(window.end));
            }
            cue.start = cue.start.saturating_add_signed(fragment.offset);
            cue.end = cue.end.saturating_add_signed(fragment.offset);
        }
        cues.retain(|cue| cue.end > cue.start);
        fragment.write(ttml::write(&self.source.language, &cues, 0).as_bytes()).into()
    }

    fn stpp(&self, media: &[u8], segment: TtmlSegment) -> Bytes {
        let mut cues = self.cues(media);
        for cue in &mut cues {
            // A document shows nothing beyond its sample, and the next one goes on with the cue.
            let moved =
                |time: u64| time.clamp(segment.from, segment.until).saturating_add_signed(segment.offset);
            (cue.start, cue.end) = (moved(cue.start), moved(cue.end));
        }
        cues.retain(|cue| cue.end > cue.start);
        let document = ttml::write(&self.source.language, &cues, 0);
        let sample = Sample {
            offset: 0,
            size: u32::try_from(document.len()).unwrap_or(u32::MAX),
            decode_time: segment.decode_time,
            duration: segment.duration,
            composition_offset: 0,
            sync: true,
        };
        // One sample is not too many.
        let parts = cmaf::text_media(0, segment.number, &[sample]).unwrap_or_default();
        let Some(Part::Inline(head)) = parts.first() else { return Bytes::new() };
        [head.as_ref(), document.as_bytes()].concat().into()
    }

    fn webvtt(&self, media: &[u8], mpegts: u64) -> Bytes {
        let cues = self.cues(media);
        webvtt::write(&self.source.header, &cues, Some(mpegts)).into()
    }

    fn wvtt(&self, media: &[u8], number: u32) -> Bytes {
        let mut mdat = Vec::new();
        let mut samples = self.samples.clone();
        for (sample, (_, data)) in samples.iter_mut().zip(self.with_data(media)) {
            let cue = tx3g::text(data).map(sample_cue);
            let data = wvtt::sample(&cue);
            sample.size = u32::try_from(data.len()).unwrap_or(u32::MAX);
            mdat.extend_from_slice(&data);
        }
        // The number of samples was checked when the segment was planned.
        let parts = cmaf::text_media(0, number, &samples).unwrap_or_default();
        let Some(Part::Inline(head)) = parts.first() else { return Bytes::new() };
        [head.as_ref(), &mdat].concat().into()
    }

    /// Iterates over the samples with their bytes.
    fn with_data<'a>(&'a self, mut media: &'a [u8]) -> impl Iterator<Item = (&'a Sample, &'a [u8])> {
        self.samples.iter().map(move |sample| {
            let size = usize::try_from(sample.size).unwrap_or(usize::MAX);
            let (data, rest) = media.split_at_checked(size).unwrap_or((media, &[]));
            media = rest;
            (sample, data)
        })
    }
}

/// A track of text, as far as its cues depend on it.
#[derive(Debug)]
struct TextSource {
    config: Config,
    /// Styles and regions.
    header: String,
    /// BCP 47 tag in its shortest form.
    language: String,
    /// Presentation time of time 0 of its documents.
    document_start: Time,
    /// Media time of presentation time 0, in ticks.
    media_time: i64,
}

impl TextSource {
    fn of(track: &Track) -> Self {
        // Boxes of an entry follow the header, six reserved bytes and the data reference.
        const BOXES: usize = 16;
        let boxes = track.sample_entry.raw.get(BOXES..).unwrap_or_default();
        let header = if track.codec.config == Config::Wvtt { wvtt::header(boxes) } else { String::new() };
        let presentation = track.presentation;
        Self {
            config: track.codec.config.clone(),
            header,
            language: shortest(track.language.as_str()),
            document_start: Time::new(presentation.shift - presentation.media_time, track.timescale),
            media_time: presentation.media_time,
        }
    }

    /// Adds the cues of a sample.
    fn push_cues(&self, sample: &Sample, data: &[u8], joiner: &mut Joiner) {
        let start = sample.decode_time + i64::from(sample.composition_offset) - self.media_time;
        let millis = |ticks| milliseconds(Time::new(ticks, self.document_start.scale));
        let bound = |ticks| u64::try_from(millis(ticks)).unwrap_or(0);
        let from = bound(start);
        let until = bound(start + i64::from(sample.duration));
        match self.config {
            Config::Wvtt => wvtt::cues(data).into_iter().for_each(|cue| joiner.push(from, until, cue)),
            Config::Tx3g => {
                if let Some(text) = tx3g::text(data) {
                    joiner.push(from, until, sample_cue(text));
                }
            }
            _ => self.push_document(data, (from, until), joiner),
        }
    }

    /// Adds the cues of a TTML document, as far as they are shown while its sample is. A document
    /// that is malformed has none.
    fn push_document(&self, data: &[u8], (from, until): (u64, u64), joiner: &mut Joiner) {
        let Some(document) = decode(data).ok().and_then(|text| ttml::parse(&text).ok()) else { return };
        let offset = milliseconds(self.document_start);
        let moved = |time: u64| time.saturating_add_signed(offset);
        for Cue { start, end, id, settings, text } in document.cues {
            let start = moved(start);
            let end = moved(end);
            // The next document repeats a cue that it goes on with.
            let source = (start < from || end > until).then_some(0);
            joiner.push(start.max(from), end.min(until), SampleCue { source, id, settings, text });
        }
    }
}

fn sample_cue(text: String) -> SampleCue {
    SampleCue { source: None, id: String::new(), settings: String::new(), text }
}

fn milliseconds(time: Time) -> i64 {
    time.in_scale(latemux_isobmff::Timescale::MILLIS, Round::Nearest)
}

/// Returns at least the bytes of a WebVTT segment of samples with a number of bytes in all.
pub(crate) fn webvtt_bytes(track: &Track, samples: u64, bytes: u64) -> u64 {
    // A cue's line of times takes 32 bytes, and characters become references of up to 5 bytes.
    let header = track.sample_entry.raw.len() as u64;
    let growth = if track.codec.config == Config::Tx3g { 5 } else { 2 };
    96 + header + samples * 64 + bytes * growth
}

/// Returns at most the bytes that a CMAF segment of a number of samples has more than its samples
/// as they are stored. Sizes of samples may also differ where the stored ones do not.
pub(crate) fn added_bytes(track: &Track, samples: u64, bytes: u64) -> u64 {
    let sizes = samples * 4;
    sizes + if track.codec.config == Config::Tx3g { samples * 24 + bytes * 4 } else { 0 }
}

/// Returns at least the bytes of a fragment of Smooth Streaming with a TTML document of samples.
pub(crate) fn ttml_bytes(samples: u64, bytes: u64) -> u64 {
    1024 + samples * 192 + bytes * 5
}

/// Returns the sample entry in which a track is sent in MP4: that of WebVTT in place of 3GPP text.
pub(crate) fn served_entry(track: &Track) -> SampleEntry {
    if track.codec.config != Config::Tx3g {
        return track.sample_entry.clone();
    }
    const RAW: &[u8] = b"\0\0\0\x1Ewvtt\0\0\0\0\0\0\0\x01\0\0\0\x0EvttCWEBVTT";
    let format = FourCc(*b"wvtt");
    SampleEntry { format, raw: Bytes::from_static(RAW), ..track.sample_entry.clone() }
}

/// Returns the handler type of a track in MP4 (ISO/IEC 14496-30 §5.2, §6.2).
pub(crate) fn served_handler(track: &Track) -> FourCc {
    match track.codec.config {
        Config::Wvtt | Config::Tx3g => FourCc(*b"text"),
        Config::Stpp => FourCc(*b"subt"),
        _ => track.handler,
    }
}

/// Checks that a segment of text is not too large to be read at once.
pub(crate) fn check_size(samples: &[Sample]) -> Result<(), PackError> {
    /// Most bytes of one segment of text.
    const MAX: u64 = 8 << 20;
    let bytes: u64 = samples.iter().map(|sample| u64::from(sample.size)).sum();
    if bytes > MAX { Err(PackError::TooLarge("more than 8 MiB of text in one segment")) } else { Ok(()) }
}
