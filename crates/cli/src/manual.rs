//! `latemux completions` and `latemux man`: describe the command line for shells and for `man`.

use crate::args;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::{fs, path::PathBuf};

/// Print the completions for a shell
///
/// For bash: `latemux completions bash > /etc/bash_completion.d/latemux`. For zsh, write them to
/// a file named `_latemux` in a folder of $fpath. For fish, write them to
/// `~/.config/fish/completions/latemux.fish`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// Shell that will read the completions
    shell: Shell,
}

/// Write the manual pages: one for latemux, and one for each command
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// Folder for the pages, such as /usr/local/share/man/man1
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Prints completions.
pub(crate) fn write_completions(flags: &Completions) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut args::Args::command(), "latemux", &mut text);
    crate::standard_output::say(&String::from_utf8(text)?)
}

/// Writes the manual pages into a folder.
pub(crate) fn write_pages(flags: &Man) -> Result<()> {
    let named = || format!("cannot write manual pages to {}", flags.output.display());
    fs::create_dir_all(&flags.output).with_context(named)?;
    clap_mangen::generate_to(args::Args::command(), &flags.output).with_context(named)
}
