//! The player of the published load tests: manifest, then audio segment k, video segment k, k + 1, …, as fast as they come; it shows nothing.

use super::{
    Lane, Player, Session,
    abr::{Situation, Throughput},
};
use crate::results::Played;
use latemux_client::{
    http::Connection,
    presentation::{Kind, Resource},
};
use std::sync::Arc;
use tokio::time::Instant;

/// Segments that fail one after the other before it gives up.
const PATIENCE: u32 = 5;

/// Goes through one title once, or until told to stop.
pub(crate) async fn sequence(session: Arc<Session>, player: Player) -> Played {
    let who = player.number;
    session.recorder.came(who);
    let played = walk(&session, &player).await;
    session.recorder.left(who, played);
    played
}

async fn walk(session: &Session, player: &Player) -> Played {
    let who = player.number;
    session.recorder.lag(who, player.due.elapsed());
    let mut connection = Connection::default();
    let resource = Resource { url: player.url.clone(), range: None };
    let Some(presentation) = session.manifest(who, &mut connection, &resource, player.due).await else {
        return Played::Failed;
    };
    let mut random = fastrand::Rng::with_seed(player.seed);
    let mut throughput = Throughput::default();
    let mut order: Vec<usize> = (0..presentation.sets.len()).collect();
    order.sort_by_key(|&set| presentation.sets.get(set).is_none_or(|set| set.kind != Kind::Audio));
    let lane = |set: usize| {
        let renditions = presentation.sets.get(set).map_or(0, |set| set.renditions.len());
        (Lane { set, renditions: vec![None; renditions], ..Lane::default() }, None)
    };
    // One connection for all, as one request follows the other.
    let mut lanes: Vec<(Lane, Option<f64>)> = order.into_iter().map(lane).collect();
    let mut failures = 0;
    while !lanes.is_empty() {
        let mut place = 0;
        while let Some((lane, from)) = lanes.get_mut(place) {
            if *player.stop.borrow() {
                return Played::Stopped;
            }
            let Some(set) = presentation.sets.get(lane.set) else { return Played::Failed };
            let situation = Situation { buffer: 0.0, max_buffer: 1.0, time: from.unwrap_or(0.0) };
            let rendition = session.behaviour.abr.choose(set, &throughput, situation, &mut random);
            lane.connection = std::mem::take(&mut connection);
            let got = session.segment(who, &presentation, lane, rendition, *from, Instant::now()).await;
            connection = std::mem::take(&mut lane.connection);
            let arrived = got.and_then(|got| got.arrived);
            failures = if arrived.is_some() { 0 } else { failures + 1 };
            if failures >= PATIENCE {
                return Played::Failed;
            }
            if let Some(arrived) = arrived {
                throughput.add(arrived.bytes, arrived.seconds);
            }
            let ended = got.is_some_and(|got| got.end >= got.last - 1e-6);
            *from = got.map(|got| got.end).or(*from);
            if ended {
                lanes.remove(place);
            } else {
                place += 1;
            }
        }
    }
    Played::Finished
}
