//! Plans: the cells of experiments, their order, time and disk.

mod buckets;
mod copies;
mod estimate;
mod extent;
mod level;
mod matrix;
mod offered;
mod order;

pub use estimate::Estimate;
pub use extent::Extent;
pub use offered::Offered;
pub use order::block;

use crate::{
    Error,
    content::Choice,
    experiment::{
        self, Claim, Experiment, FORMAT, Layout, Published, Quantity, Repeats, SETUP, Scalar, Setup, Title,
    },
    function::{Function, fraction},
    graph::{Connection, Graph, Node},
    model::predict::Load,
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The most cells of a plan.
pub const MAX_CELLS: usize = 10_000;

/// The bytes of a program that are read at once to hash it.
const HASHED_AT_ONCE: usize = 1 << 20;

/// The number of hexadecimal digits in a key.
const KEY_DIGITS: usize = 12;

/// The parameter with the target duration of segments.
const SEGMENT_DURATION: &str = "segment-duration";

/// The parameter with the size of an origin's range cache.
const CACHE_MEMORY: &str = "cache-memory";

/// Things beside the parameters that a result depends on. The key of a cell contains them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// A hash of the program's file.
    pub program: String,
    /// The way in which hosts are made: `hosts` or `loopback`.
    pub mode: String,
}

impl Conditions {
    /// Returns the conditions of a program that is measured in a mode.
    ///
    /// # Errors
    /// If the program cannot be read.
    pub fn of(program: &Path, mode: &str) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::file(program, &error);
        let mut file = File::open(program).map_err(failed)?;
        let mut hash = Xxh3::new();
        let mut block = vec![0; HASHED_AT_ONCE];
        loop {
            match file.read(&mut block).map_err(failed)? {
                0 => break,
                read => hash.update(&block[..read]),
            }
        }
        Ok(Self { program: format!("{:032x}", hash.digest128()), mode: mode.to_owned() })
    }
}

/// One combination of the values of all axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The name of the experiment's file, without extension.
    pub experiment: String,
    /// The value of each axis.
    pub point: BTreeMap<String, String>,
    /// The functions to start.
    pub graph: Graph,
    /// A hash of what the result depends on: functions, configurations, title, kind of network, and
    /// the measured program. Results with equal keys can be compared.
    pub key: String,
    /// The load that the cell offers, if it has a fixed rate of requests.
    pub offered: Option<Offered>,
}

/// One experiment with its cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The name of the experiment's file, without extension.
    pub name: String,
    /// The question.
    pub description: String,
    /// The number of measurements of each cell.
    pub repeats: Repeats,
    /// All cells, in the order of the matrix.
    pub cells: Vec<Cell>,
    /// The titles that the cells need, each with its layout.
    pub titles: BTreeMap<(String, Layout), Title>,
    /// The segments that loads request by their paths, other than those of the default.
    pub choices: BTreeSet<Choice>,
    /// The statements that the results decide.
    pub claims: Vec<Claim>,
    /// The published figures.
    pub published: Vec<Published>,
    /// The part of the published durations that is measured.
    pub scale: f64,
}

impl Planned {
    /// Returns true if a cell has a player.
    pub fn has_player(&self) -> bool {
        let clients = self.cells.iter().filter_map(|cell| cell.graph.client());
        clients.into_iter().any(|client| client.function == Function::Player)
    }
}

/// The folder with set-ups, titles and published tables.
#[derive(Debug, Clone)]
pub struct Library {
    root: PathBuf,
}

impl Library {
    /// Returns the library at a folder, which holds the folders `setups`, `titles` and `published`.
    /// The configurations of origins lie in `../examples/setups` beside it.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns the library of an experiment's file, which lies in the folder `experiments` of it.
    pub fn beside(experiment: &Path) -> Self {
        let folder = experiment.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self { root: folder.unwrap_or(Path::new(".")).join("..") }
    }

    /// Returns the path of the script that plays titles in a browser.
    pub fn player(&self) -> PathBuf {
        self.root.join("player/play.mjs")
    }

    fn file(&self, folder: &str, name: &str) -> Result<PathBuf, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(Error::invalid(format!("'{name}' is not a name of letters, digits and '-'")));
        }
        Ok(self.root.join(folder).join(format!("{name}.toml")))
    }

    fn setup(&self, name: &str) -> Result<Setup, Error> {
        Setup::read(&self.file("setups", name)?)
    }

    fn title(&self, name: &str) -> Result<Title, Error> {
        Title::read(&self.file("titles", name)?)
    }

    fn published(&self, name: &str, matrix: &BTreeMap<String, Vec<Scalar>>) -> Result<Published, Error> {
        let file = self.file("published", name)?;
        let published = Published::read(&file)?;
        let within = |error: Error| error.within(&file.display().to_string());
        published.check(matrix).map_err(within)?;
        Ok(published)
    }

    fn configuration(&self, name: &str) -> Result<String, Error> {
        experiment::text(&self.file("../examples/setups", name)?)
    }
}

/// Plans the experiment in a file.
///
/// # Errors
/// If the experiment, or a file of the library that it names, cannot be read or is not valid, if
/// there are more than [`MAX_CELLS`] cells, or if `extent` contains none of them.
pub fn plan(
    path: &Path,
    library: &Library,
    conditions: &Conditions,
    extent: &Extent,
) -> Result<Planned, Error> {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let experiment = Experiment::read(path)?;
    let within = |error: Error| error.within(&path.display().to_string());
    cells(name, &experiment, library, conditions, extent).map_err(within)
}

fn cells(
    name: String,
    experiment: &Experiment,
    library: &Library,
    conditions: &Conditions,
    extent: &Extent,
) -> Result<Planned, Error> {
    let mut points = matrix::points(&experiment.matrix)?;
    points.retain(|point| extent.includes(point, &experiment.scaled));
    let mut setups = BTreeMap::new();
    for setup in &experiment.matrix[SETUP] {
        setups.insert(setup.as_str(), library.setup(setup.as_str())?);
    }
    check_links(experiment, setups.values())?;
    let published = experiment.published.iter().map(|name| library.published(name, &experiment.matrix));
    let published = published.collect::<Result<Vec<_>, _>>()?;
    let mut titles = BTreeMap::new();
    let mut choices = BTreeSet::new();
    let mut cells = Vec::new();
    for point in points {
        let title = experiment.content.title.resolve(&point).to_owned();
        let layout: Layout = experiment.content.layout.resolve(&point).parse()?;
        let content = match titles.entry((title.clone(), layout)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(extent.title(library.title(&title)?, experiment.content.shortest))
            }
        };
        let setup = point[SETUP].as_str();
        let graph = graph(experiment, &setups[setup], &point, library, extent, content)
            .map_err(|error| error.within(&format!("set-up {setup}")))?;
        // A pass of the format itself is `before = "same"`.
        let before = graph.client().and_then(|client| client.parameters.get("before"));
        if before.is_some_and(|before| before == point[FORMAT].as_str()) {
            continue;
        }
        let offered = Offered::of(graph.nodes(), content);
        let loads = graph.nodes().iter().filter(|node| node.function == Function::Load);
        let of_loads = loads.flat_map(|load| Choice::all(&load.parameters, point[FORMAT].as_str()));
        choices.extend(of_loads.filter(|own| *own != Choice::default()));
        let key = key(&(&graph, conditions, format!("{content:?}")))?;
        let point = point.into_iter().map(|(axis, value)| (axis.to_owned(), value.to_string())).collect();
        cells.push(Cell { experiment: name.clone(), point, graph, key, offered });
    }
    if cells.is_empty() {
        return Err(Error::invalid("no cell has the chosen values of axes"));
    }
    for claim in &experiment.claims {
        check_model(claim, &cells, &titles)?;
    }
    let Experiment { description, claims, .. } = experiment.clone();
    let repeats = extent.repeats(experiment.repeats);
    let scale = extent.scale;
    Ok(Planned { name, description, repeats, cells, titles, choices, claims, published, scale })
}

/// Checks that the cost model covers the cells of a claim that compares with it.
fn check_model(
    claim: &Claim,
    cells: &[Cell],
    titles: &BTreeMap<(String, Layout), Title>,
) -> Result<(), Error> {
    let find = match claim.value {
        Quantity::StorageRequestsByModel | Quantity::StorageBytesByModel => Load::of,
        Quantity::EfficiencyByModel => Load::repeated,
        _ => return Ok(()),
    };
    let chosen = |cell: &&Cell| {
        claim.of.iter().all(|(axis, value)| cell.point.get(axis).is_some_and(|own| own == value.as_str()))
    };
    for cell in cells.iter().filter(chosen) {
        let nodes = cell.graph.nodes().iter();
        let load = find(&nodes.map(|node| (node.function, &node.parameters)))
            .map_err(|error| error.within(&format!("claim '{}'", claim.text)))?;
        let title = cell.graph.client().and_then(|client| client.parameters.get("title"));
        let own = titles.iter().find(|((name, layout), _)| {
            title.is_some_and(|title| *title == format!("{name}/{}", layout.name()))
        });
        let files = own.map_or(0, |(_, title)| title.video.len());
        let is_stated = match claim.value {
            Quantity::StorageBytesByModel => load.has_bytes(files),
            Quantity::EfficiencyByModel => load.has_efficiency(files),
            _ => load.has_requests(files),
        };
        if !is_stated {
            let what = match claim.value {
                Quantity::StorageRequestsByModel => "requests",
                Quantity::EfficiencyByModel => "efficiency",
                _ => "bytes",
            };
            let why = format!("the cost model does not state the {what} of these segments");
            return Err(Error::invalid(format!("claim '{}': {why}", claim.text)));
        }
    }
    Ok(())
}

/// Checks that each link of the experiment is in a set-up.
fn check_links<'a>(experiment: &Experiment, setups: impl Iterator<Item = &'a Setup>) -> Result<(), Error> {
    let mut links = BTreeSet::new();
    for setup in setups {
        let (nodes, _) = setup.functions()?;
        links.extend(nodes.into_iter().filter(|node| node.function == Function::Link).map(|node| node.id));
    }
    match experiment.links.keys().find(|id| !links.contains(*id)) {
        Some(id) => Err(Error::invalid(format!("links: no set-up has a link '{id}'"))),
        None => Ok(()),
    }
}

/// Makes the graph of a cell: the set-up with the values of the experiment.
fn graph(
    experiment: &Experiment,
    setup: &Setup,
    point: &BTreeMap<&str, &Scalar>,
    library: &Library,
    extent: &Extent,
    title: &Title,
) -> Result<Graph, Error> {
    let (mut nodes, mut connections) = setup.functions()?;
    if let Some(client) = &experiment.client {
        let client = Function::named(client.resolve(point)).map_err(|error| error.within("client"))?;
        set_client(client, &mut nodes, &mut connections)?;
    }
    let name = experiment.content.title.resolve(point);
    let stored = format!("{name}/{}", experiment.content.layout.resolve(point));
    let copies = experiment.content.copies.as_ref().map(|copies| copies.resolve(point));
    for node in &mut nodes {
        let parameters = &mut node.parameters;
        let mut add = |name: &str, value: &str| {
            let old = parameters.insert(name.to_owned(), value.to_owned());
            let stated =
                || Error::invalid(format!("'{}': remove `{name}`: the experiment states it", node.id));
            old.map_or(Ok(()), |_| Err(stated()))
        };
        match node.function {
            Function::Storage => {
                add("content", &stored)?;
                copies.map_or(Ok(()), |copies| add("copies", copies))?;
            }
            Function::Link => {
                for (name, value) in experiment.links.get(&node.id).into_iter().flatten() {
                    add(name, value.resolve(point))?;
                }
            }
            Function::Load | Function::Player => {
                let stated =
                    if node.function == Function::Load { &experiment.load } else { &experiment.player };
                for (name, value) in stated {
                    add(name, value.resolve(point))?;
                }
                add("title", &stored)?;
                copies.map_or(Ok(()), |copies| add("copies", copies))?;
                let format = point[FORMAT].as_str();
                add(FORMAT, format)?;
                let duration = experiment.origin.get(SEGMENT_DURATION).map(|value| value.resolve(point));
                if requests_paths(stated, point) {
                    duration.map_or(Ok(()), |duration| add(SEGMENT_DURATION, duration))?;
                }
                if stated.contains_key("rate") {
                    add("segments", &offered::whole_segments(title, format, duration).to_string())?;
                }
                level::split(parameters)?;
                extent.load(parameters)?;
            }
            Function::Origin => {
                for (name, value) in &experiment.origin {
                    add(name, value.resolve(point))?;
                }
                // The document of a cell is complete: it holds the text of the configuration.
                if let Some(config) = parameters.get_mut("config") {
                    *config = library.configuration(config)?;
                }
                if let Some(size) = parameters.get_mut(CACHE_MEMORY)
                    && let Ok(share) = fraction(size)
                {
                    let copies = copies.and_then(|copies| copies.parse().ok()).unwrap_or(1);
                    *size = of_catalogue(share, title, copies).to_string();
                }
            }
            Function::Cache | Function::Balance => {}
        }
    }
    if setup.copy_per_connection {
        copies::for_connections(&mut nodes);
    }
    let graph = Graph::new(nodes, connections)?;
    buckets::check(&graph)?;
    Ok(graph)
}

/// Replaces the load of a set-up by another client, which is then called like its function.
fn set_client(client: Function, nodes: &mut [Node], connections: &mut [Connection]) -> Result<(), Error> {
    if !client.is_client() {
        return Err(Error::invalid(format!("client: '{client}' is neither load nor player")));
    }
    for node in nodes.iter_mut().filter(|node| node.function.is_client() && node.function != client) {
        for connection in connections.iter_mut().filter(|connection| connection.to == node.id) {
            client.name().clone_into(&mut connection.to);
        }
        client.name().clone_into(&mut node.id);
        node.function = client;
    }
    Ok(())
}

/// Returns true if a load requests segments by paths that are known beforehand, not those that a
/// manifest states.
fn requests_paths(load: &BTreeMap<String, Scalar>, point: &BTreeMap<&str, &Scalar>) -> bool {
    let value = |name: &str| load.get(name).map(|value| value.resolve(point));
    matches!(value("kind"), Some("list" | "single")) || value("before").is_some_and(|before| before != "none")
}

/// Returns a share of the bytes of all copies of a title.
fn of_catalogue(share: f64, title: &Title, copies: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let bytes = (share * title.bytes() as f64 * copies as f64) as u64;
    bytes
}

/// Hashes a value.
fn key(value: &impl Serialize) -> Result<String, Error> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::invalid(error.to_string()))?;
    let mut digits = format!("{:032x}", xxh3_128(&bytes));
    digits.truncate(KEY_DIGITS);
    Ok(digits)
}

#[cfg(test)]
mod tests;
