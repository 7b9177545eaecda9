//! The requests of players. Each body is checked, and each request is counted once.

use super::{Session, SetFetcher};
use latemux_client::{
    check::{Check, Init, Span},
    failure::{Failure, Reason},
    http::{Connection, FailedFetch, Fetched},
    manifest::MAX_BYTES,
    presentation::{Index, MediaKind, Presentation, Protocol, Resource, Segments},
};
use std::sync::Arc;
use tokio::time::Instant;

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
    /// Returns the name that reports use.
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

/// A segment that was requested.
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

#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) bytes: u64,
    /// Seconds from when the request was sent.
    pub(super) seconds: f64,
}

/// A request for a body that is parsed as a whole.
struct WholeRequest<'a> {
    player: u64,
    class: Class,
    protocol: Option<Protocol>,
    resource: &'a Resource,
    due: Instant,
}

impl Session {
    fn count(
        &self,
        player: u64,
        class: &'static str,
        fetched: &Result<Fetched, FailedFetch>,
        wrong: Option<&Failure>,
    ) {
        let failure = fetched.as_ref().err().map(|failed| &failed.failure).or(wrong);
        self.recorder.request(player, class, fetched.into(), failure);
    }

    /// Fetches and parses a body. `name` returns the class if it depends on the content.
    async fn read<T>(
        &self,
        request: WholeRequest<'_>,
        connection: &mut Connection,
        read: impl FnOnce(&Fetched, &[u8]) -> Result<T, Failure>,
        name: impl FnOnce(&T) -> Option<&'static str>,
    ) -> Option<T> {
        let WholeRequest { player, class, protocol, resource, due } = request;
        let mut body = Vec::new();
        let mut keep = |piece: &[u8]| {
            if body.len().saturating_add(piece.len()) > MAX_BYTES {
                let why = format!("{}: more than {MAX_BYTES} bytes", resource.url);
                return Err(Failure::new(Reason::TooLarge, why));
            }
            body.extend_from_slice(piece);
            Ok(())
        };
        let fetched = self.client.get(connection, resource, due, &mut keep).await;
        let read = fetched.as_ref().ok().map(|fetched| read(fetched, &body));
        let good = read.as_ref().and_then(|read| read.as_ref().ok());
        let class = good.and_then(name).unwrap_or_else(|| class.name(protocol));
        self.count(player, class, &fetched, read.as_ref().and_then(|read| read.as_ref().err()));
        read.and_then(Result::ok)
    }

    /// Fetches the manifest. Returns `None` if that fails, which is counted.
    pub(super) async fn manifest(
        &self,
        player: u64,
        connection: &mut Connection,
        resource: &Resource,
        due: Instant,
    ) -> Option<Arc<Presentation>> {
        let read = |fetched: &Fetched, body: &[u8]| {
            self.parse_cache.presentation(&fetched.url, body, self.behaviour.text)
        };
        let name = |presentation: &Arc<Presentation>| Some(Class::Manifest.name(Some(presentation.protocol)));
        let request = WholeRequest { player, class: Class::Manifest, protocol: None, resource, due };
        self.read(request, connection, read, name).await
    }

    /// Returns the segments of a rendition, and fetches their lists if necessary.
    async fn segments(
        &self,
        player: u64,
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
                    let read = |fetched: &Fetched, body: &[u8]| {
                        self.parse_cache.segments(deferred, &fetched.url, body)
                    };
                    let (protocol, resource) = (Some(presentation.protocol), &deferred.resource);
                    let request = WholeRequest { player, class: Class::Index, protocol, resource, due: *due };
                    periods.push(self.read(request, &mut fetcher.connection, read, |_| None).await?);
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

    /// Returns the init segment for a segment, or `Some(None)` if it needs none.
    async fn init(
        &self,
        player: u64,
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
        let request = WholeRequest {
            player,
            class: Class::Init,
            protocol: Some(presentation.protocol),
            resource,
            due: *due,
        };
        let init = self.read(request, &mut fetcher.connection, read, |_| None).await?;
        *due = Instant::now();
        *fetcher.renditions.get_mut(place)? = Some((segments.clone(), Some((part, init.clone()))));
        Some(Some(init))
    }

    /// Fetches the next segment of a set in a rendition: the one behind the last, or after a change of
    /// rendition or a seek the one at `from`, in seconds. Returns `None` if its list or init segment
    /// cannot be fetched.
    pub(super) async fn segment(
        &self,
        player: u64,
        presentation: &Presentation,
        fetcher: &mut SetFetcher,
        place: usize,
        from: Option<f64>,
        due: Instant,
    ) -> Option<FetchedSegment> {
        let mut due = due;
        let segments = self.segments(player, presentation, fetcher, place, &mut due).await?;
        let index = match (fetcher.last, from) {
            (Some((rendition, index)), _) if rendition == place => index.saturating_add(1),
            // The segments of two renditions may start at slightly different times.
            (_, Some(from)) => segments.at(from + 0.05),
            (_, None) => 0,
        };
        let resource = segments.resource(index)?;
        let (start, duration) = segments.time(index)?;
        let init = self.init(player, presentation, fetcher, (place, index), &mut due).await?;
        let part = segments.group(index)?;
        let mut check = Check::segment(part.container, init.as_ref(), part.timescale);
        let mut push = |piece: &[u8]| {
            check.push(piece);
            Ok(())
        };
        let fetched = self.client.get(&mut fetcher.connection, &resource, due, &mut push).await;
        let wrong = fetched
            .is_ok()
            .then(|| self.timeline(fetcher, &segments, place, index, check.finish()))
            .and_then(Result::err);
        let wrong = wrong
            .map(|failure| Failure { detail: format!("{}: {}", resource.url, failure.detail), ..failure });
        let kind = presentation.sets.get(fetcher.set)?.kind;
        self.count(player, Class::Segment(kind).name(Some(presentation.protocol)), &fetched, wrong.as_ref());
        fetcher.last = Some((place, index));
        // A body that fails its check is counted as a failure, but plays like any other.
        let arrived = fetched
            .ok()
            .map(|fetched| Arrived { bytes: fetched.bytes, seconds: fetched.transfer.as_secs_f64() });
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
