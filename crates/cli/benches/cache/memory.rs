//! The largest amount of memory that the process takes under a load of fifty times its budget.

use crate::{
    Bench,
    connection::Connection,
    media::Layout,
    nginx,
    report::{Limit, Report},
};
use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

const MIB: u64 = 1 << 20;
/// Sum of the memory that the configuration below allows.
const BUDGET: u64 = 256 * MIB;
const TIMES: u64 = 50;
const CLIENTS: u64 = 64;
const CONFIG: &str = r#"
[memory]
index = "24MiB"
fragments = "8MiB"
manifests = "8MiB"
loading = "24MiB"

[cache]
memory = "192MiB"
"#;

pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let origin = bench.origin(CONFIG);
    let idle = origin.status("VmRSS");
    let titles: Vec<_> =
        bench.titles().iter().filter(|title| Layout::MEASURED.contains(&title.layout)).collect();
    let of_all: u64 = titles.iter().map(|title| title.media).sum();
    let copies = usize::try_from(BUDGET * TIMES * 12 / 10 / of_all).unwrap() + 1;
    let names: Vec<Vec<String>> = titles
        .iter()
        .map(|title| {
            let name =
                |n: usize| bench.library.title(title.layout, &format!("memory{n}-{:?}", title.layout)).path;
            (0..copies).map(name).collect()
        })
        .collect();
    let mark = bench.nginx.mark();
    let done = AtomicBool::new(false);
    let next = AtomicUsize::new(0);
    let sent = AtomicU64::new(0);
    let most = AtomicU64::new(0);
    let most_anonymous = AtomicU64::new(0);
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !done.load(Relaxed) {
                most.fetch_max(origin.status("VmRSS"), Relaxed);
                most_anonymous.fetch_max(origin.status("RssAnon"), Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let origin = &origin;
                let next = &next;
                let sent = &sent;
                let titles = &titles;
                let names = &names;
                scope.spawn(move || {
                    let mut connection = Connection::to(origin.address);
                    connection.digests = false;
                    let mut state = client + 1;
                    let mut random = |below: usize| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        usize::try_from(state >> 33).unwrap() % below
                    };
                    // Each client plays titles that were not played before, in any protocol. Now
                    // and then it requests an older one.
                    loop {
                        let n = next.fetch_add(1, Relaxed);
                        if n >= copies * titles.len() {
                            return;
                        }
                        let title = titles[n % titles.len()];
                        let names = &names[n % titles.len()];
                        let protocol = &title.protocols[random(title.protocols.len())];
                        for segment in protocol.segments() {
                            let copy =
                                if random(5) == 0 { random(n / titles.len() + 1) } else { n / titles.len() };
                            let url = segment.url.replacen(&title.path, &names[copy], 1);
                            sent.fetch_add(connection.get(&url).length, Relaxed);
                        }
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        done.store(true, Relaxed);
        watch.join().unwrap();
    });
    let read = nginx::bytes(&bench.nginx.since(mark));
    let peak = origin.status("VmHWM").max(most.load(Relaxed));
    let of = |bytes: u64| bytes as f64 / BUDGET as f64;
    let mib = |bytes: u64| bytes / MIB;
    let note = format!(
        "{} MiB resident at most ({} MiB of it no file's), {} MiB idle; budget {} MiB, of which ranges {:.0} MiB; {CLIENTS} clients",
        mib(peak),
        mib(most_anonymous.load(Relaxed)),
        mib(idle),
        mib(BUDGET),
        origin.metric("latemux_cache_limit_bytes", &["cache=\"range\"", "tier=\"memory\""]) / MIB as f64,
    );
    report.line("most resident by budget", of(peak), "", Limit::AtMost(1.1), &note);
    let processor = origin.metric("process_cpu_seconds_total", &[]);
    let sent = sent.load(Relaxed);
    let note = format!(
        "{} MB read, {} MB sent, {:.2} s of processor time per GB sent",
        read / 1_000_000,
        sent / 1_000_000,
        processor * 1e9 / sent as f64
    );
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let times = Limit::AtLeast(TIMES as f64);
    report.line("read from storage by budget", of(read), "", times, &note);
}
