//! Measures inputs of the target `cost` in code that is not instrumented.
//!
//! `cost FILE…` prints what they cost, the dearest last. `cost --search SECONDS FOLDER` changes the
//! inputs in a folder at random for some seconds of CPU time, and adds those that cost more than
//! any before in some stage, in time or in memory. `cost --worst COUNT FOLDER` prints the inputs in
//! a folder that cost the most time, and those that take the most memory, with their bytes.

#[path = "../measure.rs"]
mod measure;

use bytes::Bytes;
use latemux_testmedia::hostile::HostileFile;
use measure::{Cost, Counting, costs, cpu_nanos};
use std::{collections::BTreeMap, fs, path::Path};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [search, seconds, folder] if search == "--search" => {
            search_in(Path::new(folder), seconds.parse().expect("a number of seconds"))
        }
        [worst, count, folder] if worst == "--worst" => {
            print_worst(Path::new(folder), count.parse().expect("a number of inputs"))
        }
        files => print(files),
    }
}

fn object(input: &[u8]) -> Bytes {
    match input.split_first() {
        Some((255, file)) => file.to_vec().into(),
        _ => HostileFile::from_bytes(input).write().into(),
    }
}

/// An input with its cost.
struct Measured {
    path: String,
    input: Vec<u8>,
    /// Size of the file in bytes.
    size: usize,
    stages: Vec<(String, Cost)>,
    /// Index, title and the dearest manifest together.
    whole: Cost,
}

impl Measured {
    fn read(path: String) -> std::io::Result<Self> {
        let input = fs::read(&path)?;
        let object = object(&input);
        let stages = costs(&object);
        let (base, manifests) = stages.split_at(stages.len().min(2));
        let nanos = base.iter().map(|(_, cost)| cost.nanos).sum::<u64>()
            + manifests.iter().map(|(_, cost)| cost.nanos).max().unwrap_or(0);
        let bytes = stages.iter().map(|(_, cost)| cost.bytes).max().unwrap_or(0);
        Ok(Self { path, input, size: object.len(), stages, whole: Cost { nanos, bytes } })
    }

    fn print(&self) {
        let figures = |cost: &Cost| {
            format!("{:.1} ms, {:.1} MiB", cost.nanos as f64 / 1e6, cost.bytes as f64 / 1_048_576.0)
        };
        println!("{}: {} bytes, {}", self.path, self.size, figures(&self.whole));
        let dear = |cost: &Cost| cost.nanos > 2_000_000 || cost.bytes > 4 << 20;
        for (stage, cost) in self.stages.iter().filter(|(_, cost)| dear(cost)) {
            println!("    {stage}: {}", figures(cost));
        }
        println!("    {:?}", HostileFile::from_bytes(&self.input));
    }
}

fn print(files: &[String]) -> std::io::Result<()> {
    let rows: std::io::Result<Vec<_>> = files.iter().cloned().map(Measured::read).collect();
    let mut rows = rows?;
    rows.sort_by_key(|row| row.whole.nanos);
    rows.iter().for_each(Measured::print);
    Ok(())
}

/// Prints the worst inputs of a folder. The time of an input is the least of three measurements,
/// because another process may have slowed one of them down.
fn print_worst(folder: &Path, count: usize) -> std::io::Result<()> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder)? {
        rows.push(Measured::read(entry?.path().display().to_string())?);
    }
    println!("{} inputs", rows.len());
    rows.sort_by_key(|row| std::cmp::Reverse(row.whole.nanos));
    for row in rows.iter_mut().take(4 * count) {
        for _ in 0..2 {
            let again = Measured::read(row.path.clone())?;
            if again.whole.nanos < row.whole.nanos {
                *row = again;
            }
        }
    }
    let times = |row: &Measured| row.whole.nanos;
    let bytes = |row: &Measured| row.whole.bytes as u64;
    let kinds: [(&str, &dyn Fn(&Measured) -> u64); 2] = [("time", &times), ("memory", &bytes)];
    for (what, cost) in kinds {
        println!("\nthe most {what}:");
        rows.sort_by_key(|row| std::cmp::Reverse(cost(row)));
        for row in rows.iter().take(count) {
            row.print();
            println!("    {:?}", row.input);
        }
    }
    Ok(())
}

/// A generator of pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize % limit.max(1)
    }
}

fn search_in(folder: &Path, seconds: u64) -> std::io::Result<()> {
    let mut known: Vec<Vec<u8>> = Vec::new();
    for entry in fs::read_dir(folder)? {
        known.push(fs::read(entry?.path())?);
    }
    let mut random = Random(cpu_nanos());
    println!("seed {}", random.0);
    let mut highest: BTreeMap<String, u64> = BTreeMap::new();
    let mut tried = 0_u64;
    while cpu_nanos() < seconds * 1_000_000_000 {
        let mut input = known[random.below(known.len())].clone();
        let other = &known[random.below(known.len())];
        if random.below(8) == 0 && !other.is_empty() {
            let at = random.below(input.len() + 1);
            input.splice(at.., other[random.below(other.len())..].iter().copied());
        }
        for _ in 0..=random.below(6) {
            let at = random.below(input.len().max(1));
            let byte = random.below(255) as u8;
            match random.below(5) {
                0 => input.insert(at.min(input.len()), byte),
                1 if input.len() > 2 => drop(input.remove(at)),
                2 if at < input.len() => input[at] = input[at].saturating_add(1),
                _ if at < input.len() => input[at] = byte,
                _ => {}
            }
        }
        input.truncate(512);
        tried += 1;
        let better = record(&mut highest, &costs(&object(&input)));
        if let Some(what) = better {
            println!("{tried}: {what}");
            fs::write(folder.join(format!("{:016x}", hash(&input))), &input)?;
            known.push(input);
        }
    }
    println!("{tried} inputs");
    highest.iter().for_each(|(what, value)| println!("{what}: {value}"));
    Ok(())
}

/// Records the costs that exceed all before by a twentieth. Returns one of them.
fn record(highest: &mut BTreeMap<String, u64>, stages: &[(String, Cost)]) -> Option<String> {
    let mut better = None;
    for (stage, cost) in stages {
        let values = [("us", cost.nanos / 1000), ("KiB", cost.bytes as u64 / 1024)];
        for (unit, value) in values {
            let best = highest.entry(format!("{stage}, {unit}")).or_default();
            if value > *best + *best / 20 && value > 500 {
                *best = value;
                better = Some(format!("{stage}: {value} {unit}"));
            }
        }
    }
    better
}

/// Returns a hash of bytes (FNV-1a).
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
