//! The part of a run that one machine measured, as a file, and the sum of all parts.

use super::{Results, add};
use crate::usage::{Counters, Generator, HostRecord};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Error, ErrorKind, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// Distinguishes the files of parts from other files.
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
    /// False while the run lasts, or if the run was stopped.
    pub complete: bool,
    /// The shard of the run, as `i/N`.
    pub shard: String,
    /// The start in milliseconds since 1970.
    pub started: u64,
    /// The duration in milliseconds.
    pub took: u64,
    /// The names of the machines that measured. Results of older versions have none.
    #[serde(default)]
    pub machines: BTreeSet<String>,
    /// The versions of latemux on these machines. Results of older versions have none.
    #[serde(default)]
    pub versions: BTreeSet<String>,
    /// The options of the run by name. They are the same for all parts.
    pub plan: BTreeMap<String, String>,
    /// The results.
    pub results: Results,
    /// Descriptions of some failures, by reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// The resources that the generator used.
    pub generator: Generator,
    /// The number of connections that were opened.
    #[serde(default)]
    pub connections: u64,
    /// The usage of the machine that generated the load, and of those it watched, by name.
    #[serde(default)]
    pub hosts: BTreeMap<String, HostRecord>,
    /// The metrics of servers before and after the run, by their URL.
    #[serde(default)]
    pub counters: BTreeMap<String, Counters>,
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
            machines: BTreeSet::new(),
            versions: BTreeSet::new(),
            plan,
            results: Results::default(),
            examples: BTreeMap::new(),
            generator: Generator::default(),
            connections: 0,
            hosts: BTreeMap::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Returns the name of the part's file.
    pub fn file_name(&self) -> String {
        format!("part-{}.json", self.shard.replace('/', "-of-"))
    }

    /// Returns true if a file name is that of a part.
    pub fn is_name(name: &str) -> bool {
        name.starts_with("part-") && name.ends_with(".json")
    }

    /// Returns the content of the part's file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidData`] if the content is not a part, or has another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let part: Self = serde_json::from_slice(bytes)?;
        if part.kind != KIND || part.format != FORMAT {
            return Err(Error::new(ErrorKind::InvalidData, "not results of this version of latemux load"));
        }
        Ok(part)
    }

    /// Writes the file to a folder atomically. If that fails, an earlier file is left unchanged.
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
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(MAX_PART).read_to_end(&mut bytes)?;
        Self::from_bytes(&bytes)
    }

    /// Adds another part of the same run. Returns `None` if a sum exceeds 64 bits.
    fn add(&mut self, other: &Self) -> Option<()> {
        self.results.merge(&other.results)?;
        self.results.check_sums()?;
        self.started = self.started.min(other.started);
        self.took = self.took.max(other.took);
        self.machines.extend(other.machines.iter().cloned());
        self.versions.extend(other.versions.iter().cloned());
        for (reason, details) in &other.examples {
            self.examples.entry(reason.clone()).or_default().extend(details.iter().cloned());
        }
        for (name, record) in &other.hosts {
            // Several parts may come from one machine, or watch one.
            self.hosts.entry(name.clone()).or_insert_with(|| record.clone());
        }
        for (url, counters) in &other.counters {
            let known = self.counters.entry(url.clone());
            known.and_modify(|known| known.merge(counters)).or_insert_with(|| counters.clone());
        }
        add(&mut self.connections, other.connections)?;
        let ours = &mut self.generator;
        let theirs = &other.generator;
        ours.saturated = ours.saturated.max(theirs.saturated);
        add(&mut ours.cpu, theirs.cpu)?;
        add(&mut ours.cores, theirs.cores)?;
        add(&mut ours.memory, theirs.memory)?;
        add(&mut ours.waited, theirs.waited)
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
        Self::merge(&folder.display().to_string(), &parts)
    }

    /// Adds up parts, each with the name of its file. `place` names their folder in errors.
    ///
    /// # Errors
    /// If there are no parts, two of them have different plans, or a sum exceeds 64 bits.
    pub fn merge(place: &str, parts: &[(String, Part)]) -> Result<Self, Error> {
        let (_, first) = parts.first().ok_or_else(|| invalid(place, "contains no results (part-*.json)"))?;
        let mut whole = Part::new(first.shard.clone(), first.started, first.plan.clone());
        for (name, part) in parts {
            if whole.plan != part.plan {
                return Err(invalid(name, "belongs to another run: its options differ"));
            }
            whole
                .add(part)
                .ok_or_else(|| invalid(name, "its numbers are too large: a sum exceeds 64 bits"))?;
        }
        let mut notes: Vec<String> = parts.iter().filter_map(|(_, part)| partial(part)).collect();
        let count: usize = first.shard.split('/').nth(1).and_then(|count| count.parse().ok()).unwrap_or(1);
        let shards: BTreeSet<&str> = parts.iter().map(|(_, part)| part.shard.as_str()).collect();
        if shards.len() < count {
            notes.push(format!("{} of {count} parts are missing", count - shards.len()));
        }
        whole.complete = notes.is_empty();
        if count > 1 {
            whole.shard = format!("{} of {count} parts", shards.len());
        }
        Ok(Self { whole, notes })
    }

    /// Makes a run of one part, without looking for the others.
    pub fn single(part: Part) -> Self {
        let notes = partial(&part).into_iter().collect();
        Self { whole: part, notes }
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
    use crate::results::{Counts, Requests};

    fn part(shard: &str, latency: u64) -> Part {
        let mut part =
            Part::new(shard.to_owned(), 1000, BTreeMap::from([("players".to_owned(), "4".to_owned())]));
        part.complete = true;
        let requests = part.results.requests.entry("single".to_owned()).or_default();
        requests.count = 1;
        requests.latency.record(latency);
        part.results.players.started = 1;
        part.generator.memory = 1;
        part
    }

    #[test]
    fn parts_of_a_folder_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Run::read(folder.path()).unwrap_err().to_string().contains("contains no results"));
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
                .contains("part-1-of-2.json: belongs to another run")
        );
        fs::write(folder.path().join("part-1-of-2.json"), "{").unwrap();
        assert!(Run::read(folder.path()).is_err());
    }

    #[test]
    fn machines_and_versions_of_all_parts_are_kept() {
        let named = |shard, machine: &str, version: &str| {
            let mut part = part(shard, 10);
            part.machines.insert(machine.to_owned());
            part.versions.insert(version.to_owned());
            (shard.to_owned(), part)
        };
        let parts = [named("0/2", "b", "0.1.0"), named("1/2", "a", "0.1.0")];
        let whole = Run::merge("", &parts).unwrap().whole;
        assert!(whole.machines.iter().eq(["a", "b"]), "{:?}", whole.machines);
        assert!(whole.versions.iter().eq(["0.1.0"]), "{:?}", whole.versions);
    }

    #[test]
    fn results_from_before_machines_were_named_are_read() {
        let mut json = serde_json::to_value(part("0/1", 10)).unwrap();
        let fields = json.as_object_mut().unwrap();
        assert!(fields.remove("machines").is_some() && fields.remove("versions").is_some());
        let read = Part::from_bytes(json.to_string().as_bytes()).unwrap();
        assert_eq!(read, part("0/1", 10));
    }

    #[test]
    fn parts_whose_sums_exceed_64_bits_are_refused() {
        let refused = |change: fn(&mut Part)| {
            let folder = tempfile::tempdir().unwrap();
            part("0/2", 10).write(folder.path()).unwrap();
            let mut crafted = part("1/2", 10);
            change(&mut crafted);
            crafted.write(folder.path()).unwrap();
            let error = Run::read(folder.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            error.to_string().contains("part-1-of-2.json: its numbers are too large: a sum exceeds 64 bits")
        };
        assert!(refused(|part| part.results.requests.get_mut("single").unwrap().count = u64::MAX));
        assert!(refused(|part| part.results.players.started = u64::MAX));
        assert!(refused(|part| part.generator.memory = u64::MAX));
        assert!(refused(|part| {
            let other = Requests { bytes: u64::MAX, ..Requests::default() };
            part.results.requests.insert("a".to_owned(), other.clone());
            part.results.requests.insert("b".to_owned(), other);
        }));
        assert!(refused(|part| {
            let errors = BTreeMap::from([("a".to_owned(), u64::MAX), ("b".to_owned(), 1)]);
            part.results.requests.get_mut("single").unwrap().errors = errors;
        }));
        assert!(refused(|part| {
            let stalls = u64::MAX;
            part.results.seconds = vec![Counts { stalls, ..Counts::default() }; 2];
        }));
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
