//! A stream as a client gets it, kept: its media, and each of its requests.
//!
//! Samples are the server's own, to the byte, at the times it gave them. What comes in fragments (CMAF, Smooth Streaming) keeps its scales and times;
//! transport streams, packed audio and FLV tags are taken apart, by readers that are not the packager's.
//!
//! - `ts`, `packed`, `flv`: containers taken apart
//! - `nal`, `frames`: what is in them
//! - `stream`: samples and their times
//! - `entry`, `smooth`: sample entries for what comes without
//! - `media`: the MP4
//! - `lane`: a rendition from segment to segment, and its timelines from one to the other

mod bits;
mod entry;
mod flv;
mod frames;
mod lane;
mod media;
mod nal;
mod packed;
mod smooth;
mod stream;
mod ts;

use bytes::Bytes;
use lane::{Demux, Got, Kept, Lane, Timelines};
use latemux_client::{
    check::{Check, Init},
    failure::Failure,
    http::{Answer, Client, Connection, Lost},
    manifest::{self, MAX_BYTES, ManifestError},
    presentation::{Container, Index, Kind, Presentation, Rendition, RenditionSet, Resource, Segments},
};
use latemux_isobmff::Timescale;
use media::{Movie, Track};
use packed::Packed;
use serde::Serialize;
use std::{
    io::{Error, Write},
    sync::Arc,
};
use stream::Elementary;
use tokio::time::Instant;
use ts::Ts;
use url::Url;

/// The most bytes of a segment that are kept in memory.
const MAX_SEGMENT: usize = 1 << 30;

/// Why a stream could not be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A request failed, or its body is not sound.
    #[error("{0}")]
    Failed(#[from] Failure),
    /// A manifest that cannot be played.
    #[error("{0}: {1}")]
    Manifest(Url, ManifestError),
    /// A stream that is not kept.
    #[error("{0} cannot be captured")]
    Unsupported(String),
    /// What is captured cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] Error),
    /// The list of requests cannot be written.
    #[error("cannot write the trace: {0}")]
    Trace(Error),
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// One fragmented MP4, of any protocol.
    #[default]
    Mp4,
    /// HLS with transport streams: their packets as they come.
    Ts,
    /// HDS: the tags of its fragments, as a Flash video file.
    Flv,
}

/// What is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    /// Of each set the highest rendition not above so many bits per second.
    pub rate: u64,
    /// What is written.
    pub format: Format,
    /// The text that plays by default is kept too.
    pub text: bool,
}

/// What was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Captured {
    /// Tracks of the MP4; 0 where another format is written.
    pub tracks: usize,
    /// Segments, init segments not counted.
    pub segments: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
}

/// One line of the trace.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// Milliseconds since the start.
    at_ms: f64,
    what: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_ms: Option<f64>,
    latency_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

struct Capture<'a> {
    client: &'a Client,
    connection: Connection,
    trace: &'a mut (dyn Write + Send),
    start: Instant,
    captured: Captured,
    movie: Movie,
    timelines: Timelines,
}

/// Fetches all of a title, and writes its media to `out` and a line of JSON for each request to `trace`. The first failure ends it: what is
/// written until then is whole fragments.
///
/// # Errors
/// See [`CaptureError`].
pub async fn capture(
    client: &Client,
    url: &Url,
    choice: Choice,
    out: &mut (dyn Write + Send),
    trace: &mut (dyn Write + Send),
) -> Result<Captured, CaptureError> {
    let mut capture = Capture {
        client,
        connection: Connection::default(),
        trace,
        start: Instant::now(),
        captured: Captured::default(),
        movie: Movie::default(),
        timelines: Timelines::default(),
    };
    let done = capture.all(url, choice, out).await;
    // What came before a failure is kept too.
    let written = capture.movie.finish(out).and_then(|()| Ok(out.flush()?));
    let traced = capture.trace.flush().map_err(CaptureError::Trace);
    done.and(written).and(traced)?;
    capture.captured.tracks = capture.movie.tracks();
    Ok(capture.captured)
}

fn at(resource: &Resource, failure: Failure) -> Failure {
    let Failure { reason, detail } = failure;
    Failure { reason, detail: format!("{}: {detail}", resource.url) }
}

impl Capture<'_> {
    async fn all(
        &mut self,
        url: &Url,
        choice: Choice,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let resource = Resource { url: url.clone(), range: None };
        let (answer, body) = self.get("manifest", &resource, MAX_BYTES).await?;
        let presentation =
            manifest::read(&answer.url, &body).map_err(|why| CaptureError::Manifest(answer.url, why))?;
        let mut lanes = Vec::new();
        for set in presentation.sets.iter().filter(|set| choice.text || set.kind != Kind::Text) {
            lanes.push(self.lane(&presentation, set, choice).await?);
        }
        if choice.format == Format::Mp4 {
            self.begin(&mut lanes, out).await?;
        } else if lanes.len() > 1 {
            let why = "sound and picture in segments of their own, as one file that is no MP4,";
            return Err(CaptureError::Unsupported(why.to_owned()));
        }
        if choice.format == Format::Flv {
            out.write_all(&flv::FILE_HEADER)?;
        }
        // What is presented first comes first, as the tracks of a file are interleaved.
        while let Some(lane) = lane::next(&mut lanes) {
            self.step(lane, choice.format, out).await?;
        }
        Ok(())
    }

    /// Begins an MP4. What comes without init segments says what it is in its first segment only.
    async fn begin(&mut self, lanes: &mut [Lane], out: &mut (dyn Write + Send)) -> Result<(), CaptureError> {
        let mut first: Vec<(usize, Elementary)> = Vec::new();
        for lane in lanes.iter_mut().filter(|lane| matches!(lane.kept, Kept::Streams { .. })) {
            let got = self.segment(lane).await?;
            let Kept::Streams { demux, places } = &mut lane.kept else { continue };
            let found = demux.segment(&got, &mut self.timelines).map_err(|why| why.of(&got.resource))?;
            for found in found {
                let place = self.movie.add_samples(&found)?;
                places.push((found.source, place));
                first.push((place, found));
            }
        }
        let begins: Vec<(usize, &Elementary)> = first.iter().map(|(place, found)| (*place, found)).collect();
        self.movie.begin(&begins);
        out.write_all(&self.movie.head())?;
        first.into_iter().try_for_each(|(place, found)| self.movie.samples(place, found, 0.0, out))
    }

    /// One segment more of a lane.
    async fn step(
        &mut self,
        lane: &mut Lane,
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let got = self.segment(lane).await?;
        match &mut lane.kept {
            Kept::Fragments { parts } => {
                let tracks = parts.get(got.part).map_or(&[][..], |(_, tracks)| tracks);
                let times = (got.time, got.later);
                self.movie.fragments(&got.body, tracks, times, out).map_err(|why| why.of(&got.resource))
            }
            Kept::Streams { demux, places } => {
                let found = demux.segment(&got, &mut self.timelines).map_err(|why| why.of(&got.resource))?;
                for found in found {
                    let known = places.iter().find(|(source, _)| *source == found.source);
                    let late = || "a track that begins behind the first segment".to_owned();
                    let (_, place) = known.ok_or_else(|| CaptureError::Unsupported(late()))?;
                    self.movie.samples(*place, found, got.later, out)?;
                }
                Ok(())
            }
            Kept::Bytes if format == Format::Flv => {
                let tags = flv::tags(&got.body).map_err(|failure| at(&got.resource, failure))?;
                tags.iter().try_for_each(|tags| Ok(out.write_all(tags)?))
            }
            Kept::Bytes => Ok(out.write_all(&got.body)?),
        }
    }

    /// The next segment of a lane, which is sound.
    async fn segment(&mut self, lane: &mut Lane) -> Result<Got, CaptureError> {
        let index = lane.next;
        let gone = || CaptureError::Unsupported(format!("a rendition whose segment {index} has no address"));
        let segments = lane.segments.clone();
        let (Some(resource), Some(common)) = (segments.resource(index), segments.part(index)) else {
            return Err(gone());
        };
        let part = segments.part_place(index);
        let (_, body) = self.get("segment", &resource, MAX_SEGMENT).await?;
        let init = match &lane.kept {
            Kept::Fragments { parts } => parts.get(part).and_then(|(init, _)| init.as_ref()),
            Kept::Streams { .. } | Kept::Bytes => None,
        };
        let mut check = Check::segment(common.container, init, common.timescale);
        check.push(&body);
        let spans = check.finish().map_err(|failure| at(&resource, failure))?;
        let later = self.timelines.later(lane, index, &spans);
        lane.timeline.add(&segments, 0, index, spans).map_err(|failure| at(&resource, failure))?;
        let breaks = lane.on.replace(common.timeline).is_some_and(|before| before != common.timeline);
        if let (Kept::Streams { demux, .. }, true) = (&mut lane.kept, breaks) {
            demux.discontinuity();
        }
        lane.next = lane.next.saturating_add(1);
        self.captured.segments += 1;
        let time = segments.entries.get(index).map_or(0, |segment| segment.start);
        let (time, timeline) = (u64::try_from(time).unwrap_or(0), common.timeline);
        Ok(Got { resource, body, part, timeline, time, later })
    }

    /// A whole body; the request is in the trace whatever becomes of it.
    async fn get(
        &mut self,
        what: &str,
        resource: &Resource,
        limit: usize,
    ) -> Result<(Answer, Bytes), CaptureError> {
        let due = Instant::now();
        let mut body = Vec::new();
        let mut keep = |piece: &[u8]| {
            if body.len().saturating_add(piece.len()) > limit {
                return Err(Failure::new(
                    latemux_client::failure::Reason::TooLarge,
                    format!("{}: more than {limit} bytes", resource.url),
                ));
            }
            body.extend_from_slice(piece);
            Ok(())
        };
        let answer = self.client.get(&mut self.connection, resource, due, &mut keep).await;
        let (bytes, first_byte, latency, error) = match &answer {
            Ok(answer) => (answer.bytes, Some(answer.first_byte), answer.latency, None),
            Err(Lost { failure, bytes, latency }) => (*bytes, None, *latency, Some(failure.to_string())),
        };
        let line = Line {
            at_ms: due.duration_since(self.start).as_secs_f64() * 1000.0,
            what,
            url: resource.url.as_str(),
            range: resource.range.map(|range| range.to_string()),
            bytes,
            first_byte_ms: first_byte.map(|time| time.as_secs_f64() * 1000.0),
            latency_ms: latency.as_secs_f64() * 1000.0,
            error,
        };
        let mut text = serde_json::to_string(&line).map_err(|error| CaptureError::Trace(error.into()))?;
        text.push('\n');
        self.trace.write_all(text.as_bytes()).map_err(CaptureError::Trace)?;
        self.captured.bytes += bytes;
        let answer = answer.map_err(|lost| lost.failure)?;
        Ok((answer, body.into()))
    }

    async fn lane(
        &mut self,
        presentation: &Presentation,
        set: &RenditionSet,
        choice: Choice,
    ) -> Result<Lane, CaptureError> {
        let place = set.highest_within(choice.rate);
        let none = || CaptureError::Unsupported("a rendition without segments".to_owned());
        let rendition = set.renditions.get(place).ok_or_else(none)?;
        let indexes = match &rendition.index {
            Index::Joined(periods) => periods,
            one => std::slice::from_ref(one),
        };
        let mut periods = Vec::new();
        for index in indexes {
            match index {
                Index::Known(segments) => periods.push(segments.clone()),
                Index::Deferred(deferred) => {
                    let (answer, body) = self.get("index", &deferred.resource, MAX_BYTES).await?;
                    let read = deferred.read(&answer.url, &body);
                    periods.push(Arc::new(read.map_err(|why| CaptureError::Manifest(answer.url, why))?));
                }
                Index::Joined(_) => return Err(none()),
            }
        }
        let segments = match periods.as_slice() {
            [one] => one.clone(),
            _ => Arc::new(Segments::joined(periods)),
        };
        let container = segments.part(0).ok_or_else(none)?.container;
        if segments.parts.iter().any(|part| part.container != container) {
            return Err(CaptureError::Unsupported("a rendition of several containers".to_owned()));
        }
        let kept = match (choice.format, container) {
            (Format::Mp4, _) => self.kept(rendition, &segments).await?,
            (Format::Ts, Container::Ts) | (Format::Flv, Container::F4f) => Kept::Bytes,
            (format, _) => {
                let (name, wanted) = (presentation.protocol.name(), format.name());
                return Err(CaptureError::Unsupported(format!("this {name} as {wanted}")));
            }
        };
        Ok(Lane::new(segments, kept))
    }

    /// How a rendition becomes tracks of an MP4.
    async fn kept(&mut self, rendition: &Rendition, segments: &Segments) -> Result<Kept, CaptureError> {
        let streams = |demux| Ok(Kept::Streams { demux: Box::new(demux), places: Vec::new() });
        let Some(first) = segments.part(0) else { return Ok(Kept::Bytes) };
        match first.container {
            Container::Cmaf => {
                let mut parts: Vec<(Option<Arc<Init>>, Vec<Track>)> = Vec::new();
                let mut before: Option<&Resource> = None;
                for part in &segments.parts {
                    let without = || CaptureError::Unsupported("fragments without init segment".to_owned());
                    let resource = part.init.as_ref().ok_or_else(without)?;
                    let known = parts.last().filter(|_| before == Some(resource)).cloned();
                    before = Some(resource);
                    if let Some(known) = known {
                        parts.push(known);
                        continue;
                    }
                    let (_, body) = self.get("init", resource, MAX_BYTES).await?;
                    let init = Arc::new(Init::read(&body).map_err(|failure| at(resource, failure))?);
                    let tracks = match parts.first() {
                        None => self.movie.add(&body).map_err(|error| at(resource, error.into()))?,
                        Some((_, first)) => self.movie.go_on(&body, first).map_err(|why| why.of(resource))?,
                    };
                    parts.push((Some(init), tracks));
                }
                Ok(Kept::Fragments { parts })
            }
            Container::Smooth => {
                let without = || "a quality level that does not say its coding".to_owned();
                let stated = rendition.coding.as_ref().ok_or_else(|| CaptureError::Unsupported(without()))?;
                let timescale = u32::try_from(first.timescale).ok().and_then(Timescale::new);
                let too_much = || CaptureError::Unsupported("a TimeScale of more than 32 bits".to_owned());
                let entry = smooth::entry(stated)?;
                let track = self.movie.add_track(&entry, timescale.ok_or_else(too_much)?, &stated.language);
                Ok(Kept::Fragments { parts: vec![(None, vec![track])] })
            }
            Container::WebVtt | Container::Ttml => {
                let what = "text in documents of its own, in one file with media,";
                Err(CaptureError::Unsupported(what.to_owned()))
            }
            Container::Ts => streams(Demux::Ts(Ts::default())),
            Container::F4f => streams(Demux::Flv(Box::default())),
            Container::PackedAudio => {
                let resource = segments.resource(0);
                let framing = packed::framing(resource.as_ref().map_or("", |resource| resource.url.path()));
                streams(Demux::Packed(Packed::new(framing)))
            }
            Container::Opaque => {
                Err(CaptureError::Unsupported("what is encrypted, or of no kind that is known,".to_owned()))
            }
        }
    }
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Mp4 => "MP4",
            Self::Ts => "transport stream",
            Self::Flv => "Flash video",
        }
    }
}

impl CaptureError {
    /// Says whose body it was that failed.
    fn of(self, resource: &Resource) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(at(resource, failure)),
            other => other,
        }
    }
}
