//! Files of text as WebVTT in MP4 that is made in memory, so that their titles are indexed and
//! planned like any other.

use crate::segment::cmaf;
use bytes::Bytes;
use latemux_index::{
    IndexError, MediaIndex, Sample,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::{Purpose, Role},
};
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{mdhd::Language, stsd::SampleEntry, trex::Trex},
    emit::{InitSegment, InitTrack},
    matrix::Matrix,
};
use latemux_text::{Document, FileName, TextError, TextFormat, parse, wvtt};
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// `track_ID` of the only track.
pub const TRACK_ID: u32 = 1;

/// Returns the index of a file of text, whose form, language and purpose its name tells. The index
/// holds the text.
///
/// # Errors
/// [`IndexError::Text`] for a text that is refused.
pub fn index(format: TextFormat, name: &str, bytes: &[u8]) -> Result<MediaIndex, IndexError> {
    let mut document = parse(format, bytes).map_err(|error| text_error(&error))?;
    limit_times(&mut document)?;
    if document.cues.is_empty() {
        return Err(IndexError::Text { reason: "no_media", detail: "the text has no cues".to_owned() });
    }
    let named = FileName::of(name);
    let language = named.language.as_deref().unwrap_or(&document.language);
    let language = Language::new(language).unwrap_or_else(Language::unknown);
    let file = mp4(&document, &language).map_err(|error| text_error(&error))?;
    let mut index = run(&file)?;
    let mut digest = Xxh3::new();
    digest.update(format!("{format:?} {language} {:?}", named.purpose).as_bytes());
    digest.update(bytes);
    index.fingerprint = digest.digest128();
    index.inline = Some(file);
    for track in &mut index.tracks {
        let latemux_text::Purpose { forced, captions, default } = named.purpose;
        let role = if captions { Role::Captions } else { Role::Plain };
        track.purpose = Purpose { forced, default, role };
    }
    Ok(index)
}

fn text_error(error: &TextError) -> IndexError {
    IndexError::Text { reason: error.reason(), detail: error.to_string() }
}

/// Ends cues without an end with the last other one, or after a while. Refuses cues later than any
/// title, whose segments would not be counted.
fn limit_times(document: &mut Document) -> Result<(), IndexError> {
    /// Latest time of a cue, in milliseconds.
    const LATEST: u64 = 24 * 3600 * 1000;
    /// Shortest time for which a cue without an end is shown.
    const SHOWN: u64 = 4000;
    let ends = document.cues.iter().map(|cue| cue.end).filter(|&end| end < u64::MAX);
    let last = ends.max().unwrap_or(0);
    for cue in document.cues.iter_mut().filter(|cue| cue.end == u64::MAX) {
        cue.end = last.max(cue.start + SHOWN);
    }
    match document.cues.iter().all(|cue| cue.end <= LATEST) {
        true => Ok(()),
        false => Err(IndexError::Text {
            reason: "malformed_text",
            detail: "a cue is shown later than 24 hours after the start".to_owned(),
        }),
    }
}

/// Returns WebVTT in MP4 with the cues of a text: one fragment.
fn mp4(document: &Document, language: &Language) -> Result<Bytes, TextError> {
    let track = InitTrack {
        track_id: TRACK_ID,
        handler: FourCc(*b"text"),
        timescale: Timescale::MILLIS,
        language: language.clone(),
        enabled: true,
        alternate_group: 0,
        matrix: Matrix::UNITY,
        display_size: (0, 0),
        sample_entries: vec![entry(&document.header)],
        edit_media_time: 0,
        trex: Trex::plain(TRACK_ID),
    };
    let mut file = InitSegment::cmaf(track, None).to_bytes().to_vec();
    let timed = wvtt::samples(&document.cues)?;
    let samples: Vec<Sample> = timed
        .iter()
        .map(|sample| Sample {
            offset: 0,
            size: u32::try_from(sample.data.len()).unwrap_or(u32::MAX),
            decode_time: i64::try_from(sample.start).unwrap_or(i64::MAX),
            duration: u32::try_from(sample.end - sample.start).unwrap_or(u32::MAX),
            composition_offset: 0,
            sync: true,
        })
        .collect();
    // The number of cues is limited, so one fragment takes their samples.
    if let Some(crate::Part::Inline(head)) =
        cmaf::media(0, 1, &samples, cmaf::SampleForm::Clear).unwrap_or_default().first()
    {
        file.extend_from_slice(head);
    }
    timed.iter().for_each(|sample| file.extend_from_slice(&sample.data));
    Ok(file.into())
}

/// Returns the sample entry of WebVTT (ISO/IEC 14496-30 §7.5).
fn entry(header: &str) -> SampleEntry {
    let separator = if header.is_empty() { "" } else { "\n\n" };
    let configuration = ["WEBVTT", separator, header].concat();
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
    let boxed = 8 + configuration.len();
    let raw =
        [&size(16 + boxed)[..], b"wvtt\0\0\0\0\0\0\0\x01", &size(boxed), b"vttC", configuration.as_bytes()];
    SampleEntry { format: FourCc(*b"wvtt"), data_reference_index: 1, raw: raw.concat().into() }
}

/// Indexes a file in memory.
fn run(file: &Bytes) -> Result<MediaIndex, IndexError> {
    let size = file.len() as u64;
    let mut locator = Locator::new(Limits::default());
    let read = |range: &Range<u64>| {
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(file.len());
        ObjectBytes { offset: range.start, bytes: file.slice(at(range.start)..at(range.end)) }
    };
    let mut wants: Vec<Range<u64>> = std::iter::once(0..size.min(locator.first_reads(None).head)).collect();
    loop {
        match locator.step(size, wants.iter().map(read).collect())? {
            Step::Read(more) | Step::Scan(more) => wants = more,
            Step::Done(index) => return Ok(*index),
        }
    }
}
