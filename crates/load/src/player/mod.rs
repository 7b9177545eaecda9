//! One simulated viewer: it fetches a manifest, then segments while its buffer has room.
//!
//! Video and audio have a connection each. Playback is a clock that advances in real time, stops at
//! the end of the buffer, and continues when enough media is buffered again. Nothing is decoded.

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
    http::{Client, Connection},
    presentation::Segments,
};
pub(crate) use sequence::sequence;
use std::sync::Arc;
use tokio::{sync::watch, time::Instant};
use url::Url;
pub use viewing::play;

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
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { abr: Abr::Throughput, max_buffer: 30.0, start_buffer: 2.0, seek_rate: 0.0, text: false }
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
pub struct Player {
    /// Its number, which is unique in the run.
    pub number: u64,
    /// The manifest that it plays.
    pub url: Url,
    /// The seed of its random choices.
    pub seed: u64,
    /// The time at which it should start.
    pub due: Instant,
    /// Becomes true when it must make no more requests.
    pub stop: watch::Receiver<bool>,
}

/// The segments of a rendition, and its last init segment with the index of its group of segments.
type KnownRendition = (Arc<Segments>, Option<(usize, Arc<Init>)>);

/// Fetches the segments of one set, one after the other.
#[derive(Debug, Default)]
struct SetFetcher {
    set: usize,
    connection: Connection,
    /// The known renditions, by their index in the set.
    renditions: Vec<Option<KnownRendition>>,
    /// The rendition and index of the last segment that was requested.
    last: Option<(usize, usize)>,
    timeline: Timeline,
}
