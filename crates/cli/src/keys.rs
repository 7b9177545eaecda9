//! `latemux keys`: makes a file of random keys for encrypted titles.

use crate::serve::say;
use anyhow::{Context, Result, anyhow};
use clap::Args as ClapArgs;
use ring::rand::{SecureRandom, SystemRandom};
use std::{fmt::Write as _, fs::OpenOptions, io::Write as _, path::PathBuf};

/// Make a file of random keys for encrypted titles
///
/// The file has a key for video and one for audio. Name it as `keys.file` in a `[[drm]]` rule of
/// the configuration. Only its owner can read it. A file that exists is not overwritten.
#[derive(Debug, ClapArgs)]
pub(crate) struct Keys {
    /// Output: the path of a new file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Make a single key for all tracks
    #[arg(long)]
    pub(crate) one: bool,
}

/// Makes the file.
pub(crate) fn run(flags: &Keys) -> Result<()> {
    let random = SystemRandom::new();
    let kinds: &[Option<&str>] = if flags.one { &[None] } else { &[Some("video"), Some("audio")] };
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
    let name = flags.output.display();
    options
        .open(&flags.output)
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
