//! `latemux check`: finds problems in a configuration before a server starts with it.

use crate::{
    cache_folder,
    config::Config,
    disk_space, log,
    serve::{ask, read_tls, read_token},
    standard_output::say,
};
use anyhow::{Context, Result, bail};
use clap::Args;
use latemux_origin::check_keys;
use latemux_storage::check_location;
use std::path::PathBuf;

/// Check a configuration file, and whether its storage answers
///
/// Reads the file as `serve --config FILE` does, reads the files that it names, and, if no
/// problem was found, sends one request to the storage. Prints one line for each problem. If
/// there is none, prints what would be served, and at which addresses. Does not disturb a server
/// that runs with the same file.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Configuration file (TOML)
    #[arg(value_name = "FILE")]
    config: PathBuf,
    /// Do not connect to the storage; local folders are still checked
    #[arg(long)]
    offline: bool,
}

/// Checks a configuration file.
pub(crate) fn run(flags: &Check) -> Result<()> {
    let config = Config::read(&flags.config)?;
    let file = flags.config.display();
    let mut problems = problems(&config);
    if !flags.offline && problems.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        problems.extend(runtime.block_on(ask_storage(&config)).err());
        // Reads that hang must not delay the end.
        runtime.shutdown_background();
    }
    if problems.is_empty() {
        let source = config.without_secrets();
        let from = source.source.as_deref().unwrap_or_default();
        return say(&format!("{file} is valid: serves {from} at {}\n", source.listen));
    }
    for problem in &problems {
        say(&format!("{file}: {problem:#}\n"))?;
    }
    match problems.len() {
        1 => bail!("{file} has a problem"),
        count => bail!("{file} has {count} problems"),
    }
}

/// Returns all problems that a configuration has on this machine.
fn problems(config: &Config) -> Vec<anyhow::Error> {
    let checks = [
        config.check(),
        config.source.as_ref().map(|_| ()).context("source is missing: name a folder, a URL or a bucket"),
        config.tls.as_ref().map_or(Ok(()), |tls| read_tls(tls).map(drop)),
        check_keys(&config.origin).map_err(anyhow::Error::msg),
        config.admin_token_file.as_deref().map_or(Ok(()), |path| read_token(path).map(drop)),
        config.cache.dir.as_deref().map_or(Ok(()), cache_folder::check),
        log::filter(&config.log.filter).map(drop),
    ];
    let mirrors = config.storage.mirror.iter().map(|mirror| &mirror.location);
    let locations = config.source.iter().chain(mirrors).map(|location| Ok(check_location(location)?));
    checks.into_iter().chain(locations).filter_map(Result::err).collect()
}

/// Sends one request to the storage.
async fn ask_storage(config: &Config) -> Result<()> {
    let source = config.source.as_deref().unwrap_or_default();
    let storage = latemux_storage::open_mirrored(source, &config.storage)?;
    disk_space::check(&config.cache);
    ask(&storage).await.context("the storage does not answer")
}
