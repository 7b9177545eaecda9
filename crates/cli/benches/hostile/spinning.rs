//! The control: what any work on the two processors costs the viewer, whoever does it.

use crate::{
    Bench,
    origin::Origin,
    report::{Limit, Report},
    under_attack::play_for,
    viewer::Viewer,
};
use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

const PLAYING: Duration = Duration::from_secs(10);

/// Computes on two threads beside an origin that has nothing to do but to serve the viewer.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let origin = Origin::start(&bench.nginx.location(), "", &bench.with);
    let mut viewer = Viewer::of(&origin);
    let alone = play_for(&mut viewer, PLAYING);
    for (nice, what) in [(0, "at the priority of the origin"), (10, "at nice 10")] {
        let over = AtomicBool::new(false);
        let beside = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    rustix::process::nice(nice).unwrap();
                    let mut sum = 0_u64;
                    while !over.load(Relaxed) {
                        sum = black_box(sum).wrapping_mul(3).wrapping_add(1);
                    }
                });
            }
            let beside = play_for(&mut viewer, PLAYING);
            over.store(true, Relaxed);
            beside
        });
        let ms = beside.percentile_99().as_secs_f64() * 1e3;
        let note = format!("alone {:.2} ms", alone.percentile_99().as_secs_f64() * 1e3);
        report.line(&format!("viewer's 99th percentile beside work {what}"), ms, "ms", Limit::None, &note);
    }
}
