//! A stream as a client gets it, kept: its media as one fragmented MP4, and each of its requests.
//!
//! Samples are the server's own, to the byte, with the times it gave them. Only CMAF is kept so far (DASH, and HLS with `EXT-X-MAP`).

mod media;

use crate::{
    check::{Check, Init, timeline::Timeline},
    failure::Failure,
    http::{Answer, Client, Connection, Lost},
    manifest::{self, MAX_BYTES, ManifestError},
    presentation::{Container, Index, Presentation, RenditionSet, Resource, Segments},
};
use bytes::Bytes;
use media::{Movie, Track};
use serde::Serialize;
use std::{
    io::{Error, Write},
    sync::Arc,
};
use tokio::time::Instant;
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
    #[error("{0} cannot be captured yet: only CMAF can")]
    Unsupported(&'static str),
    /// What is captured cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] Error),
}

/// What was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Captured {
    /// Tracks.
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
    init: Arc<Init>,
    /// Which tracks of the file its own are.
    tracks: Vec<Track>,
    next: usize,
    timeline: Timeline,
}

struct Capture<'a> {
    client: &'a Client,
    connection: Connection,
    trace: &'a mut (dyn Write + Send),
    start: Instant,
    captured: Captured,
}

/// Fetches all of a title, of each set the highest rendition not above `rate` bits per second, and writes its media to `out` and a line of JSON
/// for each request to `trace`. The first failure ends it: what is written until then is whole fragments.
///
/// # Errors
/// See [`CaptureError`].
pub async fn capture(
    client: &Client,
    url: &Url,
    rate: u64,
    out: &mut (dyn Write + Send),
    trace: &mut (dyn Write + Send),
) -> Result<Captured, CaptureError> {
    let start = Instant::now();
    let mut capture =
        Capture { client, connection: Connection::default(), trace, start, captured: Captured::default() };
    let resource = Resource { url: url.clone(), range: None };
    let (answer, body) = capture.get("manifest", &resource, MAX_BYTES).await?;
    let presentation =
        manifest::read(&answer.url, &body).map_err(|why| CaptureError::Manifest(answer.url, why))?;
    let mut movie = Movie::default();
    let mut lanes = Vec::new();
    for set in &presentation.sets {
        lanes.push(capture.lane(&presentation, set, rate, &mut movie).await?);
    }
    out.write_all(&movie.head())?;
    // What is presented first comes first, as the tracks of a file are interleaved.
    while let Some(lane) = next(&mut lanes) {
        let index = lane.next;
        let Some(resource) = lane.segments.resource(index) else { break };
        let (_, body) = capture.get("segment", &resource, MAX_SEGMENT).await?;
        let mut check = Check::segment(lane.segments.container, Some(&lane.init), lane.segments.timescale);
        check.push(&body);
        let spans = check.finish().map_err(|failure| at(&resource, failure))?;
        lane.timeline.add(&lane.segments, 0, index, spans).map_err(|failure| at(&resource, failure))?;
        movie.fragments(&body, &lane.tracks, out).map_err(|error| match error {
            media::Error::Boxes(error) => CaptureError::Failed(at(&resource, error.into())),
            media::Error::Write(error) => CaptureError::Write(error),
        })?;
        lane.next += 1;
        capture.captured.segments += 1;
    }
    out.flush()?;
    capture.trace.flush()?;
    capture.captured.tracks = movie.tracks();
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
        let mut text = serde_json::to_string(&line).map_err(Error::other)?;
        text.push('\n');
        self.trace.write_all(text.as_bytes())?;
        self.captured.bytes += bytes;
        let answer = answer.map_err(|lost| lost.failure)?;
        Ok((answer, body.into()))
    }

    async fn lane(
        &mut self,
        presentation: &Presentation,
        set: &RenditionSet,
        rate: u64,
        movie: &mut Movie,
    ) -> Result<Lane, CaptureError> {
        let place = set.renditions.partition_point(|rendition| rendition.bandwidth <= rate).saturating_sub(1);
        let rendition =
            set.renditions.get(place).ok_or(CaptureError::Unsupported("a set without renditions"))?;
        let segments = match &rendition.index {
            Index::Known(segments) => segments.clone(),
            Index::Deferred(deferred) => {
                let (answer, body) = self.get("index", &deferred.resource, MAX_BYTES).await?;
                let read = deferred.read(&answer.url, &body);
                Arc::new(read.map_err(|why| CaptureError::Manifest(answer.url, why))?)
            }
        };
        let (Container::Cmaf, Some(resource)) = (segments.container, segments.init.clone()) else {
            return Err(CaptureError::Unsupported(presentation.protocol.name()));
        };
        let (_, body) = self.get("init", &resource, MAX_BYTES).await?;
        let init = Arc::new(Init::read(&body).map_err(|failure| at(&resource, failure))?);
        let tracks = movie.add(&body).map_err(|error| at(&resource, error.into()))?;
        Ok(Lane { segments, init, tracks, next: 0, timeline: Timeline::default() })
    }
}
