//! Notes about servers that do not do all that request–response streams need. Each is one line.

use crate::results::StreamResults;

/// Returns the notes about a run with streams.
pub(super) fn stream_notes(streams: &StreamResults) -> Vec<String> {
    let mut notes = Vec::new();
    if streams.given_up > 0 {
        notes.push(format!(
            "the server allows fewer connections: {} of the {} streams of a player were given up",
            streams.given_up, streams.streams
        ));
    } else if streams.refused > 0 {
        notes.push(format!(
            "requests for chunks that the server answered with 503 or 429, and that were made again: {}",
            streams.refused
        ));
    }
    if streams.reopened.saturating_mul(2) > streams.chunk_times.count() {
        notes.push(format!(
            "the server does not keep connections: {} were opened for {} chunks",
            streams.opened,
            streams.chunk_times.count()
        ));
    }
    if streams.timeouts > 0 && streams.streams > 1 {
        notes.push(format!(
            "chunks that timed out: {}, {:.0} % of them on the slowest connection of each player",
            streams.timeouts,
            streams.most_timeouts as f64 * 100.0 / streams.timeouts as f64
        ));
    }
    if streams.beyond_end > 0 {
        notes.push(format!(
            "requests beyond the end of a segment whose length was not known yet, which are no failures: {}",
            streams.beyond_end
        ));
    }
    if streams.long_gaps > 0 {
        notes.push(format!(
            "the gap is not shorter than the duration of {} segments: each stream had one chunk of them at most",
            streams.long_gaps
        ));
    }
    if streams.is_http2_offered && streams.streams > 0 {
        notes.push(format!(
            "the server offers HTTP/2, over which the {} streams of a player would share one connection; these streams used HTTP/1.1 and {} connections",
            streams.streams, streams.opened
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    type Disturb = fn(&mut StreamResults);

    /// Results of five streams with 40 chunks, which nothing disturbed.
    fn undisturbed() -> StreamResults {
        let mut streams =
            StreamResults { streams: 5, requests: 40, opened: 5, reopened: 0, ..StreamResults::default() };
        (0..40).for_each(|_| streams.chunk_times.record(1000));
        streams
    }

    #[test]
    fn each_disturbance_has_one_line() {
        assert_eq!(stream_notes(&undisturbed()), Vec::<String>::new());
        assert_eq!(stream_notes(&StreamResults::default()), Vec::<String>::new());
        let cases: [(Disturb, &str); 7] = [
            (
                |streams| (streams.given_up, streams.refused) = (3, 9),
                "the server allows fewer connections: 3 of the 5 streams of a player were given up",
            ),
            (
                |streams| streams.refused = 2,
                "requests for chunks that the server answered with 503 or 429, and that were made again: 2",
            ),
            (
                |streams| (streams.opened, streams.reopened) = (40, 35),
                "the server does not keep connections: 40 were opened for 40 chunks",
            ),
            (
                |streams| (streams.timeouts, streams.most_timeouts) = (4, 3),
                "chunks that timed out: 4, 75 % of them on the slowest connection of each player",
            ),
            (
                |streams| streams.beyond_end = 4,
                "requests beyond the end of a segment whose length was not known yet, which are no failures: 4",
            ),
            (
                |streams| streams.long_gaps = 6,
                "the gap is not shorter than the duration of 6 segments: each stream had one chunk of them at most",
            ),
            (
                |streams| streams.is_http2_offered = true,
                "the server offers HTTP/2, over which the 5 streams of a player would share one connection; these streams used HTTP/1.1 and 5 connections",
            ),
        ];
        for (disturb, expected) in cases {
            let mut streams = undisturbed();
            disturb(&mut streams);
            assert_eq!(stream_notes(&streams), [expected]);
        }
    }

    #[test]
    fn connections_that_are_opened_again_now_and_then_are_kept() {
        // Each connection serves two chunks.
        let streams = StreamResults { opened: 20, reopened: 20, ..undisturbed() };
        assert_eq!(stream_notes(&streams), Vec::<String>::new());
    }

    #[test]
    fn a_single_stream_has_all_timeouts() {
        let streams = StreamResults { streams: 1, timeouts: 2, most_timeouts: 2, ..undisturbed() };
        assert_eq!(stream_notes(&streams), Vec::<String>::new());
    }
}
