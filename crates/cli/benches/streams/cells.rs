//! The cells: combinations of a line and of the settings of streams.

use latemux_link::network::Congestion;
use latemux_streams::model::{self, Link, Streams};
use std::time::Duration;

/// The number of bytes of a chunk that is a whole download: one request over one connection.
pub(crate) const WHOLE: u64 = 16_000_000;

/// A line, and what is downloaded over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Bandwidth in kbit/s of IP packets.
    pub(crate) rate: u32,
    /// Round-trip time in milliseconds.
    pub(crate) rtt: u32,
    /// Longest wait in the queue, in milliseconds.
    pub(crate) queue: u32,
    /// Lost packets, in thousandths.
    pub(crate) loss: u32,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    pub(crate) streams: u32,
    /// Time between a chunk and the next request, in milliseconds.
    pub(crate) gap: u32,
    /// Plain downloads beside the streams.
    pub(crate) competing: u32,
    pub(crate) congestion: Congestion,
}

/// The published set, without loss.
const PUBLISHED: Cell = Cell {
    rate: 8192,
    rtt: 100,
    queue: 200,
    loss: 0,
    chunk: 160_000,
    streams: 5,
    gap: 210,
    competing: 0,
    congestion: Congestion::Reno,
};

impl Cell {
    pub(crate) fn link(&self) -> Link {
        Link {
            bandwidth: f64::from(self.rate) * 125.0,
            rtt: f64::from(self.rtt) / 1000.0,
            queue: f64::from(self.queue) / 1000.0,
            loss: f64::from(self.loss) / 1000.0,
        }
    }

    pub(crate) fn streams(&self) -> Streams {
        let chunk = self.chunk as f64;
        Streams { count: f64::from(self.streams), chunk, gap: f64::from(self.gap) / 1000.0 }
    }

    /// Returns the rate in bytes per second that the refined model predicts. It has no loss and no
    /// other downloads.
    pub(crate) fn refined(&self) -> f64 {
        model::refined::rate(&self.link(), &self.streams())
    }

    /// Returns true if the assumptions of the published model hold without loss. Either must:
    ///
    /// - The model predicts the whole bandwidth, so that the link alone decides.
    /// - A chunk fits into its stream's share of the queue. It then takes one round trip, whatever
    ///   the window of the connection is, and nothing is rounded up. In addition, two streams or
    ///   more share the link: equation 3 gives a chunk half the time that the link takes to send
    ///   one chunk of each stream, and a single chunk takes the whole of it.
    pub(crate) fn is_as_published(&self) -> bool {
        let (link, streams) = (self.link(), self.streams());
        let fits = model::round_trips(&streams, model::queue_share(&link, &streams)) <= 1.0;
        model::rate(&link, &streams) >= link.bandwidth || fits && self.streams > 1
    }

    pub(crate) fn millis(millis: u32) -> Duration {
        Duration::from_millis(u64::from(millis))
    }

    /// Returns true if the cell is one download over one connection.
    pub(crate) fn is_plain(&self) -> bool {
        self.chunk == WHOLE
    }
}

/// Twelve cells, which take less than three minutes.
pub(crate) fn quick() -> Vec<Cell> {
    let lossy = Cell { loss: 20, gap: 0, ..PUBLISHED };
    vec![
        Cell { streams: 1, ..PUBLISHED },
        Cell { streams: 3, ..PUBLISHED },
        PUBLISHED,
        Cell { rtt: 0, ..PUBLISHED },
        Cell { rtt: 200, ..PUBLISHED },
        Cell { gap: 0, competing: 2, ..PUBLISHED },
        Cell { loss: 1, ..PUBLISHED },
        Cell { streams: 1, chunk: WHOLE, ..lossy },
        Cell { streams: 1, ..lossy },
        lossy,
        Cell { chunk: 40_000, ..lossy },
        Cell { congestion: Congestion::Cubic, ..lossy },
    ]
}

/// The published set: each parameter varies over its range, while the others have their published
/// values. Beside two plain downloads, streams have no gap, unless the gap varies.
pub(crate) fn full() -> Vec<Cell> {
    const CHUNKS: [u64; 4] = [20_000, 40_000, 80_000, 320_000];
    let mut cells = Vec::new();
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for rate in [8192, 4096] {
            for loss in [0, 1, 10, 20] {
                let base = Cell { rate, loss, congestion, ..PUBLISHED };
                cells.push(Cell { streams: 1, chunk: WHOLE, gap: 0, ..base });
                cells.extend((0..=4).map(|step| Cell { rtt: 50 * step, ..base }));
                cells.extend((1..5).map(|streams| Cell { streams, ..base }));
                cells.extend(CHUNKS.map(|chunk| Cell { chunk, ..base }));
                cells.extend([0, 70, 140, 220].map(|gap| Cell { gap, ..base }));
                let beside = Cell { competing: 2, gap: 0, ..base };
                cells.extend((1..=4).map(|competing| Cell { competing, ..base }));
                cells.extend((1..=4).map(|competing| Cell { competing, ..beside }));
                cells.extend((1..5).map(|streams| Cell { streams, ..beside }));
                cells.extend(CHUNKS.map(|chunk| Cell { chunk, ..beside }));
                cells.extend([70, 140, 220].map(|gap| Cell { gap, ..beside }));
            }
        }
    }
    cells
}
