//! The blocks of an experiment: further ones are measured as long as claims have wide intervals.

use super::{Measured, Record, Records};
use crate::{
    Error, date,
    plan::{Cell, Planned, block},
};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Measures a cell in a block. Returns `None` if the machine cannot measure it, or if the run is
/// stopped.
type Measure<'a> = dyn FnMut(&Cell, u32) -> Option<Result<Measured, Error>> + 'a;

/// Returns true if further blocks are needed beside those of these records.
pub(super) type NeedsMore = fn(&Planned, &[Record]) -> bool;

/// Measures the blocks of an experiment, except for what `records` have already: the least number,
/// and then further ones until no more are needed, or the largest number is reached.
///
/// # Errors
/// If a record cannot be written.
pub(super) fn measure(
    plan: &Planned,
    seed: u64,
    records: &mut Records,
    stop: &AtomicBool,
    measure: &mut Measure<'_>,
    needs_more: NeedsMore,
    report: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    for repeat in 0..plan.repeats.most() {
        if repeat >= plan.repeats.min && !needs_more(plan, &records.records) {
            return Ok(());
        }
        for at in block(seed, repeat, plan.cells.len()) {
            if stop.load(Relaxed) {
                return Ok(());
            }
            let cell = &plan.cells[at];
            if records.has(cell, repeat) {
                continue;
            }
            let began = date::now();
            if let Some(measured) = measure(cell, repeat) {
                let record = Record::new(cell, repeat, began, measured);
                report(&record.line());
                records.add(record)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        driver::record::tests::cell,
        experiment::{Further, Repeats},
        report::needs_more,
    };
    use std::collections::{BTreeMap, BTreeSet};

    /// Returns a plan of two cells, with a claim about the ratio of their rates.
    fn plan(further: Option<Further>) -> Planned {
        let claim =
            "text = 'x'\nvalue = 'MB/s'\nof = { setup = 'a' }\nagainst = { setup = 'b' }\nat_least = 1";
        Planned {
            name: "fake".to_owned(),
            description: String::new(),
            repeats: Repeats { min: 3, further },
            cells: vec![cell("fake", "a"), cell("fake", "b")],
            titles: BTreeMap::new(),
            choices: BTreeSet::new(),
            claims: vec![toml::from_str(claim).unwrap()],
            published: Vec::new(),
            scale: 1.0,
        }
    }

    /// Returns the number of blocks that are measured, if `a` sends these bytes in each of them.
    fn blocks(plan: &Planned, bytes: impl Fn(u32) -> u64) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        let mut fake = |cell: &Cell, repeat| {
            let bytes = if cell.point["setup"] == "a" { bytes(repeat) } else { 1_000_000 };
            Some(Ok(Measured { bytes, seconds: 1.0, ..Measured::default() }))
        };
        let mut run = |records: &mut Records| {
            measure(plan, 1, records, &AtomicBool::new(false), &mut fake, needs_more, &mut |_| {}).unwrap();
            records.records.len()
        };
        let measured = run(&mut records);
        assert_eq!(run(&mut Records::open(folder.path()).unwrap()), measured, "it was complete");
        measured / 2
    }

    #[test]
    fn further_blocks_are_measured_until_all_intervals_are_narrow() {
        let further = |max| Some(Further { max, half_width: 0.05 });
        let steady = |_| 2_000_000;
        let noisy = |repeat: u32| 2_000_000 + u64::from(repeat % 2) * 1_000_000;
        // The first three blocks differ, all further ones are alike.
        let settling = |repeat: u32| 2_000_000 + u64::from(repeat == 0) * 200_000;
        assert_eq!(blocks(&plan(None), noisy), 3);
        assert_eq!(blocks(&plan(further(10)), steady), 3);
        assert_eq!(blocks(&plan(further(10)), noisy), 10);
        let settled = blocks(&plan(further(10)), settling);
        assert!((4..10).contains(&settled), "{settled}");
        assert_eq!(blocks(&plan(further(4)), noisy), 4);
    }

    #[test]
    fn cells_that_cannot_be_measured_do_not_ask_for_further_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        let mut asked = 0;
        let mut fake = |_: &Cell, _| {
            asked += 1;
            None
        };
        let plan = plan(Some(Further { max: 10, half_width: 0.05 }));
        measure(&plan, 1, &mut records, &AtomicBool::new(false), &mut fake, needs_more, &mut |_| {}).unwrap();
        assert_eq!((asked, records.records.len()), (6, 0));
    }
}
