//! The part of a cell's results that one task has measured.

use super::Sources;
use crate::{Error, function::Function, http, machine::own_ticks};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, BufRead as _, BufReader},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

/// Clock ticks per second in procfs (`USER_HZ`), which is 100 on every Linux.
const TICKS: f64 = 100.0;

/// The most characters of a range that are kept. A single range has at most 47, and origins send no
/// lists of ranges, which could be as long as a head.
const MAX_RANGE: usize = 64;

/// The part of a cell's results that one task has measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The name of the function.
    pub function: String,
    /// The bytes of files that a cache keeps.
    pub cached: u64,
    /// The responses of a server, in the order in which they ended.
    pub responses: Vec<Response>,
    /// The bytes that a link has carried to its reader, as they grew.
    pub carried: Vec<Carried>,
    /// The source bytes that an origin has read and used, as they grew.
    #[serde(default)]
    pub sources: Vec<Sources>,
    /// The bytes of the media files of the title, in the part of a storage.
    #[serde(default)]
    pub title_bytes: u64,
    /// The time at which the measured load began, in seconds since 1970.
    pub measured_from: f64,
    /// The processor time of the function in seconds.
    pub processor: f64,
    /// The largest memory of the function's process in bytes.
    pub memory: u64,
    /// True if the task was stopped before its function had begun, or a client before its end.
    #[serde(default)]
    pub is_partial: bool,
}

/// A line of a server's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The time of its end, in seconds since 1970.
    pub time: f64,
    /// The number of the connection.
    pub connection: u64,
    /// The status.
    pub status: u16,
    /// The bytes of the body.
    pub body: u64,
    /// The bytes of the head and the body.
    #[serde(default)]
    pub wire: u64,
    /// The outcome of the cache: `HIT`, `MISS`, or nothing.
    pub cache: String,
    /// The range that was requested, such as `bytes=0-65535`; nothing for a whole file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub range: String,
    /// The path with its query.
    pub uri: String,
}

impl Response {
    /// Reads a line of a log, unless it is about a check whether the server answers.
    fn of(line: &[u8]) -> Option<Self> {
        let mut response: Self = serde_json::from_slice(line).ok()?;
        if response.uri.starts_with(http::READY) {
            return None;
        }
        if response.range.len() > MAX_RANGE {
            response.range = response.range.chars().take(MAX_RANGE).collect();
        }
        Some(response)
    }
}

/// A state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// The time in seconds since 1970.
    pub time: f64,
    /// The bytes that have been carried to readers until then.
    pub bytes: u64,
}

impl Carried {
    /// Returns the state at this moment.
    pub(crate) fn now(bytes: u64) -> Self {
        Self { time: wall_clock(), bytes }
    }
}

/// Returns the time in seconds since 1970, as logs state it.
#[expect(clippy::disallowed_methods, reason = "logs of several programs are compared by their times")]
pub(crate) fn wall_clock() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl Part {
    /// Returns the part of a function that was stopped before its end.
    pub(super) fn partial(function: Function, measured_from: f64) -> Self {
        let function = function.name().to_owned();
        Self { function, measured_from, is_partial: true, ..Self::default() }
    }

    /// Reads what a server has left in its folder.
    pub(super) fn of_server(function: Function, own: &Path) -> Self {
        // Line by line: the log is longer than what is kept of it.
        let log = fs::File::open(own.join("access.log")).map(BufReader::new);
        let lines = log.into_iter().flat_map(|log| log.split(b'\n').map_while(Result::ok));
        Self {
            function: function.name().to_owned(),
            cached: file_bytes(&own.join("cache")).unwrap_or(0),
            responses: lines.filter_map(|line| Response::of(&line)).collect(),
            ..Self::default()
        }
    }

    /// Returns the part with the resources that this process and its children have used.
    pub(super) fn with_use(self, memory: u64) -> Self {
        Self { processor: own_ticks() as f64 / TICKS, memory, ..self }
    }

    /// Writes the part to the folder of the results.
    ///
    /// # Errors
    /// If the file cannot be written, for instance because the disk is full.
    pub fn write(&self, folder: &Path, id: &str) -> Result<(), Error> {
        let path = folder.join(Self::file_name(id));
        fs::write(&path, self.to_bytes()?).map_err(|error| Error::file(&path, &error))
    }

    /// Returns the name of the file with the part of a task.
    pub fn file_name(id: &str) -> String {
        format!("{id}.json")
    }

    /// Returns the part as the bytes of its file.
    ///
    /// # Errors
    /// If a number is not one that JSON can state.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Reads a part.
    ///
    /// # Errors
    /// If the task has written none, or another program has.
    pub fn read(folder: &Path, id: &str) -> Result<Self, Error> {
        let path = folder.join(Self::file_name(id));
        let bytes = fs::read(&path).map_err(|error| Error::file(&path, &error))?;
        Self::from_bytes(&bytes).map_err(|error| error.within(&path.display().to_string()))
    }

    /// Reads the bytes of a part's file.
    ///
    /// # Errors
    /// If they are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map_err(|error| Error::invalid(error.to_string()))
    }
}

/// Returns the bytes of all files below a folder.
fn file_bytes(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        sum += if data.is_dir() { file_bytes(&entry.path())? } else { data.len() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_keeps_the_range_of_each_request() {
        let folder = tempfile::tempdir().unwrap();
        let line = |range: &str, uri: &str| {
            format!(
                r#"{{"time":1.5,"connection":1,"method":"GET","status":206,"body":3,"wire":9,"cache":"","range":"{range}","uri":"{uri}"}}"#
            )
        };
        let many = vec!["0-1"; 1000].join(",");
        let log = [
            line("bytes=0-65535", "/film.mp4"),
            line("", "/film.ism"),
            line("bytes=0-0", http::READY),
            line(&many, "/film.mp4"),
            line(&"\u{fc}".repeat(100), "/film.mp4"),
            "{\"time\":2".to_owned(),
        ];
        fs::write(folder.path().join("access.log"), log.join("\n")).unwrap();
        let part = Part::of_server(Function::Storage, folder.path());
        let ranges: Vec<&str> = part.responses.iter().map(|response| &*response.range).collect();
        assert_eq!(ranges, ["bytes=0-65535", "", &many[..MAX_RANGE], &"\u{fc}".repeat(MAX_RANGE)]);
        let bytes = part.to_bytes().unwrap();
        assert_eq!(Part::from_bytes(&bytes).unwrap(), part);
        // A part of an earlier version has no ranges, as has one of whole files.
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.matches("\"range\"").count(), 3);
        let without = text.replace("\"range\":\"bytes=0-65535\",", "");
        assert_eq!(Part::from_bytes(without.as_bytes()).unwrap().responses[0].range, "");
    }

    #[test]
    fn a_server_without_a_log_has_no_responses() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Part::of_server(Function::Cache, folder.path()).responses.is_empty());
    }
}
