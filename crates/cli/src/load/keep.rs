//! The folder of a run.

use anyhow::{Context, Result};
use latemux_load::results::Part;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the results go.
pub(super) struct Keep(PathBuf);

impl Keep {
    /// Makes the folder if it is not there.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder.to_owned()))
    }

    /// What is there of the part until now.
    pub(super) fn write(&self, part: &Part) -> Result<()> {
        part.write(&self.0)
            .with_context(|| format!("cannot write {}", self.0.join(part.file_name()).display()))
    }
}
