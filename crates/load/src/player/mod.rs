//! One viewer: a manifest, then segments, as the buffer has room for them.
//!
//! Video and audio come over a connection each. Playing is a clock: media is shown as fast as time goes by, stops where the buffer ends, and
//! goes on when enough is there again. Nothing is decoded.

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

/// How players behave.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// How they choose renditions.
    pub abr: Abr,
    /// The most seconds of media they keep ahead.
    pub max_buffer: f64,
    /// Seconds of media they want before they play, or go on.
    pub start_buffer: f64,
    /// Seeks to any place, per minute of playing; 0 for none.
    pub seek_rate: f64,
    /// Whether they fetch text too.
    pub text: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { abr: Abr::Throughput, max_buffer: 30.0, start_buffer: 2.0, seek_rate: 0.0, text: false }
    }
}

/// What all players of a run share.
#[derive(Debug)]
pub struct Session {
    pub(crate) client: Client,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) behaviour: Behaviour,
    pub(crate) parse_cache: ParseCache,
}

impl Session {
    /// For a run whose measurements go to `recorder`.
    #[must_use]
    pub fn new(client: Client, recorder: Arc<Recorder>, behaviour: Behaviour) -> Self {
        Self { client, recorder, behaviour, parse_cache: ParseCache::default() }
    }
}

/// A player to be.
#[derive(Debug, Clone)]
pub struct Player {
    /// Its number, unlike any other's.
    pub number: u64,
    /// What it plays.
    pub url: Url,
    /// What its chance is made of.
    pub seed: u64,
    /// When it was to come.
    pub due: Instant,
    /// Becomes true when no more requests shall be made.
    pub stop: watch::Receiver<bool>,
}

/// What a player knows of a rendition: its segments, and the init segment it had last, with the place of its part.
type KnownRendition = (Arc<Segments>, Option<(usize, Arc<Init>)>);

/// What a player knows of one of the sets it plays.
#[derive(Debug, Default)]
struct SetFetcher {
    set: usize,
    connection: Connection,
    /// By place in the set.
    renditions: Vec<Option<KnownRendition>>,
    /// The rendition and index of the last segment asked for.
    last: Option<(usize, usize)>,
    timeline: Timeline,
}
