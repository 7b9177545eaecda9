//! One attack on a fresh origin, beside a viewer.

use crate::{
    Bench,
    costs::Peaks,
    origin::Origin,
    priority,
    report::{Limit, Report},
    viewer::{Played, Viewer},
};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

const MIB: f64 = 1_048_576.0;
/// Time that the viewer plays alone, then beside the attack.
const PLAYING: Duration = Duration::from_secs(10);
/// Time after `PLAYING` in which the memory of sockets is measured, while the attack goes on.
const COUNTING: Duration = Duration::from_secs(1);
/// Memory of the process and its allocator beyond the budgets and a tenth of them.
const BESIDE_BUDGETS: f64 = 64.0;

/// What an attack must know.
pub(crate) struct Target<'a> {
    pub(crate) origin: &'a Origin,
    at_full_force: &'a Barrier,
    over: &'a AtomicBool,
}

impl Target<'_> {
    /// Says that the attack is at its full force. The viewer's time beside it begins. An attack
    /// calls this exactly once.
    pub(crate) fn at_full_force(&self) {
        self.at_full_force.wait();
    }

    /// Returns true once the attack must end.
    pub(crate) fn over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Holds the attack as it is until it must end.
    pub(crate) fn hold(&self) {
        while !self.over() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Starts an origin with a configuration and flags, attacks it, and reports what it cost.
///
/// The attack runs on threads that give way to all others. In the world it would run on other
/// machines, and must not take the processor from the viewer here.
pub(crate) fn run(
    bench: &Bench,
    report: &mut Report,
    config: &str,
    flags: &[&str],
    attack: impl FnOnce(&Target<'_>) + Send,
) {
    run_over(bench, &bench.nginx.location(), report, config, flags, attack);
}

/// Does the same with an origin whose storage is at another location, and asks nginx in the end.
pub(crate) fn run_over(
    bench: &Bench,
    storage: &str,
    report: &mut Report,
    config: &str,
    flags: &[&str],
    attack: impl FnOnce(&Target<'_>) + Send,
) {
    let origin = bench.start(storage, config, flags);
    run_beside(bench, report, &origin, Viewer::of(&origin), attack);
}

/// Does the same with an origin that runs already, and its viewer.
pub(crate) fn run_beside(
    bench: &Bench,
    report: &mut Report,
    origin: &Origin,
    mut viewer: Viewer,
    attack: impl FnOnce(&Target<'_>) + Send,
) {
    let alone = play_for(&mut viewer, PLAYING);

    let peaks = Peaks::default();
    let over = AtomicBool::new(false);
    let plays = AtomicBool::new(false);
    let begun = Barrier::new(2);
    let mark = bench.nginx.mark();
    let processor = origin.metric("process_cpu_seconds_total", &[]);
    let beside = thread::scope(|scope| {
        scope.spawn(|| {
            priority::give_way();
            peaks.watch(origin, &plays, &over);
        });
        let target = Target { origin, at_full_force: &begun, over: &over };
        scope.spawn(move || {
            priority::give_way();
            attack(&target);
        });
        begun.wait();
        plays.store(true, Relaxed);
        let beside = play_for(&mut viewer, PLAYING);
        plays.store(false, Relaxed);
        thread::sleep(COUNTING);
        over.store(true, Relaxed);
        beside
    });
    let processor = origin.metric("process_cpu_seconds_total", &[]) - processor;
    memory(report, origin, &peaks);
    report.line("processor time", processor, "CPU-s", Limit::None, "from the first request of the attack");
    report.line("requests to storage", bench.nginx.since(mark).len() as f64, "", Limit::None, "");
    response_times(report, &alone, &beside);
}

/// Lets a viewer play for some time.
pub(crate) fn play_for(viewer: &mut Viewer, time: Duration) -> Played {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(time);
            over.store(true, Relaxed);
        });
        viewer.play(&over)
    })
}

fn memory(report: &mut Report, origin: &Origin, peaks: &Peaks) {
    let caches = origin.metric("latemux_cache_limit_bytes", &["tier=\"memory\""]);
    let budgets = (caches + origin.metric("latemux_responses_memory_limit_bytes", &[])) / MIB;
    let resident = peaks.resident.load(Relaxed) as f64 / MIB;
    let limit = Limit::AtMost(budgets * 1.1 + BESIDE_BUDGETS);
    report.line("resident at most", resident, "MiB", limit, &format!("budgets {budgets:.0} MiB"));
    let sockets = peaks.sockets.load(Relaxed) as f64 / MIB;
    report.line("memory of sockets in the kernel at most", sockets, "MiB", Limit::None, "");
}

fn response_times(report: &mut Report, alone: &Played, beside: &Played) {
    let milliseconds = |played: &Played| played.percentile_99().as_secs_f64() * 1e3;
    let note = format!(
        "{:.2} ms in {} requests, alone {:.2} ms in {}",
        milliseconds(beside),
        beside.requests(),
        milliseconds(alone),
        alone.requests()
    );
    let ratio = milliseconds(beside) / milliseconds(alone);
    report.line("viewer's 99th percentile by that alone", ratio, "", Limit::AtMost(2.0), &note);
    report.line("viewer's failed requests", beside.failed as f64, "", Limit::AtMost(0.0), "");
}
