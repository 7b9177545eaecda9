//! Requests of players: each is checked, and counted once.

use super::{Session, SetFetcher};
use crate::results::Measured;
use latemux_client::{
    check::{Check, Init, Span},
    failure::{Failure, Reason},
    http::{Connection, FailedFetch, Fetched},
    manifest::MAX_BYTES,
    presentation::{Index, MediaKind, Presentation, Protocol, Resource, Segments},
};
use std::sync::Arc;
use tokio::time::Instant;

/// What players ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Manifest,
    /// A media playlist, segment index or bootstrap information.
    Index,
    Init,
    Segment(MediaKind),
}

impl Class {
    /// As in reports.
    fn name(self, protocol: Option<Protocol>) -> &'static str {
        let of = |names: [&'static str; 4]| match protocol {
            Some(Protocol::Hls) => names[0],
            Some(Protocol::Dash) => names[1],
            Some(Protocol::Smooth) => names[2],
            _ => names[3],
        };
        match self {
            Self::Manifest => protocol.map_or("manifest", |_| {
                of(["hls.manifest", "dash.manifest", "smooth.manifest", "hds.manifest"])
            }),
            Self::Index => of(["hls.playlist", "dash.index", "smooth.index", "hds.bootstrap"]),
            Self::Init => of(["hls.init", "dash.init", "smooth.init", "hds.init"]),
            Self::Segment(MediaKind::Video) => of(["hls.video", "dash.video", "smooth.video", "hds.video"]),
            Self::Segment(MediaKind::Audio) => of(["hls.audio", "dash.audio", "smooth.audio", "hds.audio"]),
            Self::Segment(MediaKind::Text) => of(["hls.text", "dash.text", "smooth.text", "hds.text"]),
            Self::Segment(MediaKind::Muxed) => of(["hls.muxed", "dash.muxed", "smooth.muxed", "hds.muxed"]),
        }
    }
}

/// A segment that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchedSegment {
    pub(super) rendition: usize,
    /// Seconds from the start of the presentation.
    pub(super) start: f64,
    pub(super) end: f64,
    /// When the last segment ends.
    pub(super) last: f64,
    /// What came of it; `None` where it failed.
    pub(super) arrived: Option<Arrived>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) bytes: u64,
    /// Seconds from when it was asked for.
    pub(super) seconds: f64,
}

/// A request for something that is read whole.
struct WholeRequest<'a> {
    who: u64,
    class: Class,
    protocol: Option<Protocol>,
    resource: &'a Resource,
    due: Instant,
}

impl Session {
    fn count(
        &self,
        who: u64,
        class: &'static str,
        answer: &Result<Fetched, FailedFetch>,
        wrong: Option<&Failure>,
    ) {
        let timed = match answer {
            Ok(answer) => {
                Measured { latency: answer.latency, first_byte: Some(answer.first_byte), bytes: answer.bytes }
            }
            Err(lost) => Measured { latency: lost.latency, first_byte: None, bytes: lost.bytes },
        };
        let failure = answer.as_ref().err().map(|lost| &lost.failure).or(wrong);
        self.recorder.request(who, class, timed, failure);
    }

    /// Gets a body that is read whole, and reads it. `name` is its class where reading tells.
    async fn read<T>(
        &self,
        ask: WholeRequest<'_>,
        connection: &mut Connection,
        read: impl FnOnce(&Fetched, &[u8]) -> Result<T, Failure>,
        name: impl FnOnce(&T) -> Option<&'static str>,
    ) -> Option<T> {
        let WholeRequest { who, class, protocol, resource, due } = ask;
        let mut body = Vec::new();
        let mut keep = |piece: &[u8]| {
            if body.len().saturating_add(piece.len()) > MAX_BYTES {
                let why = format!("{}: more than {MAX_BYTES} bytes", resource.url);
                return Err(Failure::new(Reason::TooLarge, why));
            }
            body.extend_from_slice(piece);
            Ok(())
        };
        let answer = self.client.get(connection, resource, due, &mut keep).await;
        let read = answer.as_ref().ok().map(|answer| read(answer, &body));
        let good = read.as_ref().and_then(|read| read.as_ref().ok());
        let class = good.and_then(name).unwrap_or_else(|| class.name(protocol));
        self.count(who, class, &answer, read.as_ref().and_then(|read| read.as_ref().err()));
        read.and_then(Result::ok)
    }

    /// The manifest; `None` where it cannot be played, which is counted.
    pub(super) async fn manifest(
        &self,
        who: u64,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
    ) -> Option<Arc<Presentation>> {
        let read = |answer: &Fetched, body: &[u8]| {
            self.parse_cache.presentation(&answer.url, body, self.behaviour.text)
        };
        let name = |presentation: &Arc<Presentation>| Some(Class::Manifest.name(Some(presentation.protocol)));
        let ask = WholeRequest { who, class: Class::Manifest, protocol: None, resource, due };
        self.read(ask, connection, read, name).await
    }

    /// The list of segments of a rendition.
    async fn segments(
        &self,
        who: u64,
        presentation: &Presentation,
        fetcher: &mut SetFetcher,
        place: usize,
        due: &mut Instant,
    ) -> Option<Arc<Segments>> {
        let rendition = presentation.sets.get(fetcher.set)?.renditions.get(place)?;
        if let Some((segments, _)) = fetcher.renditions.get(place)? {
            return Some(segments.clone());
        }
        let mut periods = Vec::new();
        let indexes = match &rendition.index {
            Index::Joined(periods) => periods,
            one => std::slice::from_ref(one),
        };
        for index in indexes {
            match index {
                Index::Known(segments) => periods.push(segments.clone()),
                Index::Deferred(deferred) => {
                    let read = |answer: &Fetched, body: &[u8]| {
                        self.parse_cache.segments(deferred, &answer.url, body)
                    };
                    let (protocol, resource) = (Some(presentation.protocol), &deferred.resource);
                    let ask = WholeRequest { who, class: Class::Index, protocol, resource, due: *due };
                    periods.push(self.read(ask, &mut fetcher.connection, read, |_| None).await?);
                    *due = Instant::now();
                }
                Index::Joined(_) => return None,
            }
        }
        let segments = match periods.as_slice() {
            [one] => one.clone(),
            _ => Arc::new(Segments::joined(periods)),
        };
        *fetcher.renditions.get_mut(place)? = Some((segments.clone(), None));
        Some(segments)
    }

    /// The init segment that one of a rendition's segments needs: `Some(None)` where it needs none.
    async fn init(
        &self,
        who: u64,
        presentation: &Presentation,
        fetcher: &mut SetFetcher,
        (place, index): (usize, usize),
        due: &mut Instant,
    ) -> Option<Option<Arc<Init>>> {
        let (segments, known) = fetcher.renditions.get(place)?.clone()?;
        let part = segments.group_index(index);
        let of = |part: usize| segments.groups.get(part).and_then(|part| part.init.as_ref());
        let Some(resource) = of(part) else { return Some(None) };
        if let Some((_, init)) = known.filter(|(had, _)| *had == part || of(*had) == Some(resource)) {
            return Some(Some(init));
        }
        let mut url = resource.url.clone();
        url.set_fragment(resource.range.map(|range| range.to_string()).as_deref());
        let read = |_: &Fetched, body: &[u8]| self.parse_cache.init(&url, body);
        let ask = WholeRequest {
            who,
            class: Class::Init,
            protocol: Some(presentation.protocol),
            resource,
            due: *due,
        };
        let init = self.read(ask, &mut fetcher.connection, read, |_| None).await?;
        *due = Instant::now();
        *fetcher.renditions.get_mut(place)? = Some((segments.clone(), Some((part, init.clone()))));
        Some(Some(init))
    }

    /// The next segment of a fetcher in that rendition: the one behind the last, or the one at `from` (seconds). `None` where it cannot be told
    /// which that is.
    pub(super) async fn segment(
        &self,
        who: u64,
        presentation: &Presentation,
        fetcher: &mut SetFetcher,
        place: usize,
        from: Option<f64>,
        due: Instant,
    ) -> Option<FetchedSegment> {
        let mut due = due;
        let segments = self.segments(who, presentation, fetcher, place, &mut due).await?;
        let index = match (fetcher.last, from) {
            (Some((rendition, index)), _) if rendition == place => index.saturating_add(1),
            // Renditions may be cut a little differently.
            (_, Some(from)) => segments.at(from + 0.05),
            (_, None) => 0,
        };
        let resource = segments.resource(index)?;
        let (start, duration) = segments.time(index)?;
        let init = self.init(who, presentation, fetcher, (place, index), &mut due).await?;
        let part = segments.group(index)?;
        let mut check = Check::segment(part.container, init.as_ref(), part.timescale);
        let mut push = |piece: &[u8]| {
            check.push(piece);
            Ok(())
        };
        let answer = self.client.get(&mut fetcher.connection, &resource, due, &mut push).await;
        let wrong = answer
            .is_ok()
            .then(|| self.timeline(fetcher, &segments, place, index, check.finish()))
            .and_then(Result::err);
        let wrong = wrong
            .map(|failure| Failure { detail: format!("{}: {}", resource.url, failure.detail), ..failure });
        let kind = presentation.sets.get(fetcher.set)?.kind;
        self.count(who, Class::Segment(kind).name(Some(presentation.protocol)), &answer, wrong.as_ref());
        fetcher.last = Some((place, index));
        // A wrong body is counted, and played: a player would try, too.
        let arrived =
            answer.ok().map(|answer| Arrived { bytes: answer.bytes, seconds: answer.transfer.as_secs_f64() });
        Some(FetchedSegment { rendition: place, start, end: start + duration, last: segments.end(), arrived })
    }

    fn timeline(
        &self,
        fetcher: &mut SetFetcher,
        segments: &Segments,
        place: usize,
        index: usize,
        found: Result<Vec<Span>, Failure>,
    ) -> Result<(), Failure> {
        fetcher.timeline.add(segments, place, index, found?)
    }
}
