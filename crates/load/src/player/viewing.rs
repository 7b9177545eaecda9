//! A viewing from manifest to end.

use super::{
    Player, Session, SetFetcher,
    abr::{Situation, Throughput},
    buffer::{Clock, SetBuffer, Wait, enough, limit},
    fetch::FetchedSegment,
};
use crate::results::{PlayerEnd, Players};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use latemux_client::{
    http::Connection,
    presentation::{MediaKind, Presentation, Resource},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Requests that fail one after the other before a player gives up.
const MAX_FAILURES: u32 = 5;

/// How long a player waits before it asks again for what it cannot do without.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Plays one title once, or until told to stop. Everything that happens is counted.
pub async fn play(session: Arc<Session>, player: Player) -> PlayerEnd {
    let who = player.number;
    session.recorder.player_started(who);
    let played = viewing(&session, player).await;
    session.recorder.player_left(who, played);
    played
}

async fn viewing(session: &Arc<Session>, player: Player) -> PlayerEnd {
    if *player.stop.borrow() {
        return PlayerEnd::Stopped;
    }
    let who = player.number;
    session.recorder.lag(who, player.due.elapsed());
    let mut connection = Connection::default();
    let resource = Resource { url: player.url.clone(), range: None };
    let Some(presentation) = session.manifest(who, &mut connection, &resource, player.due).await else {
        return PlayerEnd::Failed;
    };
    let mut viewing = Viewing::new(session, presentation, connection, player);
    let played = viewing.run().await;
    viewing.report();
    played
}

/// A download that ended.
struct Done {
    fetcher: SetFetcher,
    place: usize,
    /// The seek it was begun after.
    generation: u32,
    got: Option<FetchedSegment>,
}

struct Viewing<'a> {
    session: &'a Arc<Session>,
    player: Player,
    presentation: Arc<Presentation>,
    /// `None` while it is on its way with a download.
    fetchers: Vec<Option<SetFetcher>>,
    buffers: Vec<SetBuffer>,
    downloads: FuturesUnordered<BoxFuture<'static, Done>>,
    clock: Clock,
    /// Whether the clock has been set to the first segment.
    began: bool,
    generation: u32,
    throughput: Throughput,
    random: fastrand::Rng,
    next_seek: Option<Instant>,
    failures: u32,
    /// End of the media, as far as is known.
    end: f64,
    tally: QualityTally,
}

/// What counts for the quality of a viewing: of video, or of what has both.
#[derive(Default)]
struct QualityTally {
    /// Media shown, in seconds, without the part that is playing.
    shown: f64,
    /// Rendition, bit rate and duration of the last segment.
    last: Option<(usize, f64)>,
    segments: f64,
    rates: f64,
    changes: f64,
    switches: u64,
    /// Bits and seconds of what was fetched.
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
        let mut fetchers: Vec<Option<SetFetcher>> = Vec::new();
        for (place, set) in presentation.sets.iter().enumerate() {
            fetchers.push(Some(SetFetcher {
                set: place,
                renditions: vec![None; set.renditions.len()],
                ..SetFetcher::default()
            }));
        }
        // The manifest's connection is used on.
        if let Some(Some(first)) = fetchers.first_mut() {
            first.connection = connection;
        }
        let mut viewing = Self {
            session,
            buffers: vec![SetBuffer::default(); fetchers.len()],
            fetchers,
            downloads: FuturesUnordered::new(),
            clock: Clock::Waiting { why: Wait::Startup, since: player.due, at: 0.0 },
            began: false,
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
                self.pause(now);
                return PlayerEnd::Stopped;
            }
            if self.failures >= MAX_FAILURES {
                // What is on its way is counted too.
                while self.downloads.next().await.is_some() {}
                self.pause(Instant::now());
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

    /// Whether the end was shown. Stalls where media is missing, from when it was missing.
    fn tick(&mut self, now: Instant) -> bool {
        let Clock::Playing { from, .. } = self.clock else {
            // Nothing is left to wait for.
            return self.buffers.iter().all(|buffer| buffer.done) && !self.began;
        };
        let limit = limit(&self.buffers).unwrap_or(from);
        if self.clock.position(now) < limit {
            return false;
        }
        let since = self.clock.when(limit).unwrap_or(now).min(now);
        self.tally.shown += (limit - from).max(0.0);
        self.clock = Clock::Waiting { why: Wait::Stall, since, at: limit };
        if self.buffers.iter().all(|buffer| buffer.done) {
            return true;
        }
        self.session.recorder.stall_started(self.player.number);
        false
    }

    /// Plays where there is enough.
    fn start_playing(&mut self, now: Instant) {
        let Clock::Waiting { why, since, at } = self.clock else { return };
        if !self.began || !enough(&self.buffers, at, self.session.behaviour.start_buffer) {
            return;
        }
        let waited = now.saturating_duration_since(since);
        self.waited(why, waited);
        self.clock = Clock::Playing { since: now, from: at };
    }

    fn waited(&mut self, why: Wait, waited: Duration) {
        let micros = crate::results::micros(waited);
        // What a viewer asked for is no stall.
        if why != Wait::Seek {
            self.tally.waited += waited.as_secs_f64();
        }
        self.session.recorder.update_players(self.player.number, |players| match why {
            Wait::Startup => players.startup.record(micros),
            Wait::Stall => players.stalls.record(micros),
            Wait::Seek => players.seeks.record(micros),
        });
    }

    /// Stops the clock for good: what was shown until now counts, and so does a stall that had not ended.
    fn pause(&mut self, now: Instant) {
        match self.clock {
            Clock::Playing { from, .. } => {
                let to = limit(&self.buffers).map_or(from, |limit| self.clock.position(now).min(limit));
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
            if buffer.busy || buffer.done {
                continue;
            }
            if buffer.due.is_some_and(|due| due > now) {
                continue;
            }
            let ahead = buffer.until.map_or(0.0, |until| until - position);
            if ahead >= max {
                buffer.due = self.clock.when(buffer.until.unwrap_or(0.0) - max);
                continue;
            }
            let due = buffer.due.take().unwrap_or(now);
            let Some(fetcher) = self.fetchers.get_mut(place).and_then(Option::take) else { continue };
            buffer.busy = true;
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
        let (session, presentation) = (self.session.clone(), self.presentation.clone());
        let (who, generation) = (self.player.number, self.generation);
        self.downloads.push(Box::pin(async move {
            let got = session.segment(who, &presentation, &mut fetcher, rendition, from, due).await;
            Done { fetcher, place, generation, got }
        }));
    }

    fn take(&mut self, done: Done) {
        let Done { mut fetcher, place, generation, got } = done;
        let stale = generation != self.generation;
        if stale {
            // The segment is of where the viewer was before: the next one does not follow it.
            fetcher.last = None;
        }
        if let Some(slot) = self.fetchers.get_mut(place) {
            *slot = Some(fetcher);
        }
        let Some(buffer) = self.buffers.get_mut(place) else { return };
        buffer.busy = false;
        let Some(got) = got else {
            self.failures += 1;
            buffer.due = Instant::now().checked_add(RETRY_DELAY);
            return;
        };
        self.failures = if got.arrived.is_some() { 0 } else { self.failures + 1 };
        self.end = self.end.max(got.last);
        if stale {
            return;
        }
        buffer.until = Some(got.end);
        buffer.done = got.end >= got.last - 1e-6;
        if let Clock::Waiting { why: Wait::Startup, since, at } = self.clock {
            let at = if self.began { at.min(got.start) } else { got.start };
            self.clock = Clock::Waiting { why: Wait::Startup, since, at };
            self.began = true;
        }
        self.note(place, got);
    }

    /// What a segment adds to the quality of the viewing.
    fn note(&mut self, place: usize, got: FetchedSegment) {
        let Some(arrived) = got.arrived else { return };
        let sets = &self.presentation.sets;
        // Text is too small to tell what a connection can do.
        if sets.get(place).is_none_or(|set| set.kind != MediaKind::Text) {
            self.throughput.add(arrived.bytes, arrived.seconds);
        }
        let main =
            sets.iter().position(|set| matches!(set.kind, MediaKind::Video | MediaKind::Muxed)).unwrap_or(0);
        let Some(set) = sets.get(main).filter(|_| place == main) else { return };
        #[expect(clippy::cast_precision_loss, reason = "bits of a segment")]
        let bits = arrived.bytes as f64 * 8.0;
        let seconds = (got.end - got.start).max(1e-3);
        #[expect(clippy::cast_precision_loss, reason = "bit rates")]
        let stated =
            |place: usize| set.renditions.get(place).map(|r| r.bandwidth as f64).filter(|rate| *rate > 0.0);
        // Those that do not say are all the same.
        let rate = stated(got.rendition).unwrap_or(1.0);
        let tally = &mut self.tally;
        tally.highest = tally.highest.max(stated(set.renditions.len().saturating_sub(1)).unwrap_or(rate));
        tally.bits += bits;
        tally.seconds += seconds;
        tally.segments += 1.0;
        tally.rates += rate;
        if let Some((_, before)) = tally.last.filter(|(rendition, _)| *rendition != got.rendition) {
            tally.switches += 1;
            tally.changes += (rate - before).abs();
        }
        tally.last = Some((got.rendition, rate));
    }

    fn seek_after(&mut self, now: Instant) -> Option<Instant> {
        let rate = self.session.behaviour.seek_rate / 60.0;
        if rate <= 0.0 {
            return None;
        }
        let wait = -(1.0 - self.random.f64()).ln() / rate;
        now.checked_add(Duration::try_from_secs_f64(wait).ok()?)
    }

    /// Goes to any place, if it is time to: what is ahead is thrown away.
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
            *buffer = SetBuffer { until: Some(target), busy: buffer.busy, ..SetBuffer::default() };
        }
        for fetcher in self.fetchers.iter_mut().flatten() {
            fetcher.last = None;
        }
    }

    /// When something happens without a download.
    fn wake(&self, stopping: bool) -> Option<Instant> {
        if stopping {
            return None;
        }
        let empty = limit(&self.buffers).and_then(|limit| self.clock.when(limit));
        let room = self
            .buffers
            .iter()
            .filter(|buffer| !buffer.busy && !buffer.done)
            .filter_map(|buffer| buffer.due)
            .min();
        let seek = self.next_seek.filter(|_| matches!(self.clock, Clock::Playing { .. }));
        [empty, room, seek].into_iter().flatten().min()
    }

    /// Adds the viewing to what players saw.
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
    /// The linear quality of Yin et al. (SIGCOMM 2015), eq. 5, in parts of the best there could have been: the bit rates of all segments, less
    /// the changes from one to the next, less the seconds of waiting each weighed as a segment of the highest bit rate. From -1 to 1.
    fn quality(&self) -> f64 {
        let sum = self.rates - self.changes - self.highest * self.waited;
        (sum / (self.segments * self.highest).max(1.0)).clamp(-1.0, 1.0)
    }
}

/// Rounded; what is below 0 is 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not below 0")]
fn to_u64(number: f64) -> u64 {
    number.round().max(0.0) as u64
}
