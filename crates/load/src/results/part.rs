//! A part of a run as a file: what one machine measured.

use super::Results;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Error, ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// What the files are, so that others in the same folder are told from them.
const KIND: &str = "latemux-load";

/// The layout of [`Part`]; others are refused.
const FORMAT: u32 = 1;

/// The most bytes of a part that are read.
pub const MAX_PART: u64 = 256 << 20;

/// What one machine measured, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    kind: String,
    format: u32,
    /// False while the run lasts, and for ever where it was stopped.
    pub complete: bool,
    /// Which part of the run, as `i/N`.
    pub shard: String,
    /// When it started, in milliseconds since 1970.
    pub started: u64,
    /// How long it took, in milliseconds.
    pub took: u64,
    /// The plan: options by name. The same for all parts of a run.
    pub plan: BTreeMap<String, String>,
    /// What was measured.
    pub results: Results,
    /// Some failures in words, by reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// What measuring took.
    pub generator: Generator,
}

/// What the generator itself took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// Processor time, in milliseconds.
    pub cpu: u64,
    /// Cores it could have used.
    pub cores: u64,
    /// The most memory it had, in bytes.
    pub memory: u64,
    /// Time its threads, ready to run, waited for a core, in milliseconds.
    #[serde(default)]
    pub waited: u64,
    /// Time in which work and such waiting took more than nine tenths of its cores, in milliseconds. Of several machines: of the one that
    /// had most.
    #[serde(default)]
    pub saturated: u64,
}

impl Part {
    /// A part of a plan, of which nothing is measured yet.
    #[must_use]
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

    /// Its name in a folder of a run.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("part-{}.json", self.shard.replace('/', "-of-"))
    }

    /// Whether that is a name of a part.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        name.starts_with("part-") && name.ends_with(".json")
    }

    /// As it is written.
    ///
    /// # Errors
    /// None that is known of: what is measured can be written.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(serde_json::to_vec(self)?)
    }

    /// From what was written.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let part: Self = serde_json::from_slice(bytes)?;
        if part.kind != KIND || part.format != FORMAT {
            return Err(Error::new(ErrorKind::InvalidData, "not results of this version of latemux load"));
        }
        Ok(part)
    }

    /// Writes it to a folder: all of it is there, or what was there before.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(self.file_name());
        let beside = path.with_extension("json.part");
        let written = fs::File::create(&beside).and_then(|mut file| {
            file.write_all(&self.bytes()?)?;
            file.sync_all()
        });
        if let Err(error) = written.and_then(|()| fs::rename(&beside, &path)) {
            // What is not whole is of no use.
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        Ok(())
    }

    /// Reads one.
    ///
    /// # Errors
    /// What the file system says, or what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_PART).read_to_end(&mut bytes)?;
        Self::from_bytes(&bytes)
    }
}

/// Parts of one run, added up.
#[derive(Debug, Clone)]
pub struct Run {
    /// What all parts have in common, and the sum of what they measured. Complete where all parts are there and complete.
    pub whole: Part,
    /// Parts that are missing or stopped early, in words.
    pub notes: Vec<String>,
}

impl Run {
    /// Adds up all parts in a folder. The order of files does not matter.
    ///
    /// # Errors
    /// Where there is none, one cannot be read, or two are not of the same plan.
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

    /// Adds up all parts of a place, each with the name of its file.
    ///
    /// # Errors
    /// Where there is none, or two are not of the same plan.
    pub fn merge_named(place: &str, parts: Vec<(String, Part)>) -> Result<Self, Error> {
        let (names, parts): (Vec<String>, Vec<Part>) = parts.into_iter().unzip();
        for (name, part) in names.iter().zip(&parts) {
            if parts.first().is_some_and(|first| first.plan != part.plan) {
                return Err(invalid(name, "a part of another run: its plan differs"));
            }
        }
        Self::merge(&parts).ok_or_else(|| invalid(place, "no results in it (part-*.json)"))
    }

    /// One part by itself, wherever the others are.
    #[must_use]
    pub fn single(part: Part) -> Self {
        let notes = partial(&part).into_iter().collect();
        Self { whole: part, notes }
    }

    /// Adds up parts; `None` where there are none.
    #[must_use]
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
        let there: BTreeSet<&str> = parts.iter().map(|part| part.shard.as_str()).collect();
        if there.len() < count {
            notes.push(format!("{} of {count} parts are missing", count.saturating_sub(there.len())));
        }
        whole.complete = notes.is_empty();
        if count > 1 {
            whole.shard = format!("{} of {count} parts", there.len());
        }
        Some(Self { whole, notes })
    }
}

fn invalid(place: &str, why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{place}: {why}"))
}

fn partial(part: &Part) -> Option<String> {
    let why = || format!("part {} did not end by itself: what it has is partial", part.shard);
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
    fn parts_of_a_folder_add_up() {
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
        assert!(!run.whole.complete && run.notes[0].contains("part 1/2 did not end"), "{:?}", run.notes);

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
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let before = part("0/1", 10);
        before.write(folder.path()).unwrap();
        // Where the new file should be is a folder.
        fs::create_dir(folder.path().join("part-0-of-1.json.part")).unwrap();
        assert!(part("0/1", 20).write(folder.path()).is_err());
        assert_eq!(Part::read(&folder.path().join("part-0-of-1.json")).unwrap(), before);
    }
}
