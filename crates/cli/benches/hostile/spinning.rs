//! The control of the experiment: the delay of the viewer by any other work on the processors.

use crate::{
    Bench, cores, priority,
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

/// Place and priority of a thread that computes.
#[derive(Clone, Copy)]
enum Place {
    /// With the viewer and the attackers, at their priority.
    Attackers,
    /// With the origin, at this `nice` value.
    Origin(i32),
    /// With the origin, at the lowest priority.
    OriginIdle,
}

/// Computes without a pause beside an origin that serves only the viewer.
pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let origin = bench.start(&bench.nginx.location(), "", &[]);
    let mut viewer = Viewer::of(&origin);
    let alone = play_for(&mut viewer, PLAYING);
    let note = format!("alone {:.2} ms", alone.percentile_99().as_secs_f64() * 1e3);
    for (place, what) in [
        (Place::Attackers, "where the attackers are"),
        (Place::OriginIdle, "at the lowest priority on its processor"),
        (Place::Origin(10), "at nice 10 on the origin's processor"),
        (Place::Origin(0), "at the origin's priority on its processor"),
    ] {
        let over = AtomicBool::new(false);
        let spin = || {
            let mut sum = 0_u64;
            while !over.load(Relaxed) {
                sum = black_box(sum).wrapping_mul(3).wrapping_add(1);
            }
        };
        let beside = thread::scope(|scope| {
            scope.spawn(|| match place {
                Place::Attackers => {
                    priority::give_way();
                    spin();
                }
                Place::Origin(nice) => cores::on_that_of_the_origin(|| {
                    rustix::process::nice(nice).unwrap();
                    spin();
                }),
                Place::OriginIdle => cores::on_that_of_the_origin(|| {
                    priority::give_way();
                    spin();
                }),
            });
            let beside = play_for(&mut viewer, PLAYING);
            over.store(true, Relaxed);
            beside
        });
        let ms = beside.percentile_99().as_secs_f64() * 1e3;
        report.line(&format!("viewer's p99 beside work {what}"), ms, "ms", Limit::None, &note);
    }
}
