//! What commands print for their users.

use anyhow::Result;
use std::io::Write;

/// Writes to standard output and flushes it, since the program that started this one may wait for
/// the line.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
