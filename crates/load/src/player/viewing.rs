//! A viewing from manifest to end.

use super::{
    Lane, Player, Session,
    abr::{Situation, Throughput},
    buffer::{Clock, Level, Wait, enough, limit},
    fetch::Got,
};
use crate::results::{Played, Players};
use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use latemux_client::{
    http::Connection,
    presentation::{Kind, Presentation, Resource},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Requests that fail one after the other before a player gives up.
const PATIENCE: u32 = 5;

/// How long a player waits before it asks again for what it cannot do without.
const BREATH: Duration = Duration::from_secs(1);

/// Plays one title once, or until told to stop. Everything that happens is counted.
pub async fn play(session: Arc<Session>, player: Player) -> Played {
    let who = player.number;
    session.recorder.came(who);
    let played = viewing(&session, player).await;
    session.recorder.left(who, played);
    played
}

async fn viewing(session: &Arc<Session>, player: Player) -> Played {
    if *player.stop.borrow() {
        return Played::Stopped;
    }
    let who = player.number;
    session.recorder.lag(who, player.due.elapsed());
    let mut connection = Connection::default();
    let resource = Resource { url: player.url.clone(), range: None };
    let Some(presentation) = session.manifest(who, &mut connection, &resource, player.due).await else {
        return Played::Failed;
    };
    let mut viewing = Viewing::new(session, presentation, connection, player);
    let played = viewing.run().await;
    viewing.report();
    played
}

/// A download that ended.
struct Done {
    lane: Lane,
    place: usize,
    /// The seek it was begun after.
    generation: u32,
    got: Option<Got>,
}

struct Viewing<'a> {
    session: &'a Arc<Session>,
    player: Player,
    presentation: Arc<Presentation>,
    /// `None` while it is on its way with a download.
    lanes: Vec<Option<Lane>>,
    levels: Vec<Level>,
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
    seen: Seen,
}

/// What counts for the quality of a viewing: of video, or of what has both.
#[derive(Default)]
struct Seen {
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
        let mut lanes: Vec<Option<Lane>> = Vec::new();
        for (place, set) in presentation.sets.iter().enumerate() {
            lanes.push(Some(Lane {
                set: place,
                renditions: vec![None; set.renditions.len()],
                ..Lane::default()
            }));
        }
        // The manifest's connection is used on.
        if let Some(Some(first)) = lanes.first_mut() {
            first.connection = connection;
        }
        let mut viewing = Self {
            session,
            levels: vec![Level::default(); lanes.len()],
            lanes,
            downloads: FuturesUnordered::new(),
            clock: Clock::Waiting { why: Wait::Startup, since: player.due, at: 0.0 },
            began: false,
            generation: 0,
            throughput: Throughput::default(),
            random: fastrand::Rng::with_seed(player.seed),
            next_seek: None,
            failures: 0,
            end: 0.0,
            seen: Seen::default(),
            presentation,
            player,
        };
        viewing.next_seek = viewing.seek_after(Instant::now());
        viewing
    }

    async fn run(&mut self) -> Played {
        loop {
            let now = Instant::now();
            let stopping = *self.player.stop.borrow();
            if stopping && self.downloads.is_empty() {
                self.pause(now);
                return Played::Stopped;
            }
            if self.failures >= PATIENCE {
                // What is on its way is counted too.
                while self.downloads.next().await.is_some() {}
                self.pause(Instant::now());
                return Played::Failed;
            }
            if self.tick(now) {
                return Played::Finished;
            }
            if !stopping {
                self.seek(now);
            }
            self.go_on(now);
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
            return self.levels.iter().all(|level| level.done) && !self.began;
        };
        let limit = limit(&self.levels).unwrap_or(from);
        if self.clock.position(now) < limit {
            return false;
        }
        let since = self.clock.when(limit).unwrap_or(now).min(now);
        self.seen.shown += (limit - from).max(0.0);
        self.clock = Clock::Waiting { why: Wait::Stall, since, at: limit };
        if self.levels.iter().all(|level| level.done) {
            return true;
        }
        self.session.recorder.stalls(self.player.number);
        false
    }

    /// Plays where there is enough.
    fn go_on(&mut self, now: Instant) {
        let Clock::Waiting { why, since, at } = self.clock else { return };
        if !self.began || !enough(&self.levels, at, self.session.behaviour.start_buffer) {
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
            self.seen.waited += waited.as_secs_f64();
        }
        self.session.recorder.player(self.player.number, |players| match why {
            Wait::Startup => players.startup.record(micros),
            Wait::Stall => players.stalls.record(micros),
            Wait::Seek => players.seeks.record(micros),
        });
    }

    /// Stops the clock for good: what was shown until now counts, and so does a stall that had not ended.
    fn pause(&mut self, now: Instant) {
        match self.clock {
            Clock::Playing { from, .. } => {
                let to = limit(&self.levels).map_or(from, |limit| self.clock.position(now).min(limit));
                self.seen.shown += (to - from).max(0.0);
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
        for place in 0..self.levels.len() {
            let Some(level) = self.levels.get_mut(place) else { continue };
            if level.busy || level.done {
                continue;
            }
            if level.due.is_some_and(|due| due > now) {
                continue;
            }
            let ahead = level.until.map_or(0.0, |until| until - position);
            if ahead >= max {
                level.due = self.clock.when(level.until.unwrap_or(0.0) - max);
                continue;
            }
            let due = level.due.take().unwrap_or(now);
            let Some(lane) = self.lanes.get_mut(place).and_then(Option::take) else { continue };
            level.busy = true;
            self.download(place, lane, due, now, ahead);
        }
    }

    fn download(&mut self, place: usize, mut lane: Lane, due: Instant, now: Instant, ahead: f64) {
        self.session.recorder.lag(self.player.number, now.saturating_duration_since(due));
        let behaviour = &self.session.behaviour;
        let from = self.levels.get(place).and_then(|level| level.until);
        let situation =
            Situation { buffer: ahead.max(0.0), max_buffer: behaviour.max_buffer, time: from.unwrap_or(0.0) };
        let Some(set) = self.presentation.sets.get(place) else { return };
        let rendition = behaviour.abr.choose(set, &self.throughput, situation, &mut self.random);
        let (session, presentation) = (self.session.clone(), self.presentation.clone());
        let (who, generation) = (self.player.number, self.generation);
        self.downloads.push(Box::pin(async move {
            let got = session.segment(who, &presentation, &mut lane, rendition, from, due).await;
            Done { lane, place, generation, got }
        }));
    }

    fn take(&mut self, done: Done) {
        let Done { mut lane, place, generation, got } = done;
        let stale = generation != self.generation;
        if stale {
            // The segment is of where the viewer was before: the next one does not follow it.
            lane.last = None;
        }
        if let Some(slot) = self.lanes.get_mut(place) {
            *slot = Some(lane);
        }
        let Some(level) = self.levels.get_mut(place) else { return };
        level.busy = false;
        let Some(got) = got else {
            self.failures += 1;
            level.due = Instant::now().checked_add(BREATH);
            return;
        };
        self.failures = if got.arrived.is_some() { 0 } else { self.failures + 1 };
        self.end = self.end.max(got.last);
        if stale {
            return;
        }
        level.until = Some(got.end);
        level.done = got.end >= got.last - 1e-6;
        if let Clock::Waiting { why: Wait::Startup, since, at } = self.clock {
            let at = if self.began { at.min(got.start) } else { got.start };
            self.clock = Clock::Waiting { why: Wait::Startup, since, at };
            self.began = true;
        }
        self.note(place, got);
    }

    /// What a segment adds to the quality of the viewing.
    fn note(&mut self, place: usize, got: Got) {
        let Some(arrived) = got.arrived else { return };
        let sets = &self.presentation.sets;
        // Text is too small to tell what a connection can do.
        if sets.get(place).is_none_or(|set| set.kind != Kind::Text) {
            self.throughput.add(arrived.bytes, arrived.seconds);
        }
        let main = sets.iter().position(|set| matches!(set.kind, Kind::Video | Kind::Muxed)).unwrap_or(0);
        let Some(set) = sets.get(main).filter(|_| place == main) else { return };
        #[expect(clippy::cast_precision_loss, reason = "bits of a segment")]
        let bits = arrived.bytes as f64 * 8.0;
        let seconds = (got.end - got.start).max(1e-3);
        #[expect(clippy::cast_precision_loss, reason = "bit rates")]
        let stated =
            |place: usize| set.renditions.get(place).map(|r| r.bandwidth as f64).filter(|rate| *rate > 0.0);
        // Those that do not say are all the same.
        let rate = stated(got.rendition).unwrap_or(1.0);
        let seen = &mut self.seen;
        seen.highest = seen.highest.max(stated(set.renditions.len().saturating_sub(1)).unwrap_or(rate));
        seen.bits += bits;
        seen.seconds += seconds;
        seen.segments += 1.0;
        seen.rates += rate;
        if let Some((_, before)) = seen.last.filter(|(rendition, _)| *rendition != got.rendition) {
            seen.switches += 1;
            seen.changes += (rate - before).abs();
        }
        seen.last = Some((got.rendition, rate));
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
        self.seen.shown += (self.clock.position(now) - from).max(0.0);
        let target = self.random.f64() * self.end;
        self.clock = Clock::Waiting { why: Wait::Seek, since: now, at: target };
        self.generation = self.generation.wrapping_add(1);
        for level in &mut self.levels {
            *level = Level { until: Some(target), busy: level.busy, ..Level::default() };
        }
        for lane in self.lanes.iter_mut().flatten() {
            lane.last = None;
        }
    }

    /// When something happens without a download.
    fn wake(&self, stopping: bool) -> Option<Instant> {
        if stopping {
            return None;
        }
        let empty = limit(&self.levels).and_then(|limit| self.clock.when(limit));
        let room =
            self.levels.iter().filter(|level| !level.busy && !level.done).filter_map(|level| level.due).min();
        let seek = self.next_seek.filter(|_| matches!(self.clock, Clock::Playing { .. }));
        [empty, room, seek].into_iter().flatten().min()
    }

    /// Adds the viewing to what players saw.
    fn report(&self) {
        let seen = &self.seen;
        self.session.recorder.player(self.player.number, |players: &mut Players| {
            players.shown += to_u64(seen.shown * 1e6);
            players.switches += seen.switches;
            if seen.segments > 0.0 {
                players.bitrate.record(to_u64(seen.bits / seen.seconds));
                players.quality.record(to_u64((1.0 + seen.quality()) * 1000.0));
            }
        });
    }
}

impl Seen {
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
