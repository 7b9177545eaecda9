//! The throughput of request–response streams: the equations of Kuschnig, Kofler and Hellwagner
//! (*Evaluation of HTTP-based request-response streams for internet video streaming*, MMSys 2011).
//!
//! Sizes are in bytes, times in seconds, rates in bytes per second, and loss is the share of
//! packets that are lost. The model leaves out slow start and TCP timeouts. The authors meant it as
//! an upper bound; measured goodput can exceed it. The symbols in the comments are those of the
//! source: BW is the bandwidth, t_q the longest queueing delay, p the loss, n_c the number of
//! streams, l_ch the size of a chunk, and t_gap the gap.
//!
//! [`refined`] is a model of our own for links without loss.

pub mod refined;

/// The maximum segment size of TCP in bytes, as in the source.
pub const MSS: f64 = 1460.0;

/// The link that limits the throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// The bandwidth of the link in bytes per second; above 0.
    pub bandwidth: f64,
    /// The round-trip time without queueing, in seconds.
    pub rtt: f64,
    /// The longest queueing delay of the link in seconds; above 0.
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

/// Equation 1: the rate of one TCP connection (Reno) in bytes per second under loss, r_tcp = MSS /
/// (√p RTT). It is infinite without loss.
pub fn tcp_rate(link: &Link) -> f64 {
    MSS / (link.loss.sqrt() * link.rtt)
}

/// Equation 2: the rate of all streams in bytes per second over a link of unlimited bandwidth,
/// where a chunk takes one round trip of `rtt` seconds, r = n_c l_ch / (RTT + t_gap).
pub fn simple_rate(rtt: f64, streams: &Streams) -> f64 {
    streams.count * streams.chunk / (rtt + streams.gap)
}

/// Returns the bytes that fit into the queue of the link: BW t_q (source, before equation 3).
pub fn queue_size(link: &Link) -> f64 {
    link.bandwidth * link.queue
}

/// Returns the share of one stream of the queue in bytes: l_rr = BW t_q / n_c (source, before
/// equation 3).
pub fn queue_share(link: &Link, streams: &Streams) -> f64 {
    queue_size(link) / streams.count
}

/// Returns the round trips that a chunk takes, not rounded up, if a stream sends `share` bytes in
/// each: n_rt = l_ch / l_rr (source, before equations 3 and 7).
pub fn round_trips(streams: &Streams, share: f64) -> f64 {
    streams.chunk / share
}

/// Returns the average queueing delay in seconds without loss: t_qav = min(n_rt, 1) t_q / 2
/// (source, before equation 3).
pub fn queueing(link: &Link, streams: &Streams) -> f64 {
    round_trips(streams, queue_share(link, streams)).min(1.0) * link.queue / 2.0
}

/// Equation 3: the time of a chunk in seconds without loss, t_ch = ⌈n_rt⌉ (RTT + t_qav).
pub fn chunk_time(link: &Link, streams: &Streams) -> f64 {
    let round_trips = round_trips(streams, queue_share(link, streams));
    round_trips.ceil() * (link.rtt + queueing(link, streams))
}

/// Equation 4: the rate of all streams in bytes per second without loss, r_rr = n_c l_ch / (t_ch +
/// t_gap).
pub fn rate(link: &Link, streams: &Streams) -> f64 {
    streams.count * streams.chunk / (chunk_time(link, streams) + streams.gap)
}

/// Equation 5: the bytes that one stream sends in a round trip with loss, l_rrloss = min(l_rr, MSS
/// / √p).
pub fn lossy_share(link: &Link, streams: &Streams) -> f64 {
    queue_share(link, streams).min(MSS / link.loss.sqrt())
}

/// Equation 6: the average queueing delay in seconds with loss, t_qavloss = l_rrloss / l_rr t_q / 2
/// if l_rrloss < l_rr / 2, else that without loss, which takes the round trips of equation 3.
pub fn lossy_queueing(link: &Link, streams: &Streams) -> f64 {
    let share = queue_share(link, streams);
    let lossy = lossy_share(link, streams);
    if lossy < share / 2.0 { lossy / share * link.queue / 2.0 } else { queueing(link, streams) }
}

/// Equation 7: the time of a chunk in seconds with loss, t_chloss = ⌈n_rtloss⌉ (RTT + t_qavloss).
pub fn lossy_chunk_time(link: &Link, streams: &Streams) -> f64 {
    let round_trips = round_trips(streams, lossy_share(link, streams));
    round_trips.ceil() * (link.rtt + lossy_queueing(link, streams))
}

/// Equation 8: the rate of all streams in bytes per second with loss, r_rrloss = n_c l_ch /
/// (t_chloss + t_gap).
pub fn lossy_rate(link: &Link, streams: &Streams) -> f64 {
    streams.count * streams.chunk / (lossy_chunk_time(link, streams) + streams.gap)
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

/// Returns all terms of the model in the order of the equations, and then our own.
pub fn terms(link: &Link, streams: &Streams) -> Vec<Term> {
    let term = |symbol, meaning, value, unit, formula| Term { symbol, meaning, value, unit, formula };
    let share = queue_share(link, streams);
    let lossy = lossy_share(link, streams);
    let at_most = lossy_rate(link, streams).min(link.bandwidth);
    let mut terms = vec![
        term("r_tcp", "one TCP connection", tcp_rate(link), "B/s", "MSS / (sqrt(p) RTT) [1]"),
        term(
            "r",
            "streams, unlimited link",
            simple_rate(link.rtt, streams),
            "B/s",
            "n_c l_ch / (RTT + t_gap) [2]",
        ),
        term("l_q", "queue of the link", queue_size(link), "B", "BW t_q"),
        term("l_rr", "share of a stream", share, "B", "l_q / n_c"),
        term("n_rt", "round trips of a chunk", round_trips(streams, share), "", "l_ch / l_rr"),
        term("t_qav", "average queueing delay", queueing(link, streams), "s", "min(n_rt, 1) t_q / 2"),
        term("t_ch", "time of a chunk", chunk_time(link, streams), "s", "ceil(n_rt) (RTT + t_qav) [3]"),
        term("r_rr", "streams, no loss", rate(link, streams), "B/s", "n_c l_ch / (t_ch + t_gap) [4]"),
        term("l_rrloss", "share of a stream", lossy, "B", "min(l_rr, MSS / sqrt(p)) [5]"),
        term(
            "t_qavloss",
            "average queueing delay",
            lossy_queueing(link, streams),
            "s",
            "l_rrloss / l_rr t_q / 2 if l_rrloss < l_rr / 2, else t_qav [6]",
        ),
        term("n_rtloss", "round trips of a chunk", round_trips(streams, lossy), "", "l_ch / l_rrloss"),
        term(
            "t_chloss",
            "time of a chunk",
            lossy_chunk_time(link, streams),
            "s",
            "ceil(n_rtloss) (RTT + t_qavloss) [7]",
        ),
        term(
            "r_rrloss",
            "streams, with loss",
            lossy_rate(link, streams),
            "B/s",
            "n_c l_ch / (t_chloss + t_gap) [8]",
        ),
        term("r_max", "streams, at most", at_most, "B/s", "min(r_rrloss, BW)"),
    ];
    terms.extend(refined::terms(link, streams));
    terms
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
        // 204,800 bytes in the queue, 40,960 for each stream, 3.9 and so 4 round trips of 0.2 s.
        let share = queue_share(&link, &streams);
        assert!(close(share, 40_960.0) && close(round_trips(&streams, share), 3.90625), "{share}");
        assert!(close(queueing(&link, &streams), 0.1) && close(chunk_time(&link, &streams), 0.8));
        assert!(close(rate(&link, &streams), 800_000.0 / 1.01));
        // 1460 / sqrt(0.001) = 46,169, more than the share: loss changes nothing.
        assert!(close(lossy_share(&link, &streams), share));
        assert!(close(lossy_rate(&link, &streams), rate(&link, &streams)));
        // At 2 %: 10,323.8 bytes, a quarter of the share; 15.5 and so 16 round trips of 0.1252 s.
        let (link, streams) = published(0.1, 0.02);
        assert!((lossy_share(&link, &streams) - 10_323.8).abs() < 0.1);
        assert!((lossy_queueing(&link, &streams) - 0.025_205).abs() < 1e-6);
        assert!((lossy_chunk_time(&link, &streams) - 2.003_279).abs() < 1e-4);
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
            let lossless = Link { loss: 0.0, ..link };
            let plain = rate(&link, &streams);
            // Without loss, equation 8 is equation 4.
            prop_assert_eq!(lossy_rate(&lossless, &streams), plain);
            prop_assert!(tcp_rate(&lossless).is_infinite());
            // Loss never enlarges the share of a stream, and so never saves a round trip.
            let share = queue_share(&link, &streams);
            let lossy = lossy_share(&link, &streams);
            prop_assert!(lossy <= share && round_trips(&streams, lossy) >= round_trips(&streams, share));
            // The queueing delay is at most half of the longest one.
            prop_assert!(queueing(&link, &streams) <= queue / 2.0);
            prop_assert!(lossy_queueing(&link, &streams) <= queue / 2.0);
            // One stream has the whole queue.
            let one = Streams { count: 1.0, ..streams };
            prop_assert!(close(queue_share(&link, &one), bandwidth * queue));
            // In an infinite queue of an infinite bandwidth, a chunk takes one round trip: equation
            // 2.
            let wide = Link { bandwidth: 1e300, queue: 1e5, ..link };
            let simple = simple_rate(rtt, &streams);
            prop_assert!(close(rate(&wide, &streams), simple), "{}", simple);
            // An infinite queue of a finite bandwidth: the chunks of all streams wait for each
            // other.
            let deep = rate(&Link { queue: 1e12, ..link }, &streams);
            let expected = streams.count * chunk / (rtt + streams.count * chunk / bandwidth / 2.0 + gap);
            prop_assert!(close(deep, expected), "{} for {}", deep, expected);
            // A gap only lowers the rate; without one, a stream always has a chunk on its way.
            let gapless = Streams { gap: 0.0, ..streams };
            prop_assert!(rate(&link, &gapless) >= plain);
            prop_assert!(close(rate(&link, &gapless) * chunk_time(&link, &gapless), streams.count * chunk));
            // No term is negative or undefined, and the bandwidth bounds the rates that it limits.
            let terms = terms(&link, &streams);
            prop_assert!(terms.iter().all(|term| term.value >= 0.0), "{:?}", terms);
            let limited = terms.iter().filter(|term| ["r_max", "r_refined"].contains(&term.symbol));
            prop_assert_eq!(limited.filter(|term| term.value <= bandwidth).count(), 2);
        }
    }
}
