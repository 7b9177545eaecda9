//! Looks for files that cost more than their size allows. The input is a recipe of a file of at
//! most 1 MB, or, after the byte 255, the file itself. The cost of each stage counts as coverage,
//! in twelve steps for each doubling, so that libFuzzer keeps the inputs that cost more than any
//! before.
//!
//! An input fails if its index, its title and one manifest together take more memory than
//! docs/limits.md states, or far more time. The code is instrumented here, on a machine that may be
//! busy, so only time of another order is a failure: `examples/cost.rs` measures without that.
#![no_main]

#[path = "../measure.rs"]
mod measure;

use bytes::Bytes;
use latemux_testmedia::hostile::HostileFile;
use libfuzzer_sys::fuzz_target;
use measure::{Cost, Counting, costs};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bound of CPU time.
const MOST_NANOS: u64 = 100_000_000;
/// Factor by which instrumented code on a busy machine may be slower.
const SLOWER: u64 = 100;
/// Bound of memory.
const MOST_BYTES: usize = 64 << 20;

const LEVELS: usize = 512;
const STAGES: usize = 16;

/// Counters that libFuzzer takes for coverage: a level of cost that was reached sets one.
#[used]
#[unsafe(link_section = "__libfuzzer_extra_counters")]
static REACHED: [AtomicU8; LEVELS * STAGES * 2] = [const { AtomicU8::new(0) }; LEVELS * STAGES * 2];

fuzz_target!(|data: &[u8]| {
    let object: Bytes = match data.split_first() {
        Some((255, file)) => file.to_vec().into(),
        _ => HostileFile::from_bytes(data).write().into(),
    };
    let mut stages = costs(&object);
    for (stage, (_, cost)) in stages.iter().enumerate() {
        reach(2 * stage, cost.nanos / 1000);
        reach(2 * stage + 1, cost.bytes as u64 / 64);
    }
    // Another process may have slowed this one down. The least of several measurements counts.
    for _ in 0..3 {
        let Some(worst) = worst(&stages) else { return };
        if worst.nanos <= SLOWER * MOST_NANOS && worst.bytes <= MOST_BYTES {
            return;
        }
        for ((_, least), (_, again)) in stages.iter_mut().zip(costs(&object)) {
            least.nanos = least.nanos.min(again.nanos);
            least.bytes = least.bytes.min(again.bytes);
        }
    }
    panic!("{} bytes cost {stages:?}", object.len());
});

/// Marks all levels up to a value.
fn reach(counter: usize, value: u64) {
    if value < 64 || counter >= 2 * STAGES {
        return;
    }
    let level = ((value as f64).log2() * 12.0) as usize;
    if let Some(mark) = REACHED.get(counter * LEVELS + level.min(LEVELS - 1)) {
        mark.store(1, Relaxed);
    }
}

/// Returns the cost of two pieces of work one after the other.
fn both(first: Cost, second: Cost) -> Cost {
    Cost { nanos: first.nanos + second.nanos, bytes: first.bytes.max(second.bytes) }
}

/// Returns the cost of index, title and the dearest manifest.
fn worst(stages: &[(String, Cost)]) -> Option<Cost> {
    let (base, manifests) = stages.split_at(stages.len().min(2));
    let base = base.iter().fold(Cost::default(), |sum, (_, cost)| both(sum, *cost));
    let dearest = manifests.iter().map(|(_, cost)| both(base, *cost));
    Some(
        dearest
            .reduce(|a, b| Cost { nanos: a.nanos.max(b.nanos), bytes: a.bytes.max(b.bytes) })
            .unwrap_or(base),
    )
}
