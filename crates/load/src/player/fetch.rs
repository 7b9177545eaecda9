//! The requests of players. Each body is checked, and each request is counted once.

use super::{ParseCache, Player, Session, SetFetcher};
use latemux_client::{
    check::{Check, Init},
    failure::Failure,
    http::{ChunkedFetch, Connection, FailedFetch, Fetched, Sink},
    manifest::MAX_BYTES,
    presentation::{Container, Index, MediaKind, Presentation, Protocol, Resource, Segments},
};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use url::Url;

/// The class of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Manifest,
    /// A media playlist, segment index or bootstrap information.
    Index,
    Init,
    Segment(MediaKind),
}

impl Class {
    /// Returns the name that reports use. The protocol is unknown if the manifest cannot be read.
    fn name(self, protocol: Option<Protocol>) -> String {
        let class = match (self, protocol) {
            (Self::Manifest, _) => "manifest",
            (Self::Index, Some(Protocol::Hls)) => "playlist",
            (Self::Index, Some(Protocol::Hds)) => "bootstrap",
            (Self::Index, _) => "index",
            (Self::Init, _) => "init",
            (Self::Segment(MediaKind::Video), _) => "video",
            (Self::Segment(MediaKind::Audio), _) => "audio",
            (Self::Segment(MediaKind::Text), _) => "text",
            (Self::Segment(MediaKind::Muxed), _) => "muxed",
        };
        protocol.map_or_else(|| class.to_owned(), |protocol| format!("{}.{class}", protocol.name()))
    }
}

/// A segment that was requested, whether or not it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchedSegment {
    pub(super) rendition: usize,
    /// Start and end in seconds of the presentation.
    pub(super) start: f64,
    pub(super) end: f64,
    /// The end of the last segment of the rendition.
    pub(super) last: f64,
    /// The measurements; `None` if the request failed.
    pub(super) arrived: Option<Arrived>,
}

/// The measurements of a segment that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) bytes: u64,
    /// Seconds from sending the request to the last byte.
    pub(super) seconds: f64,
    /// The share of the segment that arrived, from 0 to 1.
    pub(super) share: f64,
}

impl Session {
    /// Fetches and parses a body. `class` returns the name of the request's class.
    async fn read<T>(
        &self,
        player: u64,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
        parse: impl FnOnce(&Url, &[u8]) -> Result<T, Failure>,
        class: impl FnOnce(Option<&T>) -> String,
    ) -> Option<T> {
        let (fetched, body) = self.client.get_whole(connection, resource, due, MAX_BYTES).await;
        let parsed = fetched.as_ref().ok().map(|fetched| parse(&fetched.url, &body)).transpose();
        let class = class(parsed.as_ref().ok().and_then(Option::as_ref));
        self.recorder.request(player, &class, &fetched, parsed.as_ref().err());
        parsed.ok()?
    }

    /// Fetches the manifest of a player and returns the connection too. Returns `None` if the
    /// request fails, which is recorded.
    pub(super) async fn manifest(&self, player: &Player) -> Option<(Arc<Presentation>, Connection)> {
        self.recorder.lag(player.number, player.due.elapsed());
        let mut connection = Connection::default();
        let resource = Resource { url: player.url.clone(), range: None };
        let parse = |url: &Url, body: &[u8]| self.parse_cache.presentation(url, body, self.behaviour.text);
        let class = |read: Option<&Arc<Presentation>>| Class::Manifest.name(read.map(|read| read.protocol));
        let read = self.read(player.number, &mut connection, &resource, player.due, parse, class).await;
        read.map(|presentation| (presentation, connection))
    }
}

impl SetFetcher {
    /// Fetches and parses a list of segments or an init segment. The next request is due
    /// afterwards.
    async fn read<T>(
        &mut self,
        class: Class,
        resource: &Resource,
        due: &mut Instant,
        parse: impl FnOnce(&ParseCache, &Url, &[u8]) -> Result<T, Failure>,
    ) -> Option<T> {
        let session = &self.session;
        let parse = |url: &Url, body: &[u8]| parse(&session.parse_cache, url, body);
        let class = |_: Option<&T>| class.name(Some(self.presentation.protocol));
        let read = session.read(self.player, &mut self.connection, resource, *due, parse, class).await?;
        *due = Instant::now();
        Some(read)
    }

    /// Returns the segments of the rendition at `place`, and fetches their lists if necessary.
    async fn segments(&mut self, place: usize, due: &mut Instant) -> Option<Arc<Segments>> {
        if let Some((segments, _)) = self.renditions.get(place)? {
            return Some(segments.clone());
        }
        let presentation = self.presentation.clone();
        let rendition = presentation.sets.get(self.set)?.renditions.get(place)?;
        let mut periods = Vec::new();
        for index in rendition.index.periods() {
            match index {
                Index::Known(segments) => periods.push(segments.clone()),
                Index::Deferred(list) => {
                    let parse = |cache: &ParseCache, url: &Url, body: &[u8]| cache.segments(list, url, body);
                    periods.push(self.read(Class::Index, &list.resource, due, parse).await?);
                }
                Index::Joined(_) => return None,
            }
        }
        let segments = Segments::joined(periods);
        *self.renditions.get_mut(place)? = Some((segments.clone(), None));
        Some(segments)
    }

    /// Returns the init segment of the segment at `index`, or `Some(None)` if it needs none.
    async fn init(&mut self, place: usize, index: usize, due: &mut Instant) -> Option<Option<Arc<Init>>> {
        let (segments, known) = self.renditions.get(place)?.clone()?;
        let group = segments.group_index(index);
        let of = |group: usize| segments.groups.get(group).and_then(|group| group.init.as_ref());
        let Some(resource) = of(group) else { return Some(None) };
        if let Some((_, init)) = known.filter(|(had, _)| *had == group || of(*had) == Some(resource)) {
            return Some(Some(init));
        }
        let parse = |cache: &ParseCache, _: &Url, body: &[u8]| cache.init(resource, body);
        let init = self.read(Class::Init, resource, due, parse).await?;
        *self.renditions.get_mut(place)? = Some((segments.clone(), Some((group, init.clone()))));
        Some(Some(init))
    }

    /// Fetches the body of a segment that plays for `duration` seconds. Returns the share of it
    /// that arrived, too, which is below 1 only if it was truncated.
    async fn body(
        &mut self,
        resource: &Resource,
        due: Instant,
        duration: f64,
        push: &mut Sink<'_>,
    ) -> (Result<Fetched, FailedFetch>, f64) {
        let Session { client, recorder, behaviour, .. } = &*self.session;
        let (Some(streams), Some(chunking)) = (&mut self.streams, &behaviour.chunking) else {
            return (client.get(&mut self.connection, resource, due, push).await, 1.0);
        };
        let duration = Duration::try_from_secs_f64(duration).unwrap_or(Duration::MAX);
        let end = Instant::now().checked_add(duration).filter(|_| chunking.truncate);
        // Boxed, so that players that fetch without chunks need no memory for it.
        let fetched = Box::pin(client.get_in_chunks(streams, resource, due, end, push)).await;
        let tally = streams.take_tally();
        recorder.update_streams(self.player, |results| {
            results.add(&tally, fetched.as_ref().ok());
            results.long_gaps += u64::from(chunking.settings.gap >= duration);
        });
        let share = |chunked: &ChunkedFetch| chunked.fetched.bytes as f64 / chunked.length.max(1) as f64;
        let share = fetched.as_ref().map_or(1.0, share);
        (fetched.map(|chunked| chunked.fetched), share)
    }

    /// Fetches the next segment of the set from the rendition at `place`. After a change of
    /// rendition or a seek, this is the segment at `from`, in seconds of the presentation;
    /// otherwise it is the segment after the last one. Returns `None` if its list or init segment
    /// cannot be fetched, or there is no such segment.
    pub(super) async fn segment(
        &mut self,
        place: usize,
        from: Option<f64>,
        mut due: Instant,
    ) -> Option<FetchedSegment> {
        let segments = self.segments(place, &mut due).await?;
        let index = match (self.last, from) {
            (Some((rendition, index)), _) if rendition == place => index + 1,
            // The segments of two renditions may start at slightly different times.
            (_, Some(from)) => segments.at(from + 0.05),
            (_, None) => 0,
        };
        let mut resource = segments.resource(index)?;
        let (start, duration) = segments.time(index)?;
        let init = self.init(place, index, &mut due).await?;
        let group = segments.group(index)?;
        // A byte range of a file has no order of its own.
        let is_orderable = group.container == Container::Cmaf && resource.range.is_none();
        if is_orderable && self.session.behaviour.by_priority {
            resource.url.query_pairs_mut().append_pair("order", "priority");
        }
        let mut check = Check::segment(group.container, init.as_ref(), group.timescale);
        let mut push = |piece: &[u8]| {
            check.push(piece);
            Ok(())
        };
        let (fetched, share) = self.body(&resource, due, duration, &mut push).await;
        // The end of a truncated segment cannot be checked.
        let is_whole = fetched.is_ok() && share >= 1.0;
        let wrong = is_whole.then(|| check.finish()).and_then(|checked| {
            checked.and_then(|spans| self.timeline.add(&segments, place, index, spans)).err()
        });
        let wrong = wrong
            .map(|failure| Failure { detail: format!("{}: {}", resource.url, failure.detail), ..failure });
        let kind = self.presentation.sets.get(self.set)?.kind;
        let class = Class::Segment(kind).name(Some(self.presentation.protocol));
        self.session.recorder.request(self.player, &class, &fetched, wrong.as_ref());
        self.last = Some((place, index));
        // A body that fails its check is counted as a failure, but plays like any other.
        let arrived = fetched.ok().map(|fetched| Arrived {
            bytes: fetched.bytes,
            seconds: fetched.transfer.as_secs_f64(),
            share,
        });
        Some(FetchedSegment { rendition: place, start, end: start + duration, last: segments.end(), arrived })
    }
}
