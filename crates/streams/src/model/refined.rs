//! A refined model of streams on a link without loss. It is ours, not published.
//!
//! It differs from equations 3 and 4 of the source in three ways, and has no constant that was
//! fitted to measurements:
//!
//! - The window of a kept connection covers a share of the bytes on the link as well as of those in
//!   its queue.
//! - Round trips are not rounded up, but a chunk takes one at least.
//! - The link sends each chunk in l_ch / BW. Chunks of other streams that arrive meanwhile share
//!   the link. The source takes half the time of one round of chunks instead, however many streams
//!   have a chunk on its way.
//!
//! The streams and the link are thus a closed queueing network of n_c customers: each spends `away`
//! seconds off the link, and then `link_time` of work at it, which serves all that are there alike.
//! The share of time in which such a link is idle is Erlang's loss formula with n_c servers and a
//! load of `away / link_time`, whatever the distributions of both times are.
//!
//! Packets that are lost because the queue overflows are left out, as in the source.

use super::{Link, Streams, Term};

/// Returns the bytes that one stream sends in a round trip: (BW t_q + BW RTT) / n_c.
pub fn window(link: &Link, streams: &Streams) -> f64 {
    link.bandwidth * (link.queue + link.rtt) / streams.count
}

/// Returns the round trips that a chunk takes: max(l_ch / window, 1).
pub fn round_trips(link: &Link, streams: &Streams) -> f64 {
    (streams.chunk / window(link, streams)).max(1.0)
}

/// Returns the time in seconds that the link alone takes to send a chunk: l_ch / BW.
pub fn link_time(link: &Link, streams: &Streams) -> f64 {
    streams.chunk / link.bandwidth
}

/// Returns the time in seconds of a stream for each chunk in which it waits neither for the
/// link nor in its queue: round trips times RTT, plus t_gap.
pub fn away(link: &Link, streams: &Streams) -> f64 {
    round_trips(link, streams) * link.rtt + streams.gap
}

/// Returns the share of time in which the link sends nothing, from 0 to 1: Erlang's loss
/// formula with n_c servers and a load of away / link_time.
pub fn idle(link: &Link, streams: &Streams) -> f64 {
    let load = away(link, streams) / link_time(link, streams);
    let mut idle = 1.0;
    let mut count = 0.0;
    while count < streams.count && idle > 0.0 {
        count += 1.0;
        idle = load * idle / (count + load * idle);
    }
    idle
}

/// Returns the rate of all streams in bytes per second: BW times the share of time in which the
/// link sends.
pub fn rate(link: &Link, streams: &Streams) -> f64 {
    link.bandwidth * (1.0 - idle(link, streams))
}

/// Returns the terms of the refined model.
pub(super) fn terms(link: &Link, streams: &Streams) -> [Term; 6] {
    let term = |symbol, meaning, value, unit, formula| Term { symbol, meaning, value, unit, formula };
    [
        term("w", "refined: window of a stream", window(link, streams), "B", "BW (t_q + RTT) / n_c"),
        term("n_w", "refined: round trips of a chunk", round_trips(link, streams), "", "max(l_ch / w, 1)"),
        term("t_link", "refined: chunk on the link", link_time(link, streams), "s", "l_ch / BW"),
        term("t_away", "refined: rest of a chunk's time", away(link, streams), "s", "n_w RTT + t_gap"),
        term("idle", "refined: idle link", idle(link, streams), "", "Erlang B(n_c, t_away / t_link)"),
        term("r_refined", "refined: streams, no loss", rate(link, streams), "B/s", "BW (1 - idle)"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() <= 1e-6 * expected.abs().max(1e-9)
    }

    #[test]
    fn the_published_set_is_computed_as_by_hand() {
        let link = Link { bandwidth: 1_024_000.0, rtt: 0.1, queue: 0.2, loss: 0.0 };
        let streams = Streams { count: 2.0, chunk: 160_000.0, gap: 0.21 };
        // A window of 153,600 bytes: 1.041667 round trips, 156.25 ms on the link, 314.1667 ms away.
        assert!(close(window(&link, &streams), 153_600.0) && close(link_time(&link, &streams), 0.15625));
        assert!(close(away(&link, &streams), 0.314_166_667));
        // A load of a = 2.010667: idle for (a² / 2) / (1 + a + a² / 2) = 0.401703 of the time.
        assert!((idle(&link, &streams) - 0.401_703).abs() < 1e-6, "{}", idle(&link, &streams));
        assert!((rate(&link, &streams) - 612_657.0).abs() < 2.0, "{}", rate(&link, &streams));
    }

    proptest! {
        #[test]
        fn limits_of_the_refined_model_hold(
            bandwidth in 1e3..1e9_f64,
            rtt in 1e-4..1.0_f64,
            queue in 1e-3..2.0_f64,
            count in 1_u32..64,
            chunk in 1e3..1e7_f64,
            gap in 0.0..2.0_f64,
        ) {
            let link = Link { bandwidth, rtt, queue, loss: 0.0 };
            let streams = Streams { count: f64::from(count), chunk, gap };
            let all = rate(&link, &streams);
            // One stream never waits for another.
            let one = Streams { count: 1.0, ..streams };
            let expected = chunk / (away(&link, &one) + chunk / bandwidth);
            prop_assert!(close(rate(&link, &one), expected), "{} for {}", rate(&link, &one), expected);
            // Streams reach neither more than the bandwidth nor more than if none waited.
            let unhindered = streams.count * chunk / (away(&link, &streams) + chunk / bandwidth);
            prop_assert!(all <= bandwidth && all <= unhindered * (1.0 + 1e-9));
            // If all take turns on the link, they reach at least this.
            let waiting = streams.count * chunk / (away(&link, &streams) + streams.count * chunk / bandwidth);
            prop_assert!(all >= waiting * (1.0 - 1e-9), "{} for {}", all, waiting);
            // A gap only lowers the rate.
            let gapless = rate(&link, &Streams { gap: 0.0, ..streams });
            prop_assert!(all <= gapless * (1.0 + 1e-9), "{} for {}", all, gapless);
            // Over an infinite bandwidth, a chunk takes one round trip: equation 2.
            let wide = rate(&Link { bandwidth: 1e14, ..link }, &streams);
            prop_assert!((wide / super::super::simple_rate(rtt, &streams) - 1.0).abs() < 0.01, "{}", wide);
        }
    }
}
