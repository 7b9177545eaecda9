//! Compares both models and the published orderings with the measurements of the full sweep, which
//! the documentation draws: `docs/request-response-streams.md` states the same numbers.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use latemux_streams::model::{self, Link, Streams, refined};
use std::{collections::BTreeMap, fs, path::Path};

/// Largest deviation from a model.
const DEVIATION: f64 = 0.15;
/// The least ratio of five streams to one plain download at 2 % loss and 100 ms.
const GAIN: f64 = 2.5;
/// Bytes of a chunk that is a plain download.
const PLAIN: u32 = 16_000_000;

/// The parameters of a cell, in the units of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    congestion: String,
    rate: u32,
    rtt: u32,
    queue: u32,
    loss: u32,
    chunk: u32,
    streams: u32,
    gap: u32,
    competing: u32,
}

impl Cell {
    fn link(&self) -> Link {
        Link {
            bandwidth: f64::from(self.rate) * 125.0,
            rtt: f64::from(self.rtt) / 1e3,
            queue: f64::from(self.queue) / 1e3,
            loss: f64::from(self.loss) / 1e3,
        }
    }

    fn streams(&self) -> Streams {
        Streams {
            count: f64::from(self.streams),
            chunk: f64::from(self.chunk),
            gap: f64::from(self.gap) / 1e3,
        }
    }

    fn is_plain(&self) -> bool {
        self.chunk == PLAIN
    }

    /// Returns the rate of the published model, at most the bandwidth.
    fn published(&self) -> f64 {
        let link = self.link();
        model::lossy_rate(&link, &self.streams()).min(link.bandwidth)
    }

    fn refined(&self) -> f64 {
        refined::rate(&self.link(), &self.streams())
    }

    /// Returns true if the assumptions of the published model hold without loss: it predicts the
    /// whole bandwidth, or two streams or more have chunks that fit into their share of the queue.
    fn is_as_published(&self) -> bool {
        let (link, streams) = (self.link(), self.streams());
        let fits = model::round_trips(&streams, model::queue_share(&link, &streams)) <= 1.0;
        model::rate(&link, &streams) >= link.bandwidth || fits && self.streams > 1
    }
}

/// The medians of the rounds of a cell.
#[derive(Debug)]
struct Measured {
    cell: Cell,
    /// Bytes per second.
    goodput: f64,
    duplicated: f64,
    /// `None` without plain downloads beside the streams.
    fairness: Option<f64>,
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Reads the cells of the sweep.
fn measurements() -> Vec<Measured> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/streams/measurements.csv");
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut cells: BTreeMap<Cell, [Vec<f64>; 3]> = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let text = |name| fields[header.iter().position(|column| *column == name).unwrap()];
        let number = |name| text(name).parse::<u32>().unwrap();
        let cell = Cell {
            congestion: text("congestion").to_owned(),
            rate: number("rate_kbit_s"),
            rtt: number("rtt_ms"),
            queue: number("queue_ms"),
            loss: number("loss_permille"),
            chunk: number("chunk_bytes"),
            streams: number("streams"),
            gap: number("gap_ms"),
            competing: number("competing"),
        };
        let [goodput, duplicated, fairness] = cells.entry(cell).or_default();
        goodput.push(f64::from(number("goodput_kbit_s")) * 125.0);
        duplicated.push(number("duplicated_bytes").into());
        fairness.extend(text("fairness").parse::<f64>().ok());
    }
    let measured = |(cell, [goodput, duplicated, fairness]): (Cell, [Vec<f64>; 3])| Measured {
        cell,
        goodput: median(goodput).unwrap(),
        duplicated: median(duplicated).unwrap(),
        fairness: median(fairness),
    };
    cells.into_iter().map(measured).collect()
}

/// Returns how many cells are near a model, and how many cells there are.
fn near<'a>(cells: impl Iterator<Item = &'a Measured>, model: fn(&Cell) -> f64) -> (usize, usize) {
    let mut counts = (0, 0);
    for measured in cells {
        let deviation = measured.goodput / model(&measured.cell) - 1.0;
        counts.0 += usize::from(deviation.abs() <= DEVIATION);
        counts.1 += 1;
    }
    counts
}

#[test]
fn goodput_without_loss_is_near_the_models_in_as_many_cells_as_documented() {
    let mut cells = measurements();
    cells.retain(|it| it.cell.loss == 0 && it.cell.competing == 0 && !it.cell.is_plain());
    assert_eq!(near(cells.iter(), Cell::published), (50, 68), "{cells:?}");
    let as_published = cells.iter().filter(|it| it.cell.is_as_published());
    assert_eq!(near(as_published, Cell::published), (12, 12), "{cells:?}");
    // The queue overflows under Reno, which the refined model leaves out.
    let of =
        |congestion: &str| near(cells.iter().filter(|it| it.cell.congestion == congestion), Cell::refined);
    assert_eq!((of("cubic"), of("reno")), ((34, 34), (27, 34)), "{cells:?}");
    let without_overflow = cells.iter().filter(|it| it.duplicated < 1.0);
    assert_eq!(near(without_overflow, Cell::refined), (51, 52), "{cells:?}");
}

#[test]
fn five_streams_are_faster_than_one_plain_download_with_loss() {
    let cells = measurements();
    let is_lossy = |it: &&Measured| it.cell.is_plain() && it.cell.loss == 20 && it.cell.rtt == 100;
    let mut gains = Vec::new();
    for one in cells.iter().filter(is_lossy) {
        assert_eq!((one.cell.streams, one.cell.gap, one.cell.competing), (1, 0, 0));
        let five = Cell { chunk: 160_000, streams: 5, ..one.cell.clone() };
        let five = cells.iter().find(|it| it.cell == five).unwrap();
        gains.push(five.goodput / one.goodput);
    }
    // Two rates, each with Reno and with cubic.
    assert!(gains.len() == 4 && gains.iter().all(|gain| *gain >= GAIN), "{gains:?}");
}

/// Groups cells that differ only in one parameter into rows. Returns, for each loss, how many rows
/// rise from end to end, and how many rows there are. `parameter` returns the parameter and removes
/// it from a cell.
fn risen(
    cells: &[&Measured],
    parameter: fn(&mut Cell) -> i64,
    value: fn(&Measured) -> f64,
) -> Vec<(u32, usize, usize)> {
    let mut rows: BTreeMap<Cell, BTreeMap<i64, f64>> = BTreeMap::new();
    for measured in cells {
        let mut rest = measured.cell.clone();
        let place = parameter(&mut rest);
        rows.entry(rest).or_default().insert(place, value(measured));
    }
    // Cells of another row vary another parameter.
    rows.retain(|_, row| row.len() >= 3);
    let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for (rest, row) in &rows {
        let (risen, all) = counts.entry(rest.loss).or_default();
        *risen += usize::from(row.values().next_back() > row.values().next());
        *all += 1;
    }
    counts.into_iter().map(|(loss, (risen, all))| (loss, risen, all)).collect()
}

#[test]
fn the_published_orderings_agree_in_as_many_rows_as_documented() {
    let cells = measurements();
    let is_lossy = |it: &&Measured| it.cell.loss > 0 && it.cell.competing == 0 && !it.cell.is_plain();
    let lossy: Vec<&Measured> = cells.iter().filter(is_lossy).collect();
    let beside: Vec<&Measured> = cells.iter().filter(|it| it.cell.competing == 2).collect();
    let by_streams = |cell: &mut Cell| i64::from(std::mem::take(&mut cell.streams));
    let by_chunk = |cell: &mut Cell| i64::from(std::mem::take(&mut cell.chunk));
    // Longer gaps are fairer, so the ratio rises with shorter ones.
    let by_gap = |cell: &mut Cell| -i64::from(std::mem::take(&mut cell.gap));
    let goodput = |it: &Measured| it.goodput;
    let fairness = |it: &Measured| it.fairness.unwrap();
    let faster = [(1, 4, 4), (10, 4, 4), (20, 4, 4)];
    let less_fair = [(0, 4, 4), (1, 4, 4), (10, 4, 4), (20, 4, 4)];
    assert_eq!(risen(&lossy, by_streams, goodput), faster, "more streams are faster");
    assert_eq!(risen(&lossy, by_chunk, goodput), faster, "larger chunks are faster");
    assert_eq!(risen(&beside, by_streams, fairness), less_fair, "more streams are less fair");
    assert_eq!(risen(&beside, by_chunk, fairness), less_fair, "larger chunks are less fair");
    let shorter_gaps = [(0, 4, 4), (1, 4, 4), (10, 2, 4), (20, 2, 4)];
    assert_eq!(risen(&beside, by_gap, fairness), shorter_gaps, "longer gaps are fairer");
}
