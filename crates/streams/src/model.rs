//! The throughput of request–response streams: the equations of Kuschnig, Kofler and Hellwagner
//! (*Evaluation of HTTP-based request-response streams for internet video streaming*, MMSys 2011).
//!
//! Sizes are in bytes, times in seconds, rates in bytes per second, and loss is the share of
//! packets that are lost. The model is an upper bound: it has no slow start and no time-outs.

/// The maximum segment size of TCP in bytes, as in the source.
pub const MSS: f64 = 1460.0;

/// A path with a bottleneck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The bandwidth of the bottleneck in bytes per second; above 0.
    pub bandwidth: f64,
    /// The round-trip time without queueing, in seconds.
    pub rtt: f64,
    /// The longest queueing delay of the bottleneck in seconds; above 0.
    pub queue: f64,
    /// The share of packets that are lost, from 0 to below 1.
    pub loss: f64,
}

/// The parameters of the streams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Streams {
    /// The number of streams; at least 1.
    pub count: f64,
    /// The size of a chunk in bytes; above 0.
    pub chunk: f64,
    /// The time between the end of a chunk and the next request, in seconds.
    pub gap: f64,
}

/// Equation 1: the rate of one TCP connection (Reno) under loss; infinite without loss.
pub fn tcp_rate(link: &Link) -> f64 {
    MSS / (link.loss.sqrt() * link.rtt)
}

/// Equation 2: the rate of streams on a path without a bottleneck, where a chunk takes one round
/// trip.
pub fn simple_rate(rtt: f64, streams: &Streams) -> f64 {
    streams.count * streams.chunk / (rtt + streams.gap)
}

/// The terms of equations 3 and 4, or of equations 5 to 8 if packets are lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    /// The bytes that one stream sends in a round trip.
    pub share: f64,
    /// The round trips that a chunk takes, not rounded.
    pub round_trips: f64,
    /// The average queueing delay in seconds.
    pub queueing: f64,
    /// The time that a chunk takes, in seconds.
    pub chunk_time: f64,
    /// The rate of all streams in bytes per second.
    pub rate: f64,
}

/// Returns the bytes that fit into the queue of the bottleneck.
pub fn queue_size(link: &Link) -> f64 {
    link.bandwidth * link.queue
}

/// Returns the average queueing delay in seconds of a chunk that takes a number of round trips.
fn queueing(link: &Link, round_trips: f64) -> f64 {
    round_trips.min(1.0) * link.queue / 2.0
}

/// Returns the time of a chunk in seconds, by equations 3 and 7.
fn chunk_time(link: &Link, round_trips: f64, queueing: f64) -> f64 {
    round_trips.ceil() * (link.rtt + queueing)
}

/// Returns the rate of all streams, by equations 4 and 8.
fn rate(streams: &Streams, chunk_time: f64) -> f64 {
    streams.count * streams.chunk / (chunk_time + streams.gap)
}

/// Equations 3 and 4: streams that share the queue of a bottleneck, without loss.
pub fn without_loss(link: &Link, streams: &Streams) -> Transfer {
    let share = queue_size(link) / streams.count;
    let round_trips = streams.chunk / share;
    let queueing = queueing(link, round_trips);
    let chunk_time = chunk_time(link, round_trips, queueing);
    Transfer { share, round_trips, queueing, chunk_time, rate: rate(streams, chunk_time) }
}

/// Equations 5 to 8: streams that share the queue of a bottleneck, with loss.
pub fn with_loss(link: &Link, streams: &Streams) -> Transfer {
    let lossless = without_loss(link, streams);
    let share = lossless.share.min(MSS / link.loss.sqrt());
    let round_trips = streams.chunk / share;
    let queueing = if share < lossless.share / 2.0 {
        share / lossless.share * link.queue / 2.0
    } else {
        // Equation 6 takes the round trips of equation 3 here.
        lossless.queueing
    };
    let chunk_time = chunk_time(link, round_trips, queueing);
    Transfer { share, round_trips, queueing, chunk_time, rate: rate(streams, chunk_time) }
}

/// One term of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The symbol of the source, in ASCII.
    pub symbol: &'static str,
    /// The meaning.
    pub meaning: &'static str,
    /// The value; infinite if nothing limits it.
    pub value: f64,
    /// The unit of the value: `B/s`, `B`, `s`, or empty.
    pub unit: &'static str,
    /// The formula, with the number of its equation if it has one.
    pub formula: &'static str,
}

/// Returns all terms of the model in the order of the equations.
pub fn terms(link: &Link, streams: &Streams) -> Vec<Term> {
    let term = |symbol, meaning, value, unit, formula| Term { symbol, meaning, value, unit, formula };
    let plain = without_loss(link, streams);
    let loss = with_loss(link, streams);
    vec![
        term("r_tcp", "one TCP connection", tcp_rate(link), "B/s", "MSS / (sqrt(p) RTT) [1]"),
        term(
            "r",
            "streams, no bottleneck",
            simple_rate(link.rtt, streams),
            "B/s",
            "n_c l_ch / (RTT + t_gap) [2]",
        ),
        term("l_q", "queue of the bottleneck", queue_size(link), "B", "BW t_q"),
        term("l_rr", "share of a stream", plain.share, "B", "l_q / n_c"),
        term("n_rt", "round trips of a chunk", plain.round_trips, "", "l_ch / l_rr"),
        term("t_qav", "average queueing delay", plain.queueing, "s", "min(n_rt, 1) t_q / 2"),
        term("t_ch", "time of a chunk", plain.chunk_time, "s", "ceil(n_rt) (RTT + t_qav) [3]"),
        term("r_rr", "streams, no loss", plain.rate, "B/s", "n_c l_ch / (t_ch + t_gap) [4]"),
        term("l_rrloss", "share of a stream", loss.share, "B", "min(l_rr, MSS / sqrt(p)) [5]"),
        term(
            "t_qavloss",
            "average queueing delay",
            loss.queueing,
            "s",
            "l_rrloss / l_rr t_q / 2 if l_rrloss < l_rr / 2, else t_qav [6]",
        ),
        term("n_rtloss", "round trips of a chunk", loss.round_trips, "", "l_ch / l_rrloss"),
        term("t_chloss", "time of a chunk", loss.chunk_time, "s", "ceil(n_rtloss) (RTT + t_qavloss) [7]"),
        term("r_rrloss", "streams, with loss", loss.rate, "B/s", "n_c l_ch / (t_chloss + t_gap) [8]"),
        term("r_max", "streams, at most", loss.rate.min(link.bandwidth), "B/s", "min(r_rrloss, BW)"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The published set, with a round-trip time and a share of lost packets.
    fn published(rtt: f64, loss: f64) -> (Link, Streams) {
        let link = Link { bandwidth: 1_024_000.0, rtt, queue: 0.2, loss };
        (link, Streams { count: 5.0, chunk: 160_000.0, gap: 0.21 })
    }

    fn close(value: f64, expected: f64) -> bool {
        (value - expected).abs() <= 1e-6 * expected.abs().max(1e-9)
    }

    #[test]
    fn the_published_set_is_computed_as_by_hand() {
        let (link, streams) = published(0.1, 0.001);
        let plain = without_loss(&link, &streams);
        // 204,800 bytes in the queue, 40,960 for each stream, 3.9 and so 4 round trips of 0.2 s.
        assert!(close(plain.share, 40_960.0) && close(plain.round_trips, 3.90625), "{plain:?}");
        assert!(close(plain.queueing, 0.1) && close(plain.chunk_time, 0.8), "{plain:?}");
        assert!(close(plain.rate, 800_000.0 / 1.01), "{plain:?}");
        let loss = with_loss(&link, &streams);
        // 1460 / sqrt(0.001) = 46,169, more than the share: loss changes nothing.
        assert_eq!(loss, plain);
        // At 2 %: 10,323.8 bytes, a quarter of the share; 15.5 and so 16 round trips of 0.1252 s.
        let (link, streams) = published(0.1, 0.02);
        let loss = with_loss(&link, &streams);
        assert!((loss.share - 10_323.8).abs() < 0.1 && (loss.queueing - 0.025_205).abs() < 1e-6, "{loss:?}");
        assert!((loss.chunk_time - 2.003_279).abs() < 1e-4, "{loss:?}");
        assert!((tcp_rate(&link) - 103_237.6).abs() < 1.0, "{}", tcp_rate(&link));
    }

    proptest! {
        #[test]
        fn limits_of_the_model_hold(
            bandwidth in 1e3..1e9_f64,
            rtt in 1e-4..1.0_f64,
            queue in 1e-3..2.0_f64,
            loss in 1e-6..0.5_f64,
            count in 1_u32..64,
            chunk in 1e3..1e7_f64,
            gap in 0.0..2.0_f64,
        ) {
            let link = Link { bandwidth, rtt, queue, loss };
            let streams = Streams { count: f64::from(count), chunk, gap };
            let plain = without_loss(&link, &streams);
            // Without loss, equation 8 is equation 4.
            prop_assert_eq!(with_loss(&Link { loss: 0.0, ..link }, &streams), plain);
            let lossless = Link { loss: 0.0, ..link };
            prop_assert!(tcp_rate(&lossless).is_infinite());
            // Loss never enlarges the share of a stream, and so never saves a round trip.
            let lossy = with_loss(&link, &streams);
            prop_assert!(lossy.share <= plain.share && lossy.round_trips >= plain.round_trips);
            // The queueing delay is at most half of the longest one.
            prop_assert!(plain.queueing <= queue / 2.0 && lossy.queueing <= queue / 2.0);
            // One stream has the whole queue.
            let one = without_loss(&link, &Streams { count: 1.0, ..streams });
            prop_assert!(close(one.share, bandwidth * queue));
            // In an infinite queue of an infinite bandwidth, a chunk takes one round trip: equation
            // 2.
            let wide = Link { bandwidth: 1e300, queue: 1e5, ..link };
            let simple = simple_rate(rtt, &streams);
            prop_assert!(close(without_loss(&wide, &streams).rate, simple), "{}", simple);
            // An infinite queue of a finite bandwidth: the chunks of all streams wait for each
            // other.
            let deep = without_loss(&Link { queue: 1e12, ..link }, &streams);
            let expected = streams.count * chunk / (rtt + streams.count * chunk / bandwidth / 2.0 + gap);
            prop_assert!(close(deep.rate, expected), "{} for {}", deep.rate, expected);
            // A gap only lowers the rate; without one, a stream always has a chunk on its way.
            let gapless = without_loss(&link, &Streams { gap: 0.0, ..streams });
            prop_assert!(gapless.rate >= plain.rate);
            prop_assert!(close(gapless.rate * gapless.chunk_time, streams.count * chunk));
            // No term is negative or undefined, and the bandwidth bounds the last one.
            let terms = terms(&link, &streams);
            prop_assert!(terms.iter().all(|term| term.value >= 0.0), "{:?}", terms);
            prop_assert!(terms.last().is_some_and(|term| term.value <= bandwidth));
        }
    }
}
