//! The files that people write: experiments, set-ups and titles. Unknown keys are refused.

mod claim;
mod published;
mod scalar;
mod setup;
mod title;

pub use claim::{Claim, Model, Quantity};
pub use published::Published;
pub use scalar::Scalar;
pub use setup::{Entry, Setup};
pub(crate) use title::{ENCODED, bytes_per_second};
pub use title::{Layout, Title};

use crate::Error;
use latemux_quantity::TimeSpan;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, DeserializeOwned},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read as _,
    path::Path,
};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The most repeats of a cell.
const MAX_REPEATS: u32 = 1000;

/// The axis that names set-ups. Every matrix has it.
pub const SETUP: &str = "setup";

/// The axis that names formats. Every matrix has it.
pub const FORMAT: &str = "format";

/// An experiment: what is measured, and what varies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The question, in one sentence.
    pub description: String,
    /// The number of measurements of each cell.
    #[serde(default)]
    pub repeats: Repeats,
    /// The title that is requested.
    pub content: Content,
    /// Parameters of the links of set-ups, by id.
    #[serde(default)]
    pub links: BTreeMap<String, BTreeMap<String, Scalar>>,
    /// Parameters of all origins.
    #[serde(default)]
    pub origin: BTreeMap<String, Scalar>,
    /// The function at the end of each chain: `load` or `player` [default: the one in the set-up].
    pub client: Option<Scalar>,
    /// Parameters of the load.
    #[serde(default)]
    pub load: BTreeMap<String, Scalar>,
    /// Parameters of the player.
    #[serde(default)]
    pub player: BTreeMap<String, Scalar>,
    /// The values of each axis. Texts elsewhere in the file name an axis as `$axis`.
    pub matrix: BTreeMap<String, Vec<Scalar>>,
    /// The values to which axes are limited while durations are scaled, unless the user limits the
    /// axis.
    #[serde(default)]
    pub scaled: BTreeMap<String, Vec<Scalar>>,
    /// The names of the files with published tables, without extension. Results are shown beside
    /// their figures.
    #[serde(default)]
    pub published: Vec<String>,
    /// The statements that the results decide.
    #[serde(default)]
    pub claims: Vec<Claim>,
}

/// The number of measurements of each cell.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "StatedRepeats")]
pub struct Repeats {
    /// The least number.
    pub min: u32,
    /// When a cell is measured more often.
    pub further: Option<Further>,
}

/// The condition on which cells are measured more often than the least number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Further {
    /// The largest number of measurements.
    pub max: u32,
    /// The share of its mean to which half of the 95 % interval of each claim must shrink.
    pub half_width: f64,
}

/// The number of measurements as files state it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatedRepeats {
    min: u32,
    max: Option<u32>,
    half_width: Option<f64>,
}

impl TryFrom<StatedRepeats> for Repeats {
    type Error = String;

    fn try_from(stated: StatedRepeats) -> Result<Self, String> {
        let StatedRepeats { min, max, half_width } = stated;
        if !(1..=MAX_REPEATS).contains(&min) {
            return Err(format!("repeats: min must be from 1 to {MAX_REPEATS}"));
        }
        let further = match (max, half_width) {
            (None, None) => None,
            (Some(max), _) if !(min..=MAX_REPEATS).contains(&max) => {
                return Err(format!("repeats: max must be from min to {MAX_REPEATS}"));
            }
            (Some(max), Some(half_width)) if half_width > 0.0 && half_width <= 1.0 => {
                Some(Further { max, half_width })
            }
            (_, Some(_)) if max.is_some() => {
                return Err("repeats: half_width must be above 0, and at most 1".to_owned());
            }
            _ => return Err("repeats: max and half_width need each other".to_owned()),
        };
        Ok(Self { min, further })
    }
}

impl Repeats {
    /// Returns the largest number of measurements of each cell.
    pub fn most(&self) -> u32 {
        self.further.map_or(self.min, |further| further.max)
    }
}

impl Default for Repeats {
    fn default() -> Self {
        Self { min: 3, further: None }
    }
}

/// Reads a duration such as `4m`.
fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TimeSpan>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// The title that is requested.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// The name of the title's file, without extension.
    pub title: Scalar,
    /// The files in which the title is stored: `mp4` or `fmp4`, or either with index MP4s
    /// (`mp4-index`, `fmp4-index`).
    pub layout: Scalar,
    /// The number of names under which the title is stored, as if it were several titles.
    pub copies: Option<Scalar>,
    /// The length below which the title is not scaled.
    #[serde(default, deserialize_with = "span")]
    pub shortest: Option<TimeSpan>,
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// If the file cannot be read, has an unknown key, or has values that contradict each other.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&text(path)?).map_err(|error| error.within(&path.display().to_string()))
    }

    /// Parses the text of an experiment.
    ///
    /// # Errors
    /// As [`Self::read`], without the name of a file.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let experiment: Self = from_toml(text)?;
        for axis in [SETUP, FORMAT] {
            if !experiment.matrix.contains_key(axis) {
                return Err(Error::invalid(format!("matrix: the axis '{axis}' is missing")));
            }
        }
        for (axis, values) in &experiment.matrix {
            if values.is_empty() {
                return Err(Error::invalid(format!("matrix: the axis '{axis}' has no values")));
            }
            let mut seen = BTreeSet::new();
            if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
                return Err(Error::invalid(format!(
                    "matrix: the axis '{axis}' has the value '{twice}' twice"
                )));
            }
        }
        for (axis, values) in &experiment.scaled {
            if values.is_empty() {
                return Err(Error::invalid(format!("scaled: the axis '{axis}' has no values")));
            }
            for value in values {
                check_value(&experiment.matrix, axis, value).map_err(|error| error.within("scaled"))?;
            }
        }
        experiment.check_references()?;
        for claim in &experiment.claims {
            claim.check(&experiment.matrix)?;
            if claim.fit.is_some() && !experiment.load.contains_key("rate") {
                return Err(Error::invalid(format!("claim '{}': fit needs a load with a rate", claim.text)));
            }
        }
        Ok(experiment)
    }

    /// Returns all values that may name an axis.
    fn values(&self) -> impl Iterator<Item = &Scalar> {
        let content = [&self.content.title, &self.content.layout];
        let functions = [&self.load, &self.player, &self.origin].into_iter().flat_map(BTreeMap::values);
        let content = content.into_iter().chain(&self.content.copies).chain(&self.client);
        content.chain(functions).chain(self.links.values().flat_map(BTreeMap::values))
    }

    /// Checks that values name axes that exist, and that each axis varies something.
    fn check_references(&self) -> Result<(), Error> {
        for value in self.values() {
            if let Some(axis) = value.axis().filter(|axis| !self.matrix.contains_key(*axis)) {
                return Err(Error::invalid(format!("'{value}' names no axis: the matrix has no '{axis}'")));
            }
        }
        for axis in self.matrix.keys().filter(|axis| ![SETUP, FORMAT].contains(&axis.as_str())) {
            if !self.values().any(|value| value.axis() == Some(axis)) {
                return Err(Error::invalid(format!(
                    "matrix: no value refers to the axis '{axis}' as '${axis}'"
                )));
            }
        }
        for (function, parameters) in [("load", &self.load), ("player", &self.player)] {
            let of_others = |name: &&String| ["title", "copies", FORMAT].contains(&name.as_str());
            if let Some(name) = parameters.keys().find(of_others) {
                return Err(Error::invalid(format!(
                    "{function}: remove `{name}`: the experiment states it in [content] or [matrix]"
                )));
            }
        }
        Ok(())
    }
}

/// Checks that a matrix has an axis with a value.
fn check_value(matrix: &BTreeMap<String, Vec<Scalar>>, axis: &str, value: &Scalar) -> Result<(), Error> {
    match matrix.get(axis) {
        None => Err(Error::invalid(format!("the matrix has no axis '{axis}'"))),
        Some(values) if !values.contains(value) => {
            Err(Error::invalid(format!("the axis '{axis}' has no value '{value}'")))
        }
        Some(_) => Ok(()),
    }
}

/// Parses TOML. The error is one line.
fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
        let message = error.message().replace('\n', " ");
        Error::invalid(line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}")))
    })
}

/// Reads a file of bounded size.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    match read {
        Ok(read) if read as u64 > MAX_FILE => {
            Err(Error::invalid(format!("{}: larger than 1 MiB", path.display())))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Error::file(path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = "
description = 'How fast is a cold cache?'
repeats = { min = 3 }
content = { title = 'tears-1200', layout = 'fmp4' }
links = { wan = { rate = '100Mbit/s' } }
load = { kind = 'list', connections = '$connections' }
[matrix]
setup = ['cdn', 'ipp']
format = ['dash', 'hls']
connections = [1, 2]
[[claims]]
text = 'A CDN reads as much as IPP.'
value = 'storage MB'
of = { setup = 'cdn', connections = 1 }
against = { setup = 'ipp' }
at_least = 0.9
at_most = 1.1
";

    fn refused(text: &str, why: &str) {
        let error = Experiment::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn an_experiment_is_read() {
        let experiment = Experiment::parse(RIGHT).unwrap();
        assert_eq!(experiment.matrix["connections"].len(), 2);
        assert_eq!(experiment.links["wan"]["rate"].to_string(), "100Mbit/s");
        let without = RIGHT.replace("repeats = { min = 3 }", "");
        assert_eq!(Experiment::parse(&without).unwrap(), experiment);
    }

    #[test]
    fn experiments_with_mistakes_are_refused_in_one_line() {
        refused(&RIGHT.replace("links", "network"), "line 5: unknown field `network`");
        refused(&RIGHT.replace("layout", "format"), "unknown field `format`");
        refused(&RIGHT.replace("min", "least"), "unknown field `least`");
        for (repeats, why) in [
            ("max = 10", "max and half_width need each other"),
            ("half_width = 0.05", "max and half_width need each other"),
            ("max = 2, half_width = 0.05", "max must be from min to 1000"),
            ("max = 10, half_width = 0.0", "half_width must be above 0"),
            ("max = 10, half_width = nan", "half_width must be above 0"),
        ] {
            refused(&RIGHT.replace("min = 3", &format!("min = 3, {repeats}")), why);
        }
        refused(&RIGHT.replace("min = 3", "min = 0"), "repeats: min must be from 1 to 1000");
        refused(&RIGHT.replace("min = 3", "min = 1001"), "repeats: min must be from 1 to 1000");
        refused(&RIGHT.replace("setup =", "set-up ="), "the axis 'setup' is missing");
        refused(&RIGHT.replace("['cdn', 'ipp']", "[]"), "the axis 'setup' has no values");
        refused(&RIGHT.replace("'ipp'", "'cdn'"), "the axis 'setup' has the value 'cdn' twice");
        refused(&RIGHT.replace("connections = [", "players = ["), "'$connections' names no axis");
        refused(
            &RIGHT.replace("[[claims]]", "players = [1]\n[[claims]]"),
            "no value refers to the axis 'players'",
        );
        refused(&RIGHT.replace("kind = 'list'", "kind = 'list', format = 'hls'"), "remove `format`");
        refused(&RIGHT.replace("[1, 2]", "[[1], [2]]"), "line 10:");
        refused(&RIGHT.replace("[1, 2]", "[1, 2.5]"), "line 10:");
        refused(&RIGHT.replace("storage MB", "storage"), "unknown variant `storage`");
        refused(
            &RIGHT.replace("connections = 1 }", "connections = 3 }"),
            "the axis 'connections' has no value '3'",
        );
        refused(&RIGHT.replace("against = { setup", "against = { set-up"), "the matrix has no axis 'set-up'");
        refused(&RIGHT.replace("at_least = 0.9\nat_most = 1.1", ""), "needs at_least or at_most");
        refused(&RIGHT.replace("at_least", "fit = 'R × S × B'\nat_least"), "fit and against exclude each");
        refused(&RIGHT.replace("against", "fit = 'R × S × B' #"), "fit needs a load with a rate");
        refused(&RIGHT.replace("at_least = 0.9", "at_least = 1.2"), "at_least is above at_most");
        refused(&RIGHT.replace("at_least = 0.9", "at_least = nan"), "at_least is above at_most");
        refused(&RIGHT.replace("[[claims]]", "[scaled]\nplayers = [1]\n[[claims]]"), "no axis 'players'");
        refused(
            &RIGHT.replace("[[claims]]", "[scaled]\nconnections = [3]\n[[claims]]"),
            "scaled: the axis 'connections' has no value '3'",
        );
        refused(
            &RIGHT.replace("[[claims]]", "[scaled]\nconnections = []\n[[claims]]"),
            "scaled: the axis 'connections' has no values",
        );
        refused("x", "line 1:");
    }

    #[test]
    fn a_file_that_is_missing_or_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        assert_eq!(Experiment::read(&path).unwrap_err().reason(), "file");
        fs::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
        assert!(Experiment::read(&path).unwrap_err().to_string().ends_with("x.toml: larger than 1 MiB"));
    }
}
