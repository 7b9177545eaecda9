//! One simulated viewer: it fetches a manifest, then segments while its buffer has room.
//!
//! Video and audio have a connection each. Playback is a clock that advances in real time, stops at
//! the end of the buffer, and continues once enough media is buffered again. Nothing is decoded.

mod abr;
mod buffer;
mod fetch;
mod parse_cache;
mod sequence;
mod viewing;

pub use abr::{Abr, Trace};
pub(crate) use parse_cache::ParseCache;

use crate::results::Recorder;
use latemux_client::{
    check::{Init, timeline::Timeline},
    http::{Client, Connection, Streams},
    presentation::{MediaKind, Presentation, RenditionSet, Segments},
};
use latemux_streams::Settings;
pub(crate) use sequence::sequence;
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};
use url::Url;
pub(crate) use viewing::play;

/// The number of consecutive failed requests after which a player gives up.
const MAX_FAILURES: u32 = 5;

/// The behaviour of players.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The choice of renditions.
    pub abr: Abr,
    /// The maximum of buffered media in seconds.
    pub max_buffer: f64,
    /// The seconds of buffered media with which playback starts, or continues after a stall.
    pub start_buffer: f64,
    /// Seeks to random positions, per minute of playback; 0 for none.
    pub seek_rate: f64,
    /// If true, players fetch text too.
    pub text: bool,
    /// The chunks in which players fetch the segments of their main set; `None` to fetch each
    /// segment with one request.
    pub chunking: Option<Chunking>,
    /// If true, players request the segments of DASH, and of HLS in CMAF, with their samples in
    /// order of importance.
    pub by_priority: bool,
}

/// The way in which segments are fetched in chunks, over several connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// The settings of the streams.
    pub settings: Settings,
    /// If true, a segment is truncated when its duration is over.
    pub truncate: bool,
}

/// Returns the index of the set whose quality counts, and whose segments are fetched in chunks: the
/// first one with video, or else the first one.
fn main_set(presentation: &Presentation) -> usize {
    let is_video = |set: &RenditionSet| matches!(set.kind, MediaKind::Video | MediaKind::Muxed);
    presentation.sets.iter().position(is_video).unwrap_or(0)
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            abr: Abr::Throughput,
            max_buffer: 30.0,
            start_buffer: 2.0,
            seek_rate: 0.0,
            text: false,
            chunking: None,
            by_priority: false,
        }
    }
}

/// The state that all players of a run share.
#[derive(Debug)]
pub struct Session {
    pub(crate) client: Client,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) behaviour: Behaviour,
    pub(crate) parse_cache: ParseCache,
}

impl Session {
    /// Makes a session whose measurements go to `recorder`.
    pub fn new(client: Client, recorder: Arc<Recorder>, behaviour: Behaviour) -> Self {
        Self { client, recorder, behaviour, parse_cache: ParseCache::default() }
    }
}

/// The parameters of one player.
#[derive(Debug, Clone)]
pub(crate) struct Player {
    /// The number of the player, which is unique in the run.
    pub(crate) number: u64,
    /// The URL of the manifest.
    pub(crate) url: Url,
    /// The seed of random choices.
    pub(crate) seed: u64,
    /// The time at which the player should start.
    pub(crate) due: Instant,
    /// Becomes true when the player must make no more requests.
    pub(crate) stop: watch::Receiver<bool>,
}

/// The segments of a rendition, and its last init segment with the index of the init segment's
/// group.
type KnownRendition = (Arc<Segments>, Option<(usize, Arc<Init>)>);

/// Fetches the segments of one set, one after the other.
#[derive(Debug)]
struct SetFetcher {
    session: Arc<Session>,
    /// The number of the player.
    player: u64,
    presentation: Arc<Presentation>,
    set: usize,
    connection: Connection,
    /// The connections for chunks, if segments of this set are fetched in chunks.
    streams: Option<Streams>,
    /// The known renditions, by their index in the set.
    renditions: Vec<Option<KnownRendition>>,
    /// The rendition and index of the last segment that was requested.
    last: Option<(usize, usize)>,
    timeline: Timeline,
}

impl SetFetcher {
    fn new(session: &Arc<Session>, player: u64, presentation: &Arc<Presentation>, set: usize) -> Self {
        let renditions = presentation.sets.get(set).map_or(0, |set| set.renditions.len());
        let chunking = session.behaviour.chunking.filter(|_| set == main_set(presentation));
        Self {
            session: session.clone(),
            player,
            presentation: presentation.clone(),
            set,
            connection: Connection::default(),
            streams: chunking.map(|chunking| Streams::new(chunking.settings)),
            renditions: vec![None; renditions],
            last: None,
            timeline: Timeline::default(),
        }
    }
}
