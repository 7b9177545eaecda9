//! Saves a stream, as a client receives it, in one file, and lists each request.
//!
//! Samples keep the bytes and times that the server sent. Fragments (CMAF, Smooth Streaming) keep
//! their timescales too. The demultiplexers of transport streams, packed audio and FLV tags share
//! no code with the packager.
//!
//! - `ts`, `packed_audio`, `flv`: the demultiplexers
//! - `nal`, `audio_frames`: the syntax of elementary streams
//! - `samples`: samples and their times
//! - `sample_entry`, `smooth`: sample entries for streams that have none
//! - `mp4`: the output file
//! - `rendition`: the state of one rendition from segment to segment, and joined timelines

mod audio_frames;
mod error;
mod flv;
mod mp4;
mod nal;
mod packed_audio;
mod rendition;
mod sample_entry;
mod samples;
mod smooth;
mod ts;

pub use error::CaptureError;
use error::at;

use bytes::Bytes;
use flv::FlvDemuxer;
use latemux_client::{
    check::{Check, Init},
    http::{Client, Connection, FailedFetch, Fetched},
    manifest::{self, MAX_BYTES},
    presentation::{Container, Index, MediaKind, Presentation, Rendition, RenditionSet, Resource, Segments},
};
use latemux_isobmff::Timescale;
use mp4::{Mp4, SourceTrack};
use packed_audio::PackedAudioDemuxer;
use rendition::{Demuxer, FetchedSegment, Output, RenditionCapture, Timelines};
use samples::TrackSamples;
use serde::Serialize;
use std::{io::Write, sync::Arc};
use tokio::time::Instant;
use ts::TsDemuxer;
use url::Url;

/// The maximum number of bytes of a segment.
const MAX_SEGMENT: usize = 1 << 30;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutputFormat {
    /// A fragmented MP4, for any protocol.
    #[default]
    Mp4,
    /// The packets of HLS transport streams, unchanged.
    Ts,
    /// The tags of HDS fragments, as a Flash video file.
    Flv,
}

/// Options of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureOptions {
    /// Bits per second. The highest rendition of each set that does not exceed them is captured, or
    /// else the lowest.
    pub rate: u64,
    /// The format of the output.
    pub format: OutputFormat,
    /// If true, the text that plays by default is captured too.
    pub text: bool,
}

/// Sums of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaptureSummary {
    /// Tracks of the MP4; 0 for other formats.
    pub tracks: usize,
    /// Media segments, without init segments.
    pub segments: u64,
    /// Bytes of all bodies that were fetched.
    pub bytes: u64,
}

/// A line of the list of requests.
#[derive(Debug, Serialize)]
struct TraceLine<'a> {
    /// Milliseconds since the start of the capture.
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
    captured: CaptureSummary,
    movie: Mp4,
    timelines: Timelines,
}

/// Fetches a whole title. Writes its media to `out`, and a line of JSON for each request to
/// `trace`. The first error ends the capture.
///
/// # Errors
/// - [`CaptureError::Failed`] if a request fails, or a body fails its check.
/// - [`CaptureError::Manifest`] if the manifest, a playlist or a segment index cannot be played.
/// - [`CaptureError::Unsupported`] if no output format can hold the stream, and
///   [`CaptureError::WrongFormat`] if the chosen one cannot.
/// - [`CaptureError::Write`] and [`CaptureError::Trace`] if an output cannot be written.
pub async fn capture(
    client: &Client,
    url: &Url,
    options: CaptureOptions,
    out: &mut (dyn Write + Send),
    trace: &mut (dyn Write + Send),
) -> Result<CaptureSummary, CaptureError> {
    let mut capture = Capture {
        client,
        connection: Connection::default(),
        trace,
        start: Instant::now(),
        captured: CaptureSummary::default(),
        movie: Mp4::default(),
        timelines: Timelines::default(),
    };
    let done = capture.all(url, options, out).await;
    // Samples that arrived before a failure are written too.
    let written = capture.movie.finish(out).and_then(|()| Ok(out.flush()?));
    let traced = capture.trace.flush().map_err(CaptureError::Trace);
    done.and(written).and(traced)?;
    capture.captured.tracks = capture.movie.tracks();
    Ok(capture.captured)
}

impl Capture<'_> {
    async fn all(
        &mut self,
        url: &Url,
        options: CaptureOptions,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let resource = Resource { url: url.clone(), range: None };
        let (fetched, body) = self.get("manifest", &resource, MAX_BYTES).await?;
        let presentation =
            manifest::read(&fetched.url, &body).map_err(|why| CaptureError::Manifest(fetched.url, why))?;
        let mut renditions = Vec::new();
        for set in presentation.sets.iter().filter(|set| options.text || set.kind != MediaKind::Text) {
            renditions.push(self.rendition(&presentation, set, options).await?);
        }
        if options.format == OutputFormat::Mp4 {
            self.begin(&mut renditions, out).await?;
        } else if renditions.len() > 1 {
            let stream = "a stream with audio and video in separate segments".to_owned();
            return Err(CaptureError::WrongFormat { stream, format: options.format.extension() });
        }
        if options.format == OutputFormat::Flv {
            out.write_all(&flv::FILE_HEADER)?;
        }
        // The segments of all renditions are interleaved by presentation time.
        while let Some(rendition) = rendition::next(&mut renditions) {
            self.step(rendition, options.format, out).await?;
        }
        Ok(())
    }

    /// Writes the head of the MP4. Streams without init segments state their coding in their first
    /// segments, which are therefore fetched first.
    async fn begin(
        &mut self,
        renditions: &mut [RenditionCapture],
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let mut first: Vec<(usize, TrackSamples)> = Vec::new();
        for rendition in
            renditions.iter_mut().filter(|rendition| matches!(rendition.output, Output::Streams { .. }))
        {
            let segment = self.segment(rendition).await?;
            let Output::Streams { demuxer, queues } = &mut rendition.output else { continue };
            let reference = self.timelines.references.entry(segment.timeline).or_default();
            let found = demuxer.segment(&segment.body, reference);
            for found in found.map_err(|why| why.of(&segment.resource))? {
                let queue = self.movie.add_samples(&found)?;
                queues.push((found.source, queue));
                first.push((queue, found));
            }
        }
        let begins: Vec<(usize, &TrackSamples)> =
            first.iter().map(|(queue, found)| (*queue, found)).collect();
        self.movie.begin(&begins);
        out.write_all(&self.movie.head())?;
        first.into_iter().try_for_each(|(queue, found)| self.movie.samples(queue, found, 0.0, out))
    }

    /// Fetches and writes the next segment of a rendition.
    async fn step(
        &mut self,
        rendition: &mut RenditionCapture,
        format: OutputFormat,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CaptureError> {
        let segment = self.segment(rendition).await?;
        match &mut rendition.output {
            Output::Fragments { groups } => {
                let tracks = groups.get(segment.group).map_or(&[][..], |(_, tracks)| tracks);
                let times = (segment.time, segment.later);
                self.movie
                    .fragments(&segment.body, tracks, times, out)
                    .map_err(|why| why.of(&segment.resource))
            }
            Output::Streams { demuxer, queues } => {
                let reference = self.timelines.references.entry(segment.timeline).or_default();
                let found = demuxer.segment(&segment.body, reference);
                for found in found.map_err(|why| why.of(&segment.resource))? {
                    let known = queues.iter().find(|(source, _)| *source == found.source);
                    let late = || CaptureError::unsupported("a track that starts after the first segment");
                    let (_, queue) = known.ok_or_else(late)?;
                    self.movie.samples(*queue, found, segment.later, out)?;
                }
                Ok(())
            }
            Output::Bytes if format == OutputFormat::Flv => {
                let tags = flv::tags(&segment.body).map_err(|failure| at(&segment.resource, failure))?;
                tags.iter().try_for_each(|tags| Ok(out.write_all(tags)?))
            }
            Output::Bytes => Ok(out.write_all(&segment.body)?),
        }
    }

    /// Fetches and checks the next segment of a rendition.
    async fn segment(&mut self, rendition: &mut RenditionCapture) -> Result<FetchedSegment, CaptureError> {
        let index = rendition.next;
        let segments = rendition.segments.clone();
        let (Some(resource), Some(common)) = (segments.resource(index), segments.group(index)) else {
            let what = format!("a rendition whose segment {index} has no valid address");
            return Err(CaptureError::unsupported(what));
        };
        let group = segments.group_index(index);
        let (_, body) = self.get("segment", &resource, MAX_SEGMENT).await?;
        let init = match &rendition.output {
            Output::Fragments { groups } => groups.get(group).and_then(|(init, _)| init.as_ref()),
            Output::Streams { .. } | Output::Bytes => None,
        };
        let mut check = Check::segment(common.container, init, common.timescale);
        check.push(&body);
        let spans = check.finish().map_err(|failure| at(&resource, failure))?;
        let later = self.timelines.later(rendition, index, &spans);
        rendition.timeline.add(&segments, 0, index, spans).map_err(|failure| at(&resource, failure))?;
        let breaks =
            rendition.last_timeline.replace(common.timeline).is_some_and(|before| before != common.timeline);
        if let (Output::Streams { demuxer, .. }, true) = (&mut rendition.output, breaks) {
            demuxer.discontinuity();
        }
        rendition.next += 1;
        self.captured.segments += 1;
        let time = segments.entries.get(index).map_or(0, |segment| segment.start);
        let time = u64::try_from(time).unwrap_or(0);
        let timeline = common.timeline;
        Ok(FetchedSegment { resource, body, group, timeline, time, later })
    }

    /// Fetches a whole body. The request is listed even if it fails.
    async fn get(
        &mut self,
        what: &str,
        resource: &Resource,
        limit: usize,
    ) -> Result<(Fetched, Bytes), CaptureError> {
        let due = Instant::now();
        let (fetched, body) = self.client.get_whole(&mut self.connection, resource, due, limit).await;
        let (bytes, first_byte, latency, error) = match &fetched {
            Ok(fetched) => (fetched.bytes, Some(fetched.first_byte), fetched.latency, None),
            Err(FailedFetch { failure, bytes, latency }) => {
                (*bytes, None, *latency, Some(failure.to_string()))
            }
        };
        let line = TraceLine {
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
        let fetched = fetched.map_err(|failed| failed.failure)?;
        Ok((fetched, body.into()))
    }

    async fn rendition(
        &mut self,
        presentation: &Presentation,
        set: &RenditionSet,
        options: CaptureOptions,
    ) -> Result<RenditionCapture, CaptureError> {
        let place = set.highest_within(options.rate);
        let none = || CaptureError::unsupported("a rendition without segments");
        let rendition = set.renditions.get(place).ok_or_else(none)?;
        let mut periods = Vec::new();
        for index in rendition.index.periods() {
            match index {
                Index::Known(segments) => periods.push(segments.clone()),
                Index::Deferred(deferred) => {
                    let (fetched, body) = self.get("index", &deferred.resource, MAX_BYTES).await?;
                    let read = deferred.read(&fetched.url, &body);
                    periods.push(Arc::new(read.map_err(|why| CaptureError::Manifest(fetched.url, why))?));
                }
                Index::Joined(_) => return Err(none()),
            }
        }
        let segments = Segments::joined(periods);
        let container = segments.group(0).ok_or_else(none)?.container;
        if segments.groups.iter().any(|group| group.container != container) {
            return Err(CaptureError::unsupported("a rendition of several containers"));
        }
        let kept = match (options.format, container) {
            (OutputFormat::Mp4, _) => self.kept(rendition, &segments).await?,
            (OutputFormat::Ts, Container::Ts) | (OutputFormat::Flv, Container::F4f) => Output::Bytes,
            (format, _) => {
                let stream = format!("this {} stream", presentation.protocol.name());
                return Err(CaptureError::WrongFormat { stream, format: format.extension() });
            }
        };
        Ok(RenditionCapture::new(segments, kept))
    }

    /// Returns the way in which a rendition is written to an MP4, and adds the tracks of fragments.
    async fn kept(&mut self, rendition: &Rendition, segments: &Segments) -> Result<Output, CaptureError> {
        let streams = |demuxer: Box<dyn Demuxer>| Ok(Output::Streams { demuxer, queues: Vec::new() });
        let Some(first) = segments.group(0) else { return Ok(Output::Bytes) };
        match first.container {
            Container::Cmaf => {
                let mut groups: Vec<(Option<Arc<Init>>, Vec<SourceTrack>)> = Vec::new();
                let mut before: Option<&Resource> = None;
                for group in &segments.groups {
                    let without = || CaptureError::unsupported("fragments without an init segment");
                    let resource = group.init.as_ref().ok_or_else(without)?;
                    let known = groups.last().filter(|_| before == Some(resource)).cloned();
                    before = Some(resource);
                    if let Some(known) = known {
                        groups.push(known);
                        continue;
                    }
                    let (_, body) = self.get("init", resource, MAX_BYTES).await?;
                    let init = Arc::new(Init::read(&body).map_err(|failure| at(resource, failure))?);
                    let tracks = match groups.first() {
                        None => self.movie.add(&body).map_err(|error| at(resource, error.into()))?,
                        Some((_, first)) => {
                            self.movie.continue_as(&body, first).map_err(|why| why.of(resource))?
                        }
                    };
                    groups.push((Some(init), tracks));
                }
                Ok(Output::Fragments { groups })
            }
            Container::Smooth => {
                let without = || CaptureError::unsupported("a quality level without its coding");
                let stated = rendition.coding.as_ref().ok_or_else(without)?;
                let timescale = u32::try_from(first.timescale).ok().and_then(Timescale::new);
                let too_much = || CaptureError::unsupported("a TimeScale of more than 32 bits");
                let entry = smooth::entry(stated)?;
                let track = self.movie.add_track(&entry, timescale.ok_or_else(too_much)?, &stated.language);
                Ok(Output::Fragments { groups: vec![(None, vec![track])] })
            }
            Container::WebVtt | Container::Ttml => {
                Err(CaptureError::unsupported("text in separate documents"))
            }
            Container::Ts => streams(Box::<TsDemuxer>::default()),
            Container::F4f => streams(Box::<FlvDemuxer>::default()),
            Container::PackedAudio => {
                let resource = segments.resource(0);
                let path = resource.as_ref().map_or("", |resource| resource.url.path());
                streams(Box::new(PackedAudioDemuxer::new(packed_audio::framing(path))))
            }
            Container::Opaque => Err(CaptureError::unsupported("an encrypted or unknown container")),
        }
    }
}

impl OutputFormat {
    const fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Ts => "ts",
            Self::Flv => "flv",
        }
    }
}
