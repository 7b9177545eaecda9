//! Divides the processors: the origin has one of them alone, and all other programs and threads
//! share the others.
//!
//! In production, attackers, storage and viewers have machines of their own. On shared processors,
//! a viewer would mostly wait for attackers: a thread that wakes up while another one runs on its
//! processor may wait up to 4 ms, for the next tick of the kernel's clock. The row `spinning`
//! measures that wait.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// Processors of the origin, and of all others.
static DIVIDED: OnceLock<[CpuSet; 2]> = OnceLock::new();

/// Leaves one processor to the origin. Returns false if there is only one.
pub(crate) fn divide() -> bool {
    let all = sched_getaffinity(None).unwrap();
    let mut sets = [CpuSet::new(), CpuSet::new()];
    for (number, cpu) in (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).enumerate() {
        sets[number.min(1)].set(cpu);
    }
    let suffices = sets[1].count() > 0;
    if suffices {
        let [_, others] = DIVIDED.get_or_init(|| sets);
        sched_setaffinity(None, others).unwrap();
    }
    suffices
}

/// Calls `work` on the origin's processor. Programs and threads that it starts stay there.
pub(crate) fn on_that_of_the_origin<T>(work: impl FnOnce() -> T) -> T {
    let [origin, others] = DIVIDED.get().expect("divided at first");
    sched_setaffinity(None, origin).unwrap();
    let done = work();
    sched_setaffinity(None, others).unwrap();
    done
}
