//! Records of measurements, one line of JSON each.

use super::Measured;
use crate::{
    Error,
    plan::{Cell, Offered},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

/// The name of the file in the folder of a run.
const FILE: &str = "cells.jsonl";

/// One measurement of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The key of the cell.
    pub key: String,
    /// The number of the measurement, from 0.
    pub repeat: u32,
    /// The name of the experiment.
    pub experiment: String,
    /// The value of each axis.
    pub point: BTreeMap<String, String>,
    /// The result, unless the measurement failed.
    pub measured: Option<Measured>,
    /// The reason for a failure.
    pub error: Option<String>,
    /// The load that was offered, if it had a fixed rate of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,
    /// The time at which the measurement began, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
}

impl Record {
    pub(super) fn new(cell: &Cell, repeat: u32, began: u64, measured: Result<Measured, Error>) -> Self {
        let (measured, error) = match measured {
            Ok(measured) => (Some(measured), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let key = cell.key.clone();
        let experiment = cell.experiment.clone();
        let point = cell.point.clone();
        let (offered, began) = (cell.offered, Some(began));
        Self { key, repeat, experiment, point, measured, error, offered, began }
    }

    fn done(&self) -> Done {
        (self.experiment.clone(), self.point.clone(), self.key.clone(), self.repeat)
    }

    /// Returns the record as a line for people.
    pub fn line(&self) -> String {
        let point: Vec<String> = self.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let result = match (&self.measured, &self.error) {
            (Some(measured), _) => format!(
                "{} requests, {:.1} MB in {:.1} s; storage: {} requests, {:.1} MB",
                measured.requests,
                measured.bytes as f64 / 1e6,
                measured.seconds,
                measured.storage_requests,
                measured.storage_bytes as f64 / 1e6
            ),
            (None, error) => format!("failed: {}", error.as_deref().unwrap_or("unknown")),
        };
        format!("{} {} {}: {result}", self.experiment, point.join(" "), self.repeat + 1)
    }
}

/// A measurement that has a result: experiment, values of axes, key and number. Cells of several
/// experiments may have the same key.
type Done = (String, BTreeMap<String, String>, String, u32);

/// The records of a run, in a file that survives a crash at any time.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: File,
    done: BTreeSet<Done>,
    /// All records in the order of their measurement.
    pub records: Vec<Record>,
}

impl Records {
    /// Opens the file in the folder of a run, and reads what it holds. A last line that was not
    /// completed is removed.
    ///
    /// # Errors
    /// If the file cannot be read or written, or holds something else.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let failed = |error: io::Error| Error::file(&path, &error);
        let options = fs::OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = options.map_err(failed)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64).map_err(failed)?;
        file.seek(io::SeekFrom::End(0)).map_err(failed)?;
        let records = parse(&path, &text[..whole])?;
        // What failed is measured again.
        let done = records.iter().filter(|record| record.measured.is_some());
        let done = done.map(Record::done).collect();
        Ok(Self { path, file, done, records })
    }

    /// Reads the records of a run without changing them. A last line that was not completed is left
    /// out.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn read(folder: &Path) -> Result<Vec<Record>, Error> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, &error))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        parse(&path, &text[..whole])
    }

    /// Returns true if a measurement has a result.
    pub fn has(&self, cell: &Cell, repeat: u32) -> bool {
        let Cell { experiment, point, key, .. } = cell;
        self.done.contains(&(experiment.clone(), point.clone(), key.clone(), repeat))
    }

    /// Adds a record. When this function returns, it is on disk.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub(super) fn add(&mut self, record: Record) -> Result<(), Error> {
        let mut line = serde_json::to_vec(&record).map_err(|error| Error::invalid(error.to_string()))?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::file(&self.path, &error))?;
        if record.measured.is_some() {
            self.done.insert(record.done());
        }
        self.records.push(record);
        Ok(())
    }
}

/// Parses whole lines.
fn parse(path: &Path, text: &str) -> Result<Vec<Record>, Error> {
    let parse = |(number, line): (usize, &str)| {
        let place = || format!("{}: line {}", path.display(), number + 1);
        serde_json::from_str(line).map_err(|error| Error::invalid(format!("{}: {error}", place())))
    };
    text.lines().enumerate().map(parse).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        function::Function,
        graph::{Connection, Graph, Node},
    };

    /// Returns a cell of a storage and a load. All of them have the same key.
    pub(in crate::driver) fn cell(experiment: &str, setup: &str) -> Cell {
        let node = |id: &str, function, parameters: &[(&str, &str)]| Node {
            id: id.to_owned(),
            function,
            host: None,
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let load = [("kind", "list"), ("format", "hls"), ("title", "t"), ("connections", "1")];
        let nodes = vec![
            node("storage", Function::Storage, &[("content", "t")]),
            node("load", Function::Load, &load),
        ];
        let connection = Connection { from: "storage".to_owned(), port: 0, to: "load".to_owned() };
        Cell {
            experiment: experiment.to_owned(),
            point: BTreeMap::from([("setup".to_owned(), setup.to_owned())]),
            graph: Graph::new(nodes, vec![connection]).unwrap(),
            key: "same".to_owned(),
            offered: None,
        }
    }

    #[test]
    fn equal_cells_of_several_experiments_are_each_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path()).unwrap();
        let measured = cell("cold", "ipp");
        records.add(Record::new(&measured, 0, 7, Ok(Measured::default()))).unwrap();
        for records in [records, Records::open(folder.path()).unwrap()] {
            assert!(records.has(&measured, 0) && !records.has(&measured, 1));
            assert!(!records.has(&cell("cold", "n-single"), 0) && !records.has(&cell("warm", "ipp"), 0));
        }
    }
}
