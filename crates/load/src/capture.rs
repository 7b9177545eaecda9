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

mod bits;
mod entry;
mod flv;
mod frames;
mod media;
mod nal;
mod packed;
mod smooth;
mod stream;
mod ts;

use crate::{
    check::{Check, Init, timeline::Timeline},
    failure::Failure,
    http::{Answer, Client, Connection, Lost},
    manifest::{self, MAX_BYTES, ManifestError},
    presentation::{Container, Index, Presentation, Rendition, RenditionSet, Resource, Segments},
};
use bytes::Bytes;
use flv::Flv;
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

/// One set that is kept.
struct Lane {
    segments: Arc<Segments>,
    next: usize,
    timeline: Timeline,
    kept: Kept,
}

/// How a lane's segments are kept.
enum Kept {
    /// Fragments: which tracks of the file its own are.
    Fragments { init: Option<Arc<Init>>, tracks: Vec<Track> },
    /// Elementary streams, and where each goes.
    Streams { demux: Box<Demux>, places: Vec<(u32, usize)> },
    /// As it comes.
    Bytes,
}

/// Takes segments apart.
enum Demux {
    Ts(Ts),
    Packed(Packed),
    Flv(Box<Flv>),
}

struct Capture<'a> {
    client: &'a Client,
    connection: Connection,
    trace: &'a mut (dyn Write + Send),
    start: Instant,
    captured: Captured,
    movie: Movie,
    /// A time near which the time stamps of all transport streams are, whose 33 bits come round.
    reference: Option<i64>,
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
        reference: None,
    };
    let done = capture.all(url, choice, out).await;
    // What came before a failure is kept too.
    let written = capture.movie.finish(out).and_then(|()| Ok(out.flush()?));
    let traced = capture.trace.flush().map_err(CaptureError::Trace);
    done.and(written).and(traced)?;
    capture.captured.tracks = capture.movie.tracks();
    Ok(capture.captured)
}

/// The lane whose next segment is presented first.
fn next(lanes: &mut [Lane]) -> Option<&mut Lane> {
    let time = |lane: &Lane| lane.segments.time(lane.next).map(|(start, _)| start);
    lanes
        .iter_mut()
        .filter(|lane| time(lane).is_some())
        .min_by(|a, b| time(a).unwrap_or(0.0).total_cmp(&time(b).unwrap_or(0.0)))
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
        for set in &presentation.sets {
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
        while let Some(lane) = next(&mut lanes) {
            self.step(lane, choice.format, out).await?;
        }
        Ok(())
    }

    /// Begins an MP4. What comes without init segments says what it is in its first segment only.
    async fn begin(&mut self, lanes: &mut [Lane], out: &mut (dyn Write + Send)) -> Result<(), CaptureError> {
        let mut first: Vec<(usize, Elementary)> = Vec::new();
        for lane in lanes.iter_mut().filter(|lane| matches!(lane.kept, Kept::Streams { .. })) {
            let (resource, body) = self.segment(lane).await?;
            let Kept::Streams { demux, places } = &mut lane.kept else { continue };
            let found = demux.segment(&body, &mut self.reference).map_err(|why| why.of(&resource))?;
            for found in found {
                let place = self.movie.add_samples(&found)?;
                places.push((found.source, place));
                first.push((place, found));
            }
        }
        let begins: Vec<(usize, &Elementary)> = first.iter().map(|(place, found)| (*place, found)).collect();
        self.movie.begin(&begins);
        out.write_all(&self.movie.head())?;
        first.into_iter().try_for_each(|(place, found)| self.movie.samples(place, found, out))
    }

    /// One segment more of a lane.
    async fn step(
        &mut self,
        lane: &mut Lane,
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let time = lane.segments.entries.get(lane.next).map_or(0, |segment| segment.start);
        let (resource, body) = self.segment(lane).await?;
        match &mut lane.kept {
            Kept::Fragments { tracks, .. } => {
                let time = u64::try_from(time).unwrap_or(0);
                self.movie.fragments(&body, tracks, time, out).map_err(|why| why.of(&resource))
            }
            Kept::Streams { demux, places } => {
                let found = demux.segment(&body, &mut self.reference).map_err(|why| why.of(&resource))?;
                for found in found {
                    let known = places.iter().find(|(source, _)| *source == found.source);
                    let late = || "a track that begins behind the first segment".to_owned();
                    let (_, place) = known.ok_or_else(|| CaptureError::Unsupported(late()))?;
                    self.movie.samples(*place, found, out)?;
                }
                Ok(())
            }
            Kept::Bytes if format == Format::Flv => {
                let tags = flv::tags(&body).map_err(|failure| at(&resource, failure))?;
                tags.iter().try_for_each(|tags| Ok(out.write_all(tags)?))
            }
            Kept::Bytes => Ok(out.write_all(&body)?),
        }
    }

    /// The next segment of a lane, which is sound.
    async fn segment(&mut self, lane: &mut Lane) -> Result<(Resource, Bytes), CaptureError> {
        let index = lane.next;
        let gone = || CaptureError::Unsupported(format!("a rendition whose segment {index} has no address"));
        let resource = lane.segments.resource(index).ok_or_else(gone)?;
        let (_, body) = self.get("segment", &resource, MAX_SEGMENT).await?;
        let init = if let Kept::Fragments { init, .. } = &lane.kept { init.as_ref() } else { None };
        let mut check = Check::segment(lane.segments.container, init, lane.segments.timescale);
        check.push(&body);
        let spans = check.finish().map_err(|failure| at(&resource, failure))?;
        lane.timeline.add(&lane.segments, 0, index, spans).map_err(|failure| at(&resource, failure))?;
        lane.next = lane.next.saturating_add(1);
        self.captured.segments += 1;
        Ok((resource, body))
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
                    crate::failure::Reason::TooLarge,
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
        let place =
            set.renditions.partition_point(|rendition| rendition.bandwidth <= choice.rate).saturating_sub(1);
        let none = || CaptureError::Unsupported("a set without renditions".to_owned());
        let rendition = set.renditions.get(place).ok_or_else(none)?;
        let segments = match &rendition.index {
            Index::Known(segments) => segments.clone(),
            Index::Deferred(deferred) => {
                let (answer, body) = self.get("index", &deferred.resource, MAX_BYTES).await?;
                let read = deferred.read(&answer.url, &body);
                Arc::new(read.map_err(|why| CaptureError::Manifest(answer.url, why))?)
            }
        };
        let kept = match (choice.format, segments.container) {
            (Format::Mp4, _) => self.kept(rendition, &segments).await?,
            (Format::Ts, Container::Ts) | (Format::Flv, Container::F4f) => Kept::Bytes,
            (format, _) => {
                let (name, wanted) = (presentation.protocol.name(), format.name());
                return Err(CaptureError::Unsupported(format!("this {name} as {wanted}")));
            }
        };
        Ok(Lane { segments, next: 0, timeline: Timeline::default(), kept })
    }

    /// How a rendition becomes tracks of an MP4.
    async fn kept(&mut self, rendition: &Rendition, segments: &Segments) -> Result<Kept, CaptureError> {
        let streams = |demux| Ok(Kept::Streams { demux: Box::new(demux), places: Vec::new() });
        match segments.container {
            Container::Cmaf => {
                let without = || CaptureError::Unsupported("fragments without init segment".to_owned());
                let resource = segments.init.as_ref().ok_or_else(without)?;
                let (_, body) = self.get("init", resource, MAX_BYTES).await?;
                let init = Arc::new(Init::read(&body).map_err(|failure| at(resource, failure))?);
                let tracks = self.movie.add(&body).map_err(|error| at(resource, error.into()))?;
                Ok(Kept::Fragments { init: Some(init), tracks })
            }
            Container::Smooth => {
                let without =
                    || CaptureError::Unsupported("a quality level that does not say its coding".to_owned());
                let stated = rendition.coding.as_ref().ok_or_else(without)?;
                let timescale = u32::try_from(segments.timescale).ok().and_then(Timescale::new);
                let timescale = timescale.ok_or_else(|| {
                    CaptureError::Unsupported("a TimeScale of more than 32 bits".to_owned())
                })?;
                let track = self.movie.add_track(&smooth::entry(stated)?, timescale, &stated.language);
                Ok(Kept::Fragments { init: None, tracks: vec![track] })
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

impl Demux {
    fn segment(
        &mut self,
        body: &Bytes,
        reference: &mut Option<i64>,
    ) -> Result<Vec<Elementary>, CaptureError> {
        match self {
            Self::Ts(ts) => ts.segment(body, reference),
            Self::Packed(packed) => packed.segment(body, reference),
            Self::Flv(flv) => flv.segment(body),
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
