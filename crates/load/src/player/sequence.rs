//! The player of published load tests. After the manifest, it fetches audio segment k, video
//! segment k, audio segment k + 1 and so on, as fast as possible and without playback.

use super::{
    MAX_FAILURES, Player, Session, SetFetcher,
    abr::{Situation, Throughput},
};
use crate::results::PlayerEnd;
use latemux_client::presentation::MediaKind;
use std::sync::Arc;
use tokio::time::Instant;

/// Fetches a title once, or until it is stopped.
pub(crate) async fn sequence(session: &Arc<Session>, player: Player) -> PlayerEnd {
    let Some((presentation, mut connection)) = session.manifest(&player).await else {
        return PlayerEnd::Failed;
    };
    let mut random = fastrand::Rng::with_seed(player.seed);
    let mut throughput = Throughput::default();
    let mut order: Vec<usize> = (0..presentation.sets.len()).collect();
    order.sort_by_key(|&set| presentation.sets.get(set).is_none_or(|set| set.kind != MediaKind::Audio));
    let fetcher = |set: usize| (SetFetcher::new(session, player.number, &presentation, set), None);
    // All sets share one connection because requests do not overlap.
    let mut fetchers: Vec<(SetFetcher, Option<f64>)> = order.into_iter().map(fetcher).collect();
    let mut failures = 0;
    while !fetchers.is_empty() {
        let mut place = 0;
        while let Some((fetcher, from)) = fetchers.get_mut(place) {
            if *player.stop.borrow() {
                return PlayerEnd::Stopped;
            }
            let Some(set) = presentation.sets.get(fetcher.set) else { return PlayerEnd::Failed };
            let situation = Situation { buffer: 0.0, max_buffer: 1.0, time: from.unwrap_or(0.0) };
            let rendition = session.behaviour.abr.choose(set, &throughput, situation, &mut random);
            fetcher.connection = std::mem::take(&mut connection);
            let got = fetcher.segment(rendition, *from, Instant::now()).await;
            connection = std::mem::take(&mut fetcher.connection);
            let arrived = got.and_then(|got| got.arrived);
            failures = if arrived.is_some() { 0 } else { failures + 1 };
            if failures >= MAX_FAILURES {
                return PlayerEnd::Failed;
            }
            if let Some(arrived) = arrived {
                throughput.add(arrived.bytes, arrived.seconds);
            }
            let ended = got.is_some_and(|got| got.end >= got.last - 1e-6);
            *from = got.map(|got| got.end).or(*from);
            if ended {
                fetchers.remove(place);
            } else {
                place += 1;
            }
        }
    }
    PlayerEnd::Finished
}
