//! A part of a run, which one machine measured, as a file; and the sum of all parts.

use super::Results;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Error, ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// Identifies the files among others in a folder.
const KIND: &str = "latemux-load";

/// The version of the layout of [`Part`]. Other versions are refused.
const FORMAT: u32 = 1;

/// The maximum number of bytes of a part.
pub const MAX_PART: u64 = 256 << 20;

/// The results of one machine, with the plan of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    kind: String,
    format: u32,
    /// False while the run lasts, and if it was stopped.
    pub complete: bool,
    /// The shard of the run, as `i/N`.
    pub shard: String,
    /// The start in milliseconds since 1970.
    pub started: u64,
    /// The duration in milliseconds.
    pub took: u64,
    /// The options of the run by name. They are the same for all parts.
    pub plan: BTreeMap<String, String>,
    /// The results.
    pub results: Results,
    /// Descriptions of some failures, by reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// The resources that the generator used.
    pub generator: Generator,
}

/// The resources that the load generator used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// The processor time in milliseconds.
    pub cpu: u64,
    /// The number of cores it could use.
    pub cores: u64,
    /// The maximum memory in bytes.
    pub memory: u64,
    /// The time that runnable threads waited for a core, in milliseconds.
    #[serde(default)]
    pub waited: u64,
    /// The time in which work and waiting took more than nine tenths of the cores, in milliseconds.
    /// For several machines, the maximum of them.
    #[serde(default)]
    pub saturated: u64,
}

impl Part {
    /// Makes a part without results.
    pub fn new(shard: String, started: u64, plan: BTreeMap<String, String>) -> Self {
        Self {
            kind: KIND.to_owned(),
            format: FORMAT,
            complete: false,
            shard,
            started,
            took: 0,
            plan,
            results: Results::default(),
            examples: BTreeMap::new(),
            generator: Generator::default(),
        }
    }

    /// Returns the name of its file.
    pub fn file_name(&self) -> String {
        format!("part-{}.json", self.shard.replace('/', "-of-"))
    }

    /// Returns true if a file name is that of a part.
    pub fn is_name(name: &str) -> bool {
        name.starts_with("part-") && name.ends_with(".json")
    }

    /// Returns the content of its file.
    ///
    /// # Errors
    /// If serialisation fails, for which no cause is known.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if it is not a part, or has another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let part: Self = serde_json::from_slice(bytes)?;
        if part.kind != KIND || part.format != FORMAT {
            return Err(Error::new(ErrorKind::InvalidData, "not results of this version of latemux load"));
        }
        Ok(part)
    }

    /// Writes the file to a folder, atomically: if that fails, an earlier file stays as it was.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(self.file_name());
        let beside = path.with_extension("json.part");
        let written = fs::File::create(&beside).and_then(|mut file| {
            file.write_all(&self.to_bytes()?)?;
            file.sync_all()
        });
        if let Err(error) = written.and_then(|()| fs::rename(&beside, &path)) {
            // An incomplete file is of no use.
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        Ok(())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// An error of the file system, or those of [`from_bytes`](Self::from_bytes).
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_PART).read_to_end(&mut bytes)?;
        Self::from_bytes(&bytes)
    }
}

/// The sum of the parts of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The sum of all parts. It is complete if no part is missing or partial.
    pub whole: Part,
    /// Sentences about parts that are missing or partial.
    pub notes: Vec<String>,
}

impl Run {
    /// Adds up all parts in a folder.
    ///
    /// # Errors
    /// If the folder has no parts, a part cannot be read, or two parts have different plans.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", folder.display())))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(Part::is_name));
        paths.sort();
        let mut parts = Vec::new();
        for path in &paths {
            let name = path.display().to_string();
            let part = Part::read(path).map_err(|error| invalid(&name, &error.to_string()))?;
            parts.push((name, part));
        }
        Self::merge_named(&folder.display().to_string(), parts)
    }

    /// Adds up parts, each with the name of its file. `place` names their folder in errors.
    ///
    /// # Errors
    /// If there are no parts, or two of them have different plans.
    pub fn merge_named(place: &str, parts: Vec<(String, Part)>) -> Result<Self, Error> {
        let (names, parts): (Vec<String>, Vec<Part>) = parts.into_iter().unzip();
        for (name, part) in names.iter().zip(&parts) {
            if parts.first().is_some_and(|first| first.plan != part.plan) {
                return Err(invalid(name, "a part of another run: its plan differs"));
            }
        }
        Self::merge(&parts).ok_or_else(|| invalid(place, "no results in it (part-*.json)"))
    }

    /// Makes a run of one part, even if it has others.
    pub fn single(part: Part) -> Self {
        let notes = partial(&part).into_iter().collect();
        Self { whole: part, notes }
    }

    /// Adds up parts; `None` if there are none.
    pub fn merge(parts: &[Part]) -> Option<Self> {
        let (first, others) = parts.split_first()?;
        let mut whole = first.clone();
        for part in others {
            whole.results.merge(&part.results);
            whole.started = whole.started.min(part.started);
            whole.took = whole.took.max(part.took);
            for (reason, details) in &part.examples {
                whole.examples.entry(reason.clone()).or_default().extend(details.iter().cloned());
            }
            whole.generator.cpu += part.generator.cpu;
            whole.generator.cores += part.generator.cores;
            whole.generator.memory += part.generator.memory;
            whole.generator.waited += part.generator.waited;
            whole.generator.saturated = whole.generator.saturated.max(part.generator.saturated);
        }
        let mut notes: Vec<String> = parts.iter().filter_map(partial).collect();
        let count: usize = first.shard.split('/').nth(1).and_then(|count| count.parse().ok()).unwrap_or(1);
        let shards: BTreeSet<&str> = parts.iter().map(|part| part.shard.as_str()).collect();
        if shards.len() < count {
            notes.push(format!("{} of {count} parts are missing", count.saturating_sub(shards.len())));
        }
        whole.complete = notes.is_empty();
        if count > 1 {
            whole.shard = format!("{} of {count} parts", shards.len());
        }
        Some(Self { whole, notes })
    }
}

fn invalid(place: &str, why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{place}: {why}"))
}

fn partial(part: &Part) -> Option<String> {
    let why = || format!("part {} was stopped early: its results are partial", part.shard);
    (!part.complete).then(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(shard: &str, latency: u64) -> Part {
        let mut part =
            Part::new(shard.to_owned(), 1000, BTreeMap::from([("players".to_owned(), "4".to_owned())]));
        part.complete = true;
        let requests = part.results.requests.entry("single".to_owned()).or_default();
        requests.count = 1;
        requests.latency.record(latency);
        part
    }

    #[test]
    fn parts_of_a_folder_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Run::read(folder.path()).unwrap_err().to_string().contains("no results"));
        part("1/2", 30).write(folder.path()).unwrap();
        let run = Run::read(folder.path()).unwrap();
        assert_eq!((run.whole.complete, run.notes.len()), (false, 1), "{:?}", run.notes);
        part("0/2", 10).write(folder.path()).unwrap();
        fs::write(folder.path().join("report.json"), "{}").unwrap();
        let run = Run::read(folder.path()).unwrap();
        assert!(run.whole.complete);
        let total = run.whole.results.total();
        assert_eq!((total.count, total.latency.count(), total.latency.max()), (2, 2, 30));

        let mut stopped = part("1/2", 30);
        stopped.complete = false;
        stopped.write(folder.path()).unwrap();
        let run = Run::read(folder.path()).unwrap();
        assert!(
            !run.whole.complete && run.notes[0].contains("part 1/2 was stopped early"),
            "{:?}",
            run.notes
        );

        let mut other = part("1/2", 30);
        other.plan.clear();
        other.write(folder.path()).unwrap();
        assert!(
            Run::read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("part-1-of-2.json: a part of another run")
        );
        fs::write(folder.path().join("part-1-of-2.json"), "{").unwrap();
        assert!(Run::read(folder.path()).is_err());
    }

    #[test]
    fn a_failed_write_keeps_the_earlier_file() {
        let folder = tempfile::tempdir().unwrap();
        let before = part("0/1", 10);
        before.write(folder.path()).unwrap();
        // A folder has the name of the temporary file.
        fs::create_dir(folder.path().join("part-0-of-1.json.part")).unwrap();
        assert!(part("0/1", 20).write(folder.path()).is_err());
        assert_eq!(Part::read(&folder.path().join("part-0-of-1.json")).unwrap(), before);
    }
}
