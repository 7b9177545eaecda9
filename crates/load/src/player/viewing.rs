//! A player that watches a title as a viewer does, from the manifest to the end.

use super::{
    MAX_FAILURES, Player, Session, SetFetcher,
    abr::{Situation, Throughput},
    buffer::{Clock, SetBuffer, Wait, has_enough, playable_until},
    fetch::FetchedSegment,
    main_set,
};
use crate::results::{PlayerEnd, Players};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use latemux_client::{
    http::Connection,
    presentation::{MediaKind, Presentation},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// The wait before a player retries to fetch a list of segments or an init segment.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Plays a title once, or until it is stopped. All events but the player's start and end are
/// recorded.
pub(crate) async fn play(session: &Arc<Session>, player: Player) -> PlayerEnd {
    if *player.stop.borrow() {
        return PlayerEnd::Stopped;
    }
    let Some((presentation, connection)) = session.manifest(&player).await else {
        return PlayerEnd::Failed;
    };
    let mut viewing = Viewing::new(session, presentation, connection, player);
    let played = viewing.run().await;
    viewing.report();
    played
}

/// A download that has ended.
struct Done {
    fetcher: SetFetcher,
    place: usize,
    /// The generation in which it started.
    generation: u32,
    segment: Option<FetchedSegment>,
}

struct Viewing<'a> {
    session: &'a Arc<Session>,
    player: Player,
    presentation: Arc<Presentation>,
    /// The fetcher of each set; `None` while a download uses it.
    fetchers: Vec<Option<SetFetcher>>,
    buffers: Vec<SetBuffer>,
    downloads: FuturesUnordered<BoxFuture<'static, Done>>,
    clock: Clock,
    /// True once the clock is at the start of the first segment.
    has_begun: bool,
    /// The number of seeks so far. Downloads of earlier generations are not played.
    generation: u32,
    throughput: Throughput,
    random: fastrand::Rng,
    next_seek: Option<Instant>,
    failures: u32,
    /// The latest known end of the media.
    end: f64,
    tally: QualityTally,
}

/// The sums from which quality is computed. They cover the first set with video, or else the first
/// set.
#[derive(Default)]
struct QualityTally {
    /// Seconds of media played before the clock was last started.
    shown: f64,
    /// The rendition and bit rate of the last segment.
    last: Option<(usize, f64)>,
    segments: f64,
    rates: f64,
    changes: f64,
    switches: u64,
    /// Bits and seconds of the segments that were fetched.
    bits: f64,
    seconds: f64,
    highest: f64,
    waited: f64,
}

impl<'a> Viewing<'a> {
    fn new(
        session: &'a Arc<Session>,
        presentation: Arc<Presentation>,
        connection: Connection,
        player: Player,
    ) -> Self {
        let fetcher = |set| Some(SetFetcher::new(session, player.number, &presentation, set));
        let mut fetchers: Vec<Option<SetFetcher>> = (0..presentation.sets.len()).map(fetcher).collect();
        // The first set uses the connection of the manifest.
        if let Some(Some(first)) = fetchers.first_mut() {
            first.connection = connection;
        }
        let mut viewing = Self {
            session,
            buffers: vec![SetBuffer::default(); fetchers.len()],
            fetchers,
            downloads: FuturesUnordered::new(),
            clock: Clock::Waiting { why: Wait::Startup, since: player.due, at: 0.0 },
            has_begun: false,
            generation: 0,
            throughput: Throughput::default(),
            random: fastrand::Rng::with_seed(player.seed),
            next_seek: None,
            failures: 0,
            end: 0.0,
            tally: QualityTally::default(),
            presentation,
            player,
        };
        viewing.next_seek = viewing.seek_after(Instant::now());
        viewing
    }

    async fn run(&mut self) -> PlayerEnd {
        loop {
            let now = Instant::now();
            let stopping = *self.player.stop.borrow();
            if stopping && self.downloads.is_empty() {
                self.stop_clock(now);
                return PlayerEnd::Stopped;
            }
            if self.failures >= MAX_FAILURES {
                // Requests in flight are counted too.
                while self.downloads.next().await.is_some() {}
                self.stop_clock(Instant::now());
                return PlayerEnd::Failed;
            }
            if self.tick(now) {
                return PlayerEnd::Finished;
            }
            if !stopping {
                self.seek(now);
            }
            self.start_playing(now);
            if !stopping {
                self.start_downloads(now);
            }
            let wake = self.wake(stopping);
            tokio::select! {
                Some(done) = self.downloads.next(), if !self.downloads.is_empty() => self.take(done),
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => {}
                _ = self.player.stop.changed(), if !stopping => {}
            }
        }
    }

    /// Returns true if playback has reached the end. If the buffer is empty before the end, starts
    /// a stall at the time at which it became empty.
    fn tick(&mut self, now: Instant) -> bool {
        let Clock::Playing { from, .. } = self.clock else {
            // If all sets have ended without a segment, there is nothing to wait for.
            return self.buffers.iter().all(|buffer| buffer.is_done) && !self.has_begun;
        };
        let limit = playable_until(&self.buffers).unwrap_or(from);
        if self.clock.position(now) < limit {
            return false;
        }
        let since = self.clock.when(limit).unwrap_or(now).min(now);
        self.tally.shown += (limit - from).max(0.0);
        self.clock = Clock::Waiting { why: Wait::Stall, since, at: limit };
        if self.buffers.iter().all(|buffer| buffer.is_done) {
            return true;
        }
        self.session.recorder.stall_started(self.player.number);
        false
    }

    /// Starts the clock if enough media is buffered.
    fn start_playing(&mut self, now: Instant) {
        let Clock::Waiting { why, since, at } = self.clock else { return };
        if !self.has_begun || !has_enough(&self.buffers, at, self.session.behaviour.start_buffer) {
            return;
        }
        let waited = now.saturating_duration_since(since);
        self.waited(why, waited);
        self.clock = Clock::Playing { since: now, from: at };
    }

    fn waited(&mut self, why: Wait, waited: Duration) {
        let micros = crate::micros::micros(waited);
        // A wait after a seek does not lower quality.
        if why != Wait::Seek {
            self.tally.waited += waited.as_secs_f64();
        }
        self.session.recorder.update_players(self.player.number, |players| match why {
            Wait::Startup => players.startup.record(micros),
            Wait::Stall => players.stalls.record(micros),
            Wait::Seek => players.seeks.record(micros),
        });
    }

    /// Stops the clock for good. Counts the media played until now, and a stall in progress.
    fn stop_clock(&mut self, now: Instant) {
        match self.clock {
            Clock::Playing { from, .. } => {
                let to =
                    playable_until(&self.buffers).map_or(from, |limit| self.clock.position(now).min(limit));
                self.tally.shown += (to - from).max(0.0);
            }
            Clock::Waiting { why: Wait::Stall, since, .. } => {
                self.waited(Wait::Stall, now.saturating_duration_since(since));
            }
            Clock::Waiting { .. } => {}
        }
    }

    fn start_downloads(&mut self, now: Instant) {
        let max = self.session.behaviour.max_buffer;
        let position = self.clock.position(now);
        for place in 0..self.buffers.len() {
            let Some(buffer) = self.buffers.get_mut(place) else { continue };
            if buffer.is_busy || buffer.is_done || buffer.due.is_some_and(|due| due > now) {
                continue;
            }
            let ahead = buffer.until.map_or(0.0, |until| until - position);
            if ahead >= max {
                buffer.due = self.clock.when(buffer.until.unwrap_or(0.0) - max);
                continue;
            }
            let due = buffer.due.take().unwrap_or(now);
            let Some(fetcher) = self.fetchers.get_mut(place).and_then(Option::take) else { continue };
            buffer.is_busy = true;
            self.download(place, fetcher, due, now, ahead);
        }
    }

    fn download(&mut self, place: usize, mut fetcher: SetFetcher, due: Instant, now: Instant, ahead: f64) {
        self.session.recorder.lag(self.player.number, now.saturating_duration_since(due));
        let behaviour = &self.session.behaviour;
        let from = self.buffers.get(place).and_then(|buffer| buffer.until);
        let situation =
            Situation { buffer: ahead.max(0.0), max_buffer: behaviour.max_buffer, time: from.unwrap_or(0.0) };
        let Some(set) = self.presentation.sets.get(place) else { return };
        let rendition = behaviour.abr.choose(set, &self.throughput, situation, &mut self.random);
        let generation = self.generation;
        self.downloads.push(Box::pin(async move {
            let segment = fetcher.segment(rendition, from, due).await;
            Done { fetcher, place, generation, segment }
        }));
    }

    fn take(&mut self, done: Done) {
        let Done { mut fetcher, place, generation, segment } = done;
        let is_stale = generation != self.generation;
        if is_stale {
            // The segment belongs to the position before a seek, so the next segment does not
            // follow this one.
            fetcher.last = None;
        }
        if let Some(slot) = self.fetchers.get_mut(place) {
            *slot = Some(fetcher);
        }
        let Some(buffer) = self.buffers.get_mut(place) else { return };
        buffer.is_busy = false;
        let Some(segment) = segment else {
            self.failures += 1;
            buffer.due = Instant::now().checked_add(RETRY_DELAY);
            return;
        };
        self.failures = if segment.arrived.is_some() { 0 } else { self.failures + 1 };
        self.end = self.end.max(segment.last);
        if is_stale {
            return;
        }
        buffer.until = Some(segment.end);
        buffer.is_done = segment.end >= segment.last - 1e-6;
        if let Clock::Waiting { why: Wait::Startup, since, at } = self.clock {
            let at = if self.has_begun { at.min(segment.start) } else { segment.start };
            self.clock = Clock::Waiting { why: Wait::Startup, since, at };
            self.has_begun = true;
        }
        self.add_to_tally(place, segment);
    }

    /// Adds a segment to the sums of quality and throughput.
    fn add_to_tally(&mut self, place: usize, segment: FetchedSegment) {
        let Some(arrived) = segment.arrived else { return };
        let sets = &self.presentation.sets;
        // Text segments are too small to measure throughput.
        if sets.get(place).is_none_or(|set| set.kind != MediaKind::Text) {
            self.throughput.add(arrived.bytes, arrived.seconds);
        }
        let main = main_set(&self.presentation);
        let Some(set) = sets.get(main).filter(|_| place == main) else { return };
        let bits = arrived.bytes as f64 * 8.0;
        let seconds = (segment.end - segment.start).max(1e-3);
        let stated =
            |place: usize| set.renditions.get(place).map(|r| r.bandwidth as f64).filter(|rate| *rate > 0.0);
        // Renditions without a stated bit rate count as equal. A truncated segment counts as one of
        // a lower bit rate.
        let rate = stated(segment.rendition).unwrap_or(1.0) * arrived.share;
        let tally = &mut self.tally;
        tally.highest = tally.highest.max(stated(set.renditions.len().saturating_sub(1)).unwrap_or(1.0));
        tally.bits += bits;
        tally.seconds += seconds;
        tally.segments += 1.0;
        tally.rates += rate;
        if let Some((_, before)) = tally.last.filter(|(rendition, _)| *rendition != segment.rendition) {
            tally.switches += 1;
            tally.changes += (rate - before).abs();
        }
        tally.last = Some((segment.rendition, rate));
    }

    /// Returns the time of the next random seek.
    fn seek_after(&mut self, now: Instant) -> Option<Instant> {
        let rate = self.session.behaviour.seek_rate / 60.0;
        if rate <= 0.0 {
            return None;
        }
        let wait = -(1.0 - self.random.f64()).ln() / rate;
        now.checked_add(Duration::try_from_secs_f64(wait).ok()?)
    }

    /// Seeks to a random position if a seek is due. The buffers are emptied.
    fn seek(&mut self, now: Instant) {
        let Clock::Playing { from, .. } = self.clock else { return };
        if self.next_seek.is_none_or(|at| at > now) {
            return;
        }
        self.next_seek = self.seek_after(now);
        self.tally.shown += (self.clock.position(now) - from).max(0.0);
        let target = self.random.f64() * self.end;
        self.clock = Clock::Waiting { why: Wait::Seek, since: now, at: target };
        self.generation = self.generation.wrapping_add(1);
        for buffer in &mut self.buffers {
            *buffer = SetBuffer { until: Some(target), is_busy: buffer.is_busy, ..SetBuffer::default() };
        }
        for fetcher in self.fetchers.iter_mut().flatten() {
            fetcher.last = None;
        }
    }

    /// Returns the time of the next event other than the end of a download.
    fn wake(&self, stopping: bool) -> Option<Instant> {
        if stopping {
            return None;
        }
        let empty = playable_until(&self.buffers).and_then(|limit| self.clock.when(limit));
        let room = self
            .buffers
            .iter()
            .filter(|buffer| !buffer.is_busy && !buffer.is_done)
            .filter_map(|buffer| buffer.due)
            .min();
        let seek = self.next_seek.filter(|_| matches!(self.clock, Clock::Playing { .. }));
        [empty, room, seek].into_iter().flatten().min()
    }

    /// Records the measurements of the whole viewing.
    fn report(&self) {
        let tally = &self.tally;
        self.session.recorder.update_players(self.player.number, |players: &mut Players| {
            players.shown += to_u64(tally.shown * 1e6);
            players.switches += tally.switches;
            if tally.segments > 0.0 {
                players.bitrate.record(to_u64(tally.bits / tally.seconds));
                players.quality.record(to_u64((1.0 + tally.quality()) * 1000.0));
            }
        });
    }
}

impl QualityTally {
    /// Returns the linear quality of Yin et al. (SIGCOMM 2015), eq. 5, relative to the best
    /// possible one, from -1 to 1: the bit rates of all segments, minus the changes between them,
    /// minus the highest bit rate for each second of waiting.
    fn quality(&self) -> f64 {
        let sum = self.rates - self.changes - self.highest * self.waited;
        (sum / (self.segments * self.highest).max(1.0)).clamp(-1.0, 1.0)
    }
}

/// Rounds a number; negative numbers become 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not below 0")]
fn to_u64(number: f64) -> u64 {
    number.round().max(0.0) as u64
}
