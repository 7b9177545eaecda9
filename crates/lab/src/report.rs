//! The results of a run, summed up: means of repeated measurements with confidence intervals.

mod csv;
mod fit;
mod fits;
mod html;
mod plot;
mod scatter;
mod table;
mod value;
mod verdict;

pub use csv::{claims, measurements, summary};
pub use fit::{ClaimFit, OfferedCell};
pub use html::page;
pub use verdict::{JudgedClaim, Verdict};

use crate::{
    Error, date,
    driver::{Measured, Record, Records},
    experiment::Quantity,
    machine::Machine,
    model::streams,
    nbmp::Workflow,
    outline::{self, Outlines},
    plan::Planned,
};
use std::{collections::BTreeMap, fs, path::PathBuf};
use value::value;

/// Returns true if the records are too few for a claim of an experiment: half of its interval is
/// wider than the experiment wants.
pub fn needs_more(plan: &Planned, records: &[Record]) -> bool {
    let Some(further) = plan.repeats.further else { return false };
    let own = records.iter().filter(|record| record.experiment == plan.name);
    let own: Vec<(usize, Record)> = own.map(|record| (0, record.clone())).collect();
    plan.claims.iter().any(|claim| {
        let half_width = verdict::decide(claim, &plan.name, &own).half_width();
        half_width.is_some_and(|half_width| half_width > further.half_width)
    })
}

/// The results of one or several machines.
#[derive(Debug, Clone)]
pub struct Run {
    /// The machines, one for each folder.
    pub machines: Vec<Machine>,
    /// The experiments.
    pub outlines: Outlines,
    /// The measurements, each with the number of its machine.
    pub records: Vec<(usize, Record)>,
    /// The goodput that the model of request-response streams states for cells that it covers, in
    /// bytes per second, by their keys.
    pub streams: BTreeMap<String, f64>,
}

impl Run {
    /// Reads the folders of a run, each with the part of one machine. A measurement that several
    /// folders hold counts once.
    ///
    /// # Errors
    /// If a folder has no results, or its files cannot be read.
    pub fn read(folders: &[PathBuf]) -> Result<Self, Error> {
        let mut run = Self {
            machines: Vec::new(),
            outlines: Outlines::new(),
            records: Vec::new(),
            streams: BTreeMap::new(),
        };
        for (number, folder) in folders.iter().enumerate() {
            run.machines.push(Machine::read(folder)?);
            run.outlines.extend(outline::read(folder)?);
            for record in Records::read(folder)? {
                let document =
                    folder.join("cells").join(&record.key).join(format!("r{}.wdd", record.repeat + 1));
                let workflow = fs::read(document).ok().and_then(|bytes| Workflow::from_json(&bytes).ok());
                let rate = workflow.and_then(|workflow| streams::rate(&workflow.graph));
                run.streams.extend(rate.map(|rate| (record.key.clone(), rate)));
                if !run.records.iter().any(|(from, known)| *from != number && *known == record) {
                    run.records.push((number, record));
                }
            }
        }
        Ok(run)
    }

    /// Decides the claims of an experiment.
    pub fn verdicts(&self, experiment: &str) -> Vec<JudgedClaim> {
        let claims = self.outlines.get(experiment).map(|outline| &outline.claims[..]).unwrap_or_default();
        claims.iter().map(|claim| verdict::decide(claim, experiment, &self.records)).collect()
    }

    /// Returns the cells of all fits as CSV, or `None` if no claim has a fit.
    pub fn fits(&self) -> Option<String> {
        let mut text = String::new();
        for name in self.outlines.keys() {
            for JudgedClaim { claim, fit, .. } in self.verdicts(name) {
                if let Some(fit) = fit {
                    csv::fit_lines(&mut text, name, &claim, &fit);
                }
            }
        }
        (!text.is_empty()).then(|| csv::FIT_COLUMNS.to_owned() + &text)
    }
}

/// Returns the dates on which these measurements began, as a text: one date, or the first and the
/// last one. Returns `None` if no measurement states it.
fn dates<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> Option<String> {
    let began = records.filter_map(|record| record.began);
    let [first, last] = [began.clone().min()?, began.max()?].map(date::date);
    Some(if first == last { format!("on {first}") } else { format!("from {first} to {last}") })
}

/// The order of cells: by experiment, axes with their values, and key.
type CellOrder<'a> = (&'a str, Vec<(&'a str, Natural<'a>)>, &'a str);

/// All measurements of one cell.
struct Cell<'a> {
    first: &'a Record,
    measured: Vec<&'a Measured>,
    failed: usize,
}

impl Cell<'_> {
    /// Returns the values of all measurements that have one.
    fn values(&self, quantity: Quantity) -> Vec<f64> {
        self.measured.iter().filter_map(|measured| value(quantity, measured)).collect()
    }
}

/// Groups measurements by cell: those of one experiment together, in the order of their axes. A
/// failure counts only if the measurement was not repeated with success.
fn cells(records: &[(usize, Record)]) -> Vec<Cell<'_>> {
    let mut cells: BTreeMap<CellOrder<'_>, Cell<'_>> = BTreeMap::new();
    for (machine, record) in records {
        let point = record.point.iter().map(|(axis, value)| (axis.as_str(), Natural::of(value))).collect();
        let cell = cells.entry((&record.experiment, point, &record.key));
        let cell = cell.or_insert_with(|| Cell { first: record, measured: Vec::new(), failed: 0 });
        let repeated = |(other, later): &(usize, Record)| {
            other == machine
                && later.key == record.key
                && later.repeat == record.repeat
                && later.measured.is_some()
        };
        match &record.measured {
            Some(measured) => cell.measured.push(measured),
            None if records.iter().any(repeated) => {}
            None => cell.failed += 1,
        }
    }
    cells.into_values().collect()
}

/// A value of an axis in the order of numbers, or of letters behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Natural<'a> {
    Number(u64),
    Text(&'a str),
}

impl<'a> Natural<'a> {
    fn of(text: &'a str) -> Self {
        text.parse().map_or(Self::Text(text), Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn record(repeat: u32, setup: &str, measured: Option<Measured>) -> Record {
        let point = BTreeMap::from([("setup".to_owned(), setup.to_owned())]);
        let error = measured.is_none().then(|| "failed".to_owned());
        let key = format!("key-{setup}");
        let experiment = "cold".to_owned();
        Record { key, repeat, experiment, point, measured, error, offered: None, began: None }
    }

    pub(super) fn measured(bytes: u64) -> Measured {
        Measured { requests: 4, bytes, seconds: 2.0, storage_bytes: 1_000_000, ..Measured::default() }
    }

    #[test]
    fn parts_of_several_machines_are_merged_and_copies_count_once() {
        let folder = tempfile::tempdir().unwrap();
        let part = |name: &str, records: &[Record]| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            Machine::this("1", name).write(&path).unwrap();
            let lines = records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n");
            fs::write(path.join("cells.jsonl"), lines.collect::<String>()).unwrap();
            path
        };
        let ours = record(0, "a", Some(measured(1)));
        let theirs = record(0, "a", Some(measured(3)));
        let folders =
            [part("one", std::slice::from_ref(&ours)), part("two", &[ours.clone(), theirs.clone()])];
        let run = Run::read(&folders).unwrap();
        assert_eq!(run.records, [(0, ours), (1, theirs)]);
        assert_eq!(
            run.machines.iter().map(|machine| machine.net.as_str()).collect::<Vec<_>>(),
            ["one", "two"]
        );
        let cells = cells(&run.records);
        assert_eq!(cells[0].values(Quantity::ByteRate), [0.5e-6, 1.5e-6]);
        let error = Run::read(&[folder.path().join("three")]).unwrap_err();
        assert_eq!(error.reason(), "file");
    }

    #[test]
    fn dates_are_those_of_the_first_and_the_last_measurement() {
        let began = |began| Record { began, ..record(0, "a", Some(measured(1))) };
        let records = [began(Some(172_800)), began(None), began(Some(0))];
        assert_eq!(dates(records.iter()).as_deref(), Some("from 1970-01-01 to 1970-01-03"));
        assert_eq!(dates(records.iter().take(2)).as_deref(), Some("on 1970-01-03"));
        assert_eq!(dates(records.iter().skip(1).take(1)), None);
    }

    #[test]
    fn a_failure_that_was_repeated_does_not_count() {
        let records =
            [(0, record(0, "a", None)), (0, record(1, "a", None)), (0, record(0, "a", Some(measured(1))))];
        let cells = cells(&records);
        assert_eq!((cells.len(), cells[0].failed, cells[0].measured.len()), (1, 1, 1));
    }

    #[test]
    fn values_of_axes_have_the_order_of_numbers() {
        let mut values = ["hls", "10", "9", "100", "dash"].map(Natural::of);
        values.sort();
        assert_eq!(values, ["9", "10", "100", "dash", "hls"].map(Natural::of));
    }
}
