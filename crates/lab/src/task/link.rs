//! A link: a TCP relay with a rate and a round-trip time.

use super::{
    part::{Carried, Part},
    place::POLL,
};
use crate::{Error, bytes_per_second, nbmp};
use latemux_link::{Distance, Link};
use latemux_quantity::TimeSpan;
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

/// The bytes that may pass at once after a pause.
const BURST: u64 = 128 << 10;

/// Runs a link until `stop` is set.
pub(super) fn run(
    task: &nbmp::Task,
    input: SocketAddr,
    outputs: &[SocketAddr],
    stop: &AtomicBool,
) -> Result<Part, Error> {
    let parameter = |name: &str| task.parameters.get(name);
    let rate = parameter("rate").and_then(|text| text.parse().ok()).map(bytes_per_second);
    let round_trip = parameter("rtt").and_then(|text| text.parse::<TimeSpan>().ok());
    let round_trip = round_trip.map_or(Duration::ZERO, |span| span.0);
    let distance = Distance { round_trip, rate, burst: BURST };
    let lacking = |error: std::io::Error| Error::Lacking(format!("{}: {error}", task.id));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(lacking)?;
    let carried = runtime.block_on(async {
        let mut links = Vec::new();
        for output in outputs {
            links.push(Link::at(*output, input, distance).await?);
        }
        let mut carried: Vec<Carried> = Vec::new();
        loop {
            // What was carried just before the stop counts too.
            let is_last = stop.load(Relaxed);
            let bytes = links.iter().map(Link::carried).sum();
            if carried.last().is_none_or(|last| last.bytes != bytes) {
                carried.push(Carried::now(bytes));
            }
            if is_last {
                return Ok(carried);
            }
            tokio::time::sleep(POLL).await;
        }
    });
    let carried = carried.map_err(lacking)?;
    Ok(Part { function: task.function.name().to_owned(), carried, ..Part::default() }.with_use(0))
}
