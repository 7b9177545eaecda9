//! The experiments of a run, in a file of its folder.

use crate::{
    Error,
    experiment::{Claim, Further, Published},
    plan::Planned,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fs, io, path::Path};

/// The name of the file in the folder of a run.
const FILE: &str = "plan.json";

/// The parts of an experiment that its report shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outline {
    /// The question.
    pub description: String,
    /// The factor of the published durations, from 0 to 1.
    pub scale: f64,
    /// The least number of measurements of each cell.
    pub repeats: u32,
    /// When a cell is measured more often.
    #[serde(default)]
    pub further: Option<Further>,
    /// The statements that the results decide.
    pub claims: Vec<Claim>,
    /// The published figures.
    pub published: Vec<Published>,
    /// The commands that repeat the measurements.
    #[serde(default)]
    pub commands: Vec<String>,
}

/// The experiments of a run by name.
pub type Outlines = BTreeMap<String, Outline>;

/// Reads the experiments of a run. A run that was not started yet has none.
///
/// # Errors
/// If the file cannot be read, or holds something else.
pub fn read(run: &Path) -> Result<Outlines, Error> {
    let path = run.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| Error::invalid(format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Outlines::new()),
        Err(error) => Err(Error::file(&path, &error)),
    }
}

/// Adds experiments to those of a run, each with the command that measures it. Commands that have
/// measured other cells of the same experiment are kept.
///
/// # Errors
/// If the file cannot be read or written, or holds something else.
pub fn add<'a>(run: &Path, plans: impl Iterator<Item = (&'a Planned, &'a String)>) -> Result<(), Error> {
    let mut outlines = read(run)?;
    for (plan, command) in plans {
        let known = outlines.get(&plan.name).map(|known| known.commands.clone());
        let mut commands = known.unwrap_or_default();
        if !commands.contains(command) {
            commands.push(command.clone());
        }
        let outline = Outline {
            description: plan.description.clone(),
            scale: plan.scale,
            repeats: plan.repeats.min,
            further: plan.repeats.further,
            claims: plan.claims.clone(),
            published: plan.published.clone(),
            commands,
        };
        outlines.insert(plan.name.clone(), outline);
    }
    let path = run.join(FILE);
    let text = serde_json::to_string_pretty(&outlines).map_err(|error| Error::invalid(error.to_string()))?;
    fs::write(&path, text + "\n").map_err(|error| Error::file(&path, &error))
}
