//! `latemux keys`: makes a file of random keys for encrypted titles, or lists the keys of a title.

use crate::{config::Config, standard_output::say};
use anyhow::{Context, Result, anyhow};
use clap::Args as ClapArgs;
use latemux_origin::{Origin, check_keys};
use latemux_packager::{Protection, carry::Protocol};
use ring::rand::{SecureRandom, SystemRandom};
use std::{
    fmt::Write as _,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Make a file of random keys for encrypted titles, or list the keys of a title
///
/// With --output, makes a file with a key for video and one for audio, which only its owner can
/// read. Name the file as `keys.file` in a `[[drm]]` rule of the configuration. A file that exists
/// is not overwritten.
///
/// With a title, asks for its keys as `serve` would, and lists for each track its key ID, scheme
/// and DRM systems in each protocol. Keys themselves are never shown. Fails if a key is missing.
#[derive(Debug, ClapArgs)]
pub(crate) struct Keys {
    /// Title as in URLs, such as films/a.mp4
    #[arg(requires = "config", conflicts_with_all = ["output", "one"], required_unless_present = "output")]
    pub(crate) title: Option<String>,
    /// Configuration file (TOML) with the source and the `[[drm]]` rules of the title
    #[arg(long, value_name = "FILE", requires = "title")]
    pub(crate) config: Option<PathBuf>,
    /// Output: the path of a new file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Make a single key for all tracks
    #[arg(long)]
    pub(crate) one: bool,
}

/// Makes the file, or lists the keys.
pub(crate) fn run(flags: &Keys) -> Result<()> {
    match (&flags.output, &flags.title, &flags.config) {
        (Some(output), ..) => make(output, flags.one),
        (None, Some(title), Some(config)) => list(title, config),
        // The parser of arguments refuses this.
        _ => Err(anyhow!("name a title, or --output")),
    }
}

/// Lists the keys of a title.
fn list(title: &str, config: &Path) -> Result<()> {
    let config = Config::read(config)?;
    config.check()?;
    check_keys(&config.origin).map_err(anyhow::Error::msg)?;
    let source = config.source.as_deref().context("the configuration names no source")?;
    let storage = latemux_storage::open_mirrored(source, &config.storage)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let loaded = runtime.block_on(async { Origin::new(storage, config.origin).title(title).await });
    let loaded = loaded.with_context(|| title.to_owned())?;
    match loaded.protection().with_context(|| title.to_owned())? {
        Some(protection) => say(&listing(protection)),
        None => say(&format!("{title} is sent clear: no [[drm]] rule matches it\n")),
    }
}

/// Returns a line for each track and protocol with a scheme.
fn listing(protection: &Protection) -> String {
    let schemes = protection.schemes();
    let protocols: Vec<_> =
        Protocol::ALL.into_iter().filter_map(|protocol| Some((protocol, schemes.of(protocol)?))).collect();
    let systems: Vec<&str> = protection.systems().iter().map(|system| system.name()).collect();
    let systems = systems.join(", ");
    let mut text = String::new();
    for (track, keys) in protection.tracks() {
        for (protocol, scheme) in &protocols {
            let key = keys.iter().find(|(of, _)| of == scheme);
            let named = key.map_or_else(|| "clear".to_owned(), |(_, key)| key.id().to_string());
            let systems = if key.is_some() && scheme.is_of_samples() { systems.as_str() } else { "" };
            let line = format!(
                "{:<28} {:<17} {:<11} {named:<33} {systems}",
                track.to_string(),
                protocol.name(),
                scheme.name()
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    let lead = protection.clear_lead();
    if !lead.is_zero() {
        let seconds = lead.as_secs_f64();
        let _ = writeln!(text, "The first {seconds:.3} s are sent clear, except in Smooth Streaming");
    }
    text
}

/// Makes a file.
fn make(output: &Path, is_one: bool) -> Result<()> {
    let random = SystemRandom::new();
    let kinds: &[Option<&str>] = if is_one { &[None] } else { &[Some("video"), Some("audio")] };
    let mut entries = Vec::new();
    for kind in kinds {
        let kid = digits(&random)?;
        let key = digits(&random)?;
        let tracks = kind.map(|kind| format!(", \"tracks\": \"type==\\\"{kind}\\\"\"")).unwrap_or_default();
        entries.push(format!("  {{\"kid\": \"{kid}\", \"key\": \"{key}\"{tracks}}}"));
    }
    let text = format!("{{\"keys\": [\n{}\n]}}\n", entries.join(",\n"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let name = output.display();
    options
        .open(output)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {name}"))?;
    let count = kinds.len();
    say(&format!("{name}: {count} {}\n", if count == 1 { "key" } else { "keys" }))
}

/// Returns 32 random hexadecimal digits.
fn digits(random: &SystemRandom) -> Result<String> {
    let mut bytes = [0_u8; 16];
    random.fill(&mut bytes).map_err(|_| anyhow!("the system provides no random numbers"))?;
    let mut text = String::with_capacity(32);
    bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
    Ok(text)
}
