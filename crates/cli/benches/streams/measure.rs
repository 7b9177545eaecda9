//! Measures cells beside the model.

use crate::{
    cells::{Cell, WHOLE},
    judge::{judge, medians},
    keep,
    server::{FILE, Server},
};
use latemux_client::http::{AllowedHosts, Client, ClientOptions, Network as Sockets, Trust};
use latemux_link::network::{Congestion, Enclosure, Line, Network};
use latemux_load::{
    results::{Recorder, fairness},
    run::{Competing, CompetingPlan, Popularity, Shard, SinglePlan, run_single},
};
use latemux_streams::{ChunkTimeout, Settings, model};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Number of cells that are measured at the same time, each on hosts of its own.
const AT_ONCE: usize = 16;
/// Time that a download of the model's rate takes, in seconds.
const SECONDS: f64 = 20.0;
/// Longest time of a cell.
const LONGEST: Duration = Duration::from_secs(90);

/// The measurement of a cell. Rates are in bytes per second.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) cell: Cell,
    /// The number of the round, from 1 on, which also seeds the losses of packets.
    round: u64,
    pub(crate) goodput: f64,
    /// `r_max` of the model; `r_tcp`, at most the bandwidth, for a plain download.
    pub(crate) model: f64,
    timeouts: u64,
    pub(crate) duplicated: u64,
    /// Goodput by the mean throughput of the competing downloads.
    pub(crate) fairness: Option<f64>,
}

/// Measures cells in some rounds, prints and keeps the results. Returns false if an expectation
/// does not hold.
pub(crate) fn run(enclosure: &Enclosure, cells: &[Cell], rounds: u64) -> bool {
    let begun = Instant::now();
    println!("{HEADER}");
    let all = measure_all(enclosure, cells, rounds);
    let mut csv = format!("{HEADER}\n");
    for measured in &all {
        writeln!(csv, "{}", measured.row()).unwrap();
    }
    keep("cells", &csv);
    println!("{} measurements in {:.0} s", all.len(), begun.elapsed().as_secs_f64());
    judge(&medians(&all))
}

/// Judges the measurements that the documentation draws. Returns false if an expectation does not
/// hold.
pub(crate) fn judge_stored() -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/streams/measurements.csv");
    let text = fs::read_to_string(path).unwrap();
    let all: Vec<Measured> = text.lines().skip(1).map(Measured::read).collect();
    judge(&medians(&all))
}

/// Measures cells, several at a time, and returns the measurements by cell and round.
fn measure_all(enclosure: &Enclosure, cells: &[Cell], rounds: u64) -> Vec<Measured> {
    let jobs = (1..=rounds).flat_map(|round| cells.iter().enumerate().map(move |cell| (cell, round)));
    let next = Mutex::new(jobs);
    let all = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let Some(((index, cell), round)) = next.lock().unwrap().next() else { break };
            let measured = measure(enclosure, cell, round);
            println!("{}", measured.row());
            all.lock().unwrap().insert((index, round), measured);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap().into_values().collect()
}

const HEADER: &str = "congestion,rate_kbit_s,rtt_ms,queue_ms,loss_permille,chunk_bytes,streams,gap_ms,\
                      competing,round,goodput_kbit_s,model_kbit_s,ratio,timeouts,duplicated_bytes,fairness";

impl Measured {
    /// Reads a row that [`Self::row`] has written.
    fn read(row: &str) -> Self {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |at: usize| fields[at].parse::<u32>().unwrap();
        let rate = |at: usize| f64::from(number(at)) * 125.0;
        let congestion = Congestion::ALL.into_iter().find(|congestion| congestion.name() == fields[0]);
        Self {
            cell: Cell {
                rate: number(1),
                rtt: number(2),
                queue: number(3),
                loss: number(4),
                chunk: number(5).into(),
                streams: number(6),
                gap: number(7),
                competing: number(8),
                congestion: congestion.unwrap(),
            },
            round: number(9).into(),
            goodput: rate(10),
            model: rate(11),
            timeouts: number(13).into(),
            duplicated: number(14).into(),
            fairness: fields[15].parse().ok(),
        }
    }

    fn row(&self) -> String {
        let Cell { rate, rtt, queue, loss, chunk, streams, gap, competing, congestion } = self.cell;
        let kbit = |rate: f64| rate / 125.0;
        let fairness = self.fairness.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        format!(
            "{congestion},{rate},{rtt},{queue},{loss},{chunk},{streams},{gap},{competing},{},{:.0},{:.0},{:.2},{},{},{fairness}",
            self.round,
            kbit(self.goodput),
            kbit(self.model),
            self.goodput / self.model,
            self.timeouts,
            self.duplicated,
        )
    }
}

/// Returns the rate that the model predicts.
fn predicted(cell: &Cell) -> f64 {
    let link = cell.link();
    let rate = match cell.is_plain() {
        true => model::tcp_rate(&link),
        false => model::lossy_rate(&link, &cell.streams()),
    };
    rate.min(link.bandwidth)
}

fn measure(enclosure: &Enclosure, cell: &Cell, round: u64) -> Measured {
    let mut network = Network::new(enclosure);
    let host = network.host("server").unwrap();
    let client = network.host("client").unwrap();
    let line = Line {
        rate: Some(u64::from(cell.rate) * 125),
        round_trip: Cell::millis(cell.rtt),
        queue: Cell::millis(cell.queue),
        loss: f64::from(cell.loss) / 1000.0,
        seed: round,
        congestion: Some(cell.congestion),
    };
    let cable = network.connect(&host, &client, line).unwrap();
    let model = predicted(cell);
    // Competing downloads leave the streams a share of the line.
    let share = model / f64::from(cell.competing + 1);
    let bytes = (share * SECONDS).clamp(500_000.0, WHOLE as f64);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number from 500,000 on")]
    let _server = Server::start(&host, bytes as u64);
    let url = format!("http://{}/{FILE}", cable.first);
    let cell = *cell;
    let download = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(download(&cell, round, &url, model))
    };
    client.thread(download).unwrap().join().unwrap().unwrap()
}

async fn download(cell: &Cell, round: u64, url: &str, model: f64) -> Measured {
    let url: url::Url = url.parse().unwrap();
    let client = || {
        let mut hosts = AllowedHosts::default();
        hosts.allow_server(&url);
        let options = ClientOptions { hosts, timeout: LONGEST, ..ClientOptions::default() };
        Client::new(Arc::new(Sockets::new(&Trust::Any).unwrap()), options)
    };
    let settings = Settings {
        streams: usize::try_from(cell.streams).unwrap(),
        chunk: cell.chunk,
        gap: Cell::millis(cell.gap),
        timeout: match cell.is_plain() {
            true => ChunkTimeout::Fixed(LONGEST),
            false => ChunkTimeout::Adaptive,
        },
    };
    let plain = SinglePlan {
        urls: vec![url.clone()],
        popularity: Popularity::InTurn,
        concurrency: u64::from(cell.competing),
        requests: None,
        rate: None,
        duration: None,
        steps: Vec::new(),
        ramp: Duration::ZERO,
        chunking: None,
        shard: Shard::default(),
        seed: 1,
    };
    let plan = SinglePlan { concurrency: 1, requests: Some(1), chunking: Some(settings), ..plain.clone() };
    let competing = (cell.competing > 0).then(|| Competing::start(client(), CompetingPlan::Urls(plain)));
    let recorder = Arc::new(Recorder::new(tokio::time::Instant::now()));
    let (_stop, stopped) = watch::channel(false);
    run_single(client(), recorder.clone(), &plan, stopped).await;
    let streams = recorder.results().streams;
    let fairness = competing.and_then(|competing| fairness(&streams, &competing.results()));
    Measured {
        cell: *cell,
        round,
        goodput: streams.rate().unwrap_or(0.0),
        model,
        timeouts: streams.timeouts,
        duplicated: streams.duplicated,
        fairness,
    }
}
