//! `latemux lab`: published experiments on late transmuxing.

mod engine;
mod task_command;

use crate::{signals::stop_signal, standard_output::say};
use anyhow::{Context, Result, bail, ensure};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use latemux_lab::{
    clean::{Cleaned, clean},
    driver::{Driver, Record, Records},
    machine::Machine,
    nbmp::{MAX_DOCUMENT, Task, Workflow},
    outline,
    plan::{Cell, Conditions, Estimate, Extent, Library, Planned, plan},
    report, task,
};
use latemux_link::network::{Enclosure, has_entered};
use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs,
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// The program's version, which `machine.json` states.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The most characters of a column.
const WIDEST: usize = 24;

/// The default of `--seed`.
const DEFAULT_SEED: u64 = 1;

/// The default of `--retries`.
const DEFAULT_RETRIES: u32 = 2;

/// Repeat the published experiments on late transmuxing
///
/// An experiment is a TOML file that states what varies. Each combination of values is a cell.
/// One workflow document (NBMP) describes it: its set-up, with the values of the experiment. A
/// set-up is a chain of functions from storage to client, such as an origin behind a cache.
#[derive(Debug, ClapArgs)]
pub(crate) struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(Plan),
    Run(Run),
    Report(Report),
    Submit(engine::Submit),
    Serve(engine::Serve),
    Task(task_command::RunTask),
    Clean(Clean),
}

/// List the cells of experiments, and the time and disk that they take
#[derive(Debug, ClapArgs)]
struct Plan {
    #[command(flatten)]
    experiments: Experiments,
    /// Folder for the documents of each cell: KEY.wdd, and KEY-FUNCTION.tdd
    #[arg(long, value_name = "DIR")]
    documents: Option<PathBuf>,
    /// How functions would reach each other; the keys of cells depend on it
    #[arg(long, value_enum, default_value_t = Net::Auto, value_name = "MODE")]
    net: Net,
}

/// Measure the cells of experiments on this machine
///
/// Each function except a link runs in processes of its own on a simulated host, which is a network
/// namespace. Links between hosts are simulated. Without the right to make namespaces, all
/// functions share 127.0.0.1, and links are TCP relays. Each result is a line of cells.jsonl in the
/// folder of the results. If the run was stopped or killed, run the same command again: it measures
/// the missing cells, and those that failed.
#[derive(Debug, ClapArgs)]
struct Run {
    #[command(flatten)]
    experiments: Experiments,
    /// Folder for the results
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Folder for titles, which are made once [default: `content` in the folder of --out]
    #[arg(long, value_name = "DIR")]
    content: Option<PathBuf>,
    /// Random seed of the order in which the cells of a block are measured
    #[arg(long, default_value_t = DEFAULT_SEED, value_name = "NUMBER")]
    seed: u64,
    /// Most times that a disturbed or generator-bound measurement is repeated
    ///
    /// A measurement is disturbed if other programs took more than a tenth of the processor time,
    /// and generator-bound if the load lacked processor time for more than a tenth of its duration.
    /// The last attempt counts in any case, and the report marks it.
    #[arg(long, default_value_t = DEFAULT_RETRIES, value_name = "N")]
    retries: u32,
    /// Program `latemux` whose origin and load are measured, such as another version [default: this
    /// one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    player: PlayerScript,
    /// How functions reach each other
    #[arg(long, value_enum, default_value_t = Net::Auto, value_name = "MODE")]
    net: Net,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Net {
    /// `hosts` if this user may make network namespaces, else `loopback`
    Auto,
    /// Each host is a network namespace
    Hosts,
    /// All functions share 127.0.0.1
    Loopback,
}

/// Sum up the results of a run in report.html and CSV files
///
/// summary.csv has a line for each cell, cells.csv for each measurement, and claims.csv for each
/// claim. If a claim is about a fit, fits.csv has a line for each cell of the fit. If a cell was
/// measured repeatedly, the report states the mean and half the width of its 95 % confidence
/// interval (Student's t). The verdict of a claim is `holds`, `open` or `contradicts`. All files
/// are written to the first folder.
#[derive(Debug, ClapArgs)]
struct Report {
    /// Folders that `lab run --out` wrote, one for each machine
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
}

/// Remove what a run that was killed has not completed, and end its processes
///
/// The kernel normally ends the processes of a killed run. This command ends those that still run,
/// if the run has recorded them with the same start time. It therefore also ends a run that is not
/// finished. Results and complete titles are kept.
#[derive(Debug, ClapArgs)]
struct Clean {
    /// Folder that `lab run --out` wrote
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Folder with titles [default: `content` in RUN]
    #[arg(long, value_name = "DIR")]
    content: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
struct PlayerScript {
    /// Script that plays titles in a browser, for the function `player` [default: with `lab run`,
    /// `player/play.mjs` in the folder of `--library`; with `lab task`, none]
    #[arg(long, value_name = "FILE")]
    player: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
struct Experiments {
    /// Experiments, such as lab/experiments/f-cold.toml
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder with `setups`, `titles` and `published`; the configurations of origins are in
    /// `examples/setups` beside this folder [default: the parent of the folder that holds FILE]
    #[arg(long, value_name = "DIR")]
    library: Option<PathBuf>,
    /// Factor by which to multiply durations, ramps, steps, numbers of requests and lengths of
    /// titles, above 0 and at most 1
    ///
    /// A duration or ramp is not scaled to less than 5 s, a step to less than 1 s, a number of
    /// requests to less than 50, and a title to less than 24 s or its `shortest`. With a factor
    /// below 1, two more things change. Only the least number of blocks is measured. An axis in
    /// `[scaled]` of an experiment has only the values stated there, unless `--only` names it.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    scale: f64,
    /// Use only the cells with these values of an axis; can be repeated
    #[arg(long, value_name = "AXIS=VALUE,…")]
    only: Vec<String>,
}

impl Experiments {
    /// Returns the part of the experiments that is measured.
    fn extent(&self) -> Result<Extent> {
        ensure!(self.scale > 0.0 && self.scale <= 1.0, "--scale must be above 0, and at most 1");
        let mut only = BTreeMap::new();
        for text in &self.only {
            let (axis, values) =
                text.split_once('=').with_context(|| format!("--only {text}: not AXIS=VALUE"))?;
            only.insert(axis.to_owned(), values.split(',').map(str::to_owned).collect());
        }
        Ok(Extent { scale: self.scale, only })
    }

    /// Returns the command that measures the cells of each experiment.
    fn commands(&self, run: &Run) -> Vec<String> {
        let mut flags = String::new();
        let mut add = |name: &str, value: &str| flags += &format!(" {name} {}", shell_word(value));
        if self.scale < 1.0 {
            add("--scale", &self.scale.to_string());
        }
        self.only.iter().for_each(|only| add("--only", only));
        if let Some(library) = &self.library {
            add("--library", &library.display().to_string());
        }
        if run.seed != DEFAULT_SEED {
            add("--seed", &run.seed.to_string());
        }
        if run.retries != DEFAULT_RETRIES {
            add("--retries", &run.retries.to_string());
        }
        if let Some(net) = run.net.stated() {
            add("--net", net);
        }
        let file = |file: &PathBuf| shell_word(&file.display().to_string());
        self.files.iter().map(|path| format!("latemux lab run {}{flags} --out run/", file(path))).collect()
    }

    fn plan(&self, conditions: &Conditions) -> Result<Vec<Planned>> {
        let extent = self.extent()?;
        let planned = |file: &PathBuf| Ok(plan(file, &self.library(file), conditions, &extent)?);
        self.files.iter().map(planned).collect()
    }

    /// Returns the library of an experiment.
    fn library(&self, file: &Path) -> Library {
        self.library.clone().map_or_else(|| Library::beside(file), Library::new)
    }
}

impl Net {
    /// Returns the value of the flag, unless it is the default.
    fn stated(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Hosts => Some("hosts"),
            Self::Loopback => Some("loopback"),
        }
    }
}

/// Returns a text as one word of a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/.,:=_%+-".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Runs a command of the lab.
pub(crate) fn run(lab: &Lab) -> Result<()> {
    match &lab.command {
        Command::Plan(flags) => show_plan(flags),
        Command::Run(flags) => measure(flags),
        Command::Report(flags) => write_report(flags),
        Command::Submit(flags) => engine::send(flags),
        Command::Serve(flags) => engine::serve(flags),
        Command::Task(flags) => task_command::run(flags),
        Command::Clean(flags) => remove_leftovers(flags),
    }
}

/// Returns the name of the kind of network: `hosts` if functions have simulated hosts, else
/// `loopback`.
fn mode(has_hosts: bool) -> &'static str {
    if has_hosts { "hosts" } else { "loopback" }
}

/// Enters namespaces in which hosts can be made: this program starts again in them.
fn enter(net: Net) -> Result<Option<Enclosure>> {
    match net {
        Net::Loopback => Ok(None),
        Net::Hosts => Ok(Some(Enclosure::enter().context("--net hosts")?)),
        Net::Auto => match Enclosure::check() {
            Err(why) if !has_entered() => {
                say(&format!("the network is loopback, because namespaces cannot be made: {why}\n"))?;
                Ok(None)
            }
            _ => Ok(Some(Enclosure::enter()?)),
        },
    }
}

/// Returns a flag that is set at the first signal to stop.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signal = runtime.block_on(async { stop_signal() })?;
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    // Processes are killed when the thread that has started them ends. The main thread therefore
    // starts them, and another one waits for the signal.
    thread::spawn(move || {
        runtime.block_on(signal);
        set.store(true, Relaxed);
    });
    Ok(flag)
}

fn measure(flags: &Run) -> Result<()> {
    if !has_entered() {
        // Mistakes are reported before anything starts.
        flags.experiments.plan(&Conditions { program: String::new(), mode: String::new() })?;
    }
    let enclosure = enter(flags.net)?;
    let program = program(flags.program.as_deref())?;
    let conditions = Conditions::of(&program, mode(enclosure.is_some()))?;
    let plans = flags.experiments.plan(&conditions)?;
    let content = flags.content.clone().unwrap_or_else(|| flags.out.join("content"));
    check_disk(&flags.out, &content, &plans)?;
    let stop = stop_flag()?;
    fs::create_dir_all(&content).with_context(|| content.display().to_string())?;
    fs::create_dir_all(&flags.out).with_context(|| flags.out.display().to_string())?;
    let machine = Machine::this(VERSION, &conditions.mode);
    // A folder without records has no dates yet.
    let dated = |records: &[Record]| machine.clone().dated(records.iter().filter_map(|record| record.began));
    dated(&Records::read(&flags.out).unwrap_or_default()).write(&flags.out)?;
    let commands = flags.experiments.commands(flags);
    outline::add(&flags.out, plans.iter().zip(&commands))?;
    let driver = Driver {
        latemux: env::current_exe()?,
        program,
        retries: flags.retries,
        run: fs::canonicalize(&flags.out)?,
        content: fs::canonicalize(content)?,
        player: player(flags, &plans),
        enclosure: enclosure.as_ref(),
        needs_more: report::needs_more,
        stop: &stop,
    };
    for cell in plans.iter().flat_map(|plan| &plan.cells) {
        if let Some(why) = driver.lacks(cell) {
            say(&format!("{} {} skipped: {why}\n", cell.experiment, cell.key))?;
        }
    }
    let mut told = Ok(());
    let mut report = |line: &str| told = say(&format!("{line}\n"));
    let records = driver.run(&plans, flags.seed, &mut report)?;
    dated(&records.records).write(&flags.out)?;
    told?;
    if stop.load(Relaxed) {
        bail!("stopped: run the same command again to measure what is missing");
    }
    let driver = &driver;
    let cells = plans.iter().map(|plan| (plan.repeats.min, &plan.cells));
    let missing = cells.flat_map(|(repeats, cells)| {
        let measurable = cells.iter().filter(|cell| driver.lacks(cell).is_none());
        measurable.flat_map(move |cell| (0..repeats).map(move |repeat| (cell, repeat)))
    });
    let missing = missing.filter(|(cell, repeat)| !records.has(cell, *repeat)).count();
    let results = flags.out.join("cells.jsonl");
    ensure!(
        missing == 0,
        "{missing} measurements failed, for the reasons in {}: run the same command again to repeat them",
        results.display()
    );
    Ok(())
}

/// Checks that the disks have room for titles and caches.
fn check_disk(out: &Path, content: &Path, plans: &[Planned]) -> Result<()> {
    let Estimate { disk, titles, .. } = Estimate::of(plans);
    let (Some((own, free)), Some((of_titles, free_for_titles))) = (free_space(out), free_space(content))
    else {
        return Ok(());
    };
    let check = |folder: &Path, needed: u64, free: u64| {
        let size = |bytes: u64| match bytes {
            0..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
            _ => format!("{:.1} GB", bytes as f64 / 1e9),
        };
        let (folder, needed_size, free_size) = (folder.display(), size(needed), size(free));
        let advice = "name another folder by --out or --content, or a smaller --scale";
        ensure!(needed <= free, "{folder}: needs {needed_size} of disk, but {free_size} are free: {advice}");
        Ok(())
    };
    if own == of_titles {
        return check(out, disk, free);
    }
    check(content, titles, free_for_titles)?;
    check(out, disk - titles, free)
}

/// Returns the file system of a folder, which may not exist yet, and its free bytes.
fn free_space(folder: &Path) -> Option<(u64, u64)> {
    let existing =
        folder.ancestors().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    let existing = existing.into_iter().find(|path| path.exists())?;
    let system = rustix::fs::statvfs(existing).ok()?;
    Some((fs::metadata(existing).ok()?.dev(), system.f_bavail.saturating_mul(system.f_frsize)))
}

fn write_report(flags: &Report) -> Result<()> {
    let run = report::Run::read(&flags.runs)?;
    let folder = &flags.runs[0];
    let mut files = vec![
        ("summary.csv", report::summary(&run.records)),
        ("cells.csv", report::measurements(&run.records)),
        ("claims.csv", report::claims(&run)),
        ("report.html", report::page(&run)),
    ];
    files.extend(run.fits().map(|fits| ("fits.csv", fits)));
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let mut text = String::new();
    for experiment in run.outlines.keys() {
        for judged in run.verdicts(experiment) {
            writeln!(text, "{experiment}: {}: {}", judged.verdict.name(), judged.claim.text)?;
        }
    }
    writeln!(text, "{} measurements: {}", run.records.len(), folder.join("report.html").display())?;
    say(&text)
}

/// Returns the path of the program that is measured.
fn program(stated: Option<&Path>) -> Result<PathBuf> {
    match stated {
        Some(path) => fs::canonicalize(path).with_context(|| path.display().to_string()),
        None => Ok(env::current_exe()?),
    }
}

/// Returns the script that plays titles in a browser, or the reason why it cannot. The script is
/// checked only if a cell has a player.
fn player(flags: &Run, plans: &[Planned]) -> Result<PathBuf, String> {
    let library = || flags.experiments.files.first().map(|file| flags.experiments.library(file).player());
    let script = flags.player.player.clone().or_else(library).unwrap_or_default();
    if plans.iter().any(Planned::has_player) {
        task::check_player(&script)?;
    }
    // Tasks run in other folders.
    fs::canonicalize(&script).map_err(|error| format!("{}: {error}", script.display()))
}

/// Reads a document of bounded size.
fn read_document(path: &Path) -> Result<Vec<u8>> {
    let mut document = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_DOCUMENT as u64 + 1).read_to_end(&mut document))
        .with_context(|| path.display().to_string())?;
    Ok(document)
}

fn remove_leftovers(flags: &Clean) -> Result<()> {
    let content = flags.content.clone().unwrap_or_else(|| flags.run.join("content"));
    let Cleaned { processes, folders } = clean(&flags.run, &content)?;
    let mut text = String::new();
    if processes > 0 {
        writeln!(text, "processes ended: {processes}")?;
    }
    for folder in &folders {
        writeln!(text, "removed: {}", folder.display())?;
    }
    if text.is_empty() {
        text.push_str("nothing to remove\n");
    }
    say(&text)
}

fn show_plan(flags: &Plan) -> Result<()> {
    let has_hosts = match flags.net {
        Net::Auto => Enclosure::check().is_ok(),
        net => net == Net::Hosts,
    };
    let mode = mode(has_hosts);
    let plans = flags.experiments.plan(&Conditions::of(&env::current_exe()?, mode)?)?;
    if let Some(folder) = &flags.documents {
        for cell in plans.iter().flat_map(|plan| &plan.cells) {
            write_documents(folder, cell)?;
        }
    }
    let mut text = String::new();
    for plan in &plans {
        writeln!(text, "{}: {}", plan.name, plan.description)?;
        let most = plan.repeats.further.map_or_else(String::new, |further| format!(" to {}", further.max));
        writeln!(text, "{} cells, {}{most} times each", plan.cells.len(), plan.repeats.min)?;
        table(&mut text, &plan.cells)?;
        text.push('\n');
    }
    let Estimate { time, disk, .. } = Estimate::of(&plans);
    let cells: usize = plans.iter().map(|plan| plan.cells.len()).sum();
    let at_least = if plans.iter().any(|plan| plan.repeats.further.is_some()) { "at least " } else { "" };
    writeln!(text, "keys: those of lab run --net {mode} with this program")?;
    writeln!(text, "{cells} cells, {at_least}{}, {:.1} GB of disk", hours(time), disk as f64 / 1e9)?;
    say(&text)
}

/// Writes the workflow document of a cell, and a task document for each of its functions. Names
/// stand for addresses, because these are known only when the functions start.
fn write_documents(folder: &Path, cell: &Cell) -> Result<()> {
    let workflow = Workflow::new(
        format!("lab-{}-r1", cell.key),
        format!("One cell of the experiment {}", cell.experiment),
        cell.graph.clone(),
    )?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let write = |name: String, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write(format!("{}.wdd", cell.key), workflow.to_json()?)?;
    let tasks = Task::of(&workflow, |from, port| format!("http://{from}-{port}/"));
    for (task, node) in tasks.iter().zip(workflow.graph.nodes()) {
        write(format!("{}-{}.tdd", cell.key, node.id), task.to_json()?)?;
    }
    Ok(())
}

/// Writes a line for each cell: its key, and the value of each axis.
fn table(text: &mut String, cells: &[Cell]) -> Result<()> {
    let Some(first) = cells.first() else { return Ok(()) };
    let axes: Vec<&String> = first.point.keys().collect();
    let width = |axis: &String| {
        let values = cells.iter().map(|cell| cell.point[axis].len());
        values.chain([axis.len()]).max().unwrap_or(0).min(WIDEST)
    };
    let widths: Vec<usize> = axes.iter().map(|axis| width(axis)).collect();
    let mut line = |key: &str, values: &mut dyn Iterator<Item = &str>| {
        let mut line = format!("{key:<12}");
        for (value, width) in values.zip(&widths) {
            let _ = write!(line, "  {value:<width$}");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line("key", &mut axes.iter().map(|axis| axis.as_str()));
    for cell in cells {
        line(&cell.key, &mut axes.iter().map(|axis| cell.point[*axis].as_str()));
    }
    Ok(())
}

/// Returns a duration as hours and minutes.
fn hours(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match minutes / 60 {
        0 => format!("{minutes} min"),
        hours => format!("{hours} h {} min", minutes % 60),
    }
}
