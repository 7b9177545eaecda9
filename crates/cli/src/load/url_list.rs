//! A file with URLs, one on each line.

use crate::location::http_url;
use anyhow::{Context, Result, anyhow, ensure};
use std::{fs, io::Read as _, path::Path};
use url::Url;
use xxhash_rust::xxh3::Xxh3;

/// The maximum number of bytes of the file.
const MAX_BYTES: u64 = 256 << 20;

/// The maximum number of URLs.
const MAX_URLS: usize = 1 << 20;

/// Reads the URLs in a file. Empty lines are skipped, and so is the rest of a line from a `#` that
/// stands at its start or behind a space.
///
/// # Errors
/// If the file cannot be read or is too large, has too many URLs or none, or if a line is no URL.
pub(super) fn read(path: &Path) -> Result<Vec<Url>> {
    let name = path.display();
    let mut text = String::new();
    let file = fs::File::open(path).with_context(|| format!("--list: cannot read {name}"))?;
    file.take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("--list: cannot read {name}"))?;
    ensure!(text.len() as u64 <= MAX_BYTES, "--list: {name} has more than {MAX_BYTES} bytes");
    let mut urls = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let url = text.split(" #").next().unwrap_or_default().trim();
        if url.is_empty() || url.starts_with('#') {
            continue;
        }
        ensure!(urls.len() < MAX_URLS, "--list: {name} has more than {MAX_URLS} URLs");
        urls.push(http_url(url).map_err(|error| anyhow!("--list: {name}, line {line}: {error:#}"))?);
    }
    ensure!(!urls.is_empty(), "--list: {name} has no URLs");
    Ok(urls)
}

/// Returns a text that differs for different lists: parts of a run must have the same list, but may
/// have it at different paths.
pub(super) fn digest(urls: &[Url]) -> String {
    let mut hash = Xxh3::new();
    for url in urls {
        hash.update(url.as_str().as_bytes());
        hash.update(b"\n");
    }
    format!("{} URLs, xxh3 {:016x}", urls.len(), hash.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_comments_and_name_their_mistakes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("urls");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            read(&path).map_err(|error| format!("{error:#}"))
        };
        let urls = read("# titles\n http://a/1 # the first\r\n\nhttp://a/2#t=5\n").unwrap();
        let texts: Vec<&str> = urls.iter().map(Url::as_str).collect();
        assert_eq!(texts, ["http://a/1", "http://a/2#t=5"]);
        assert_ne!(digest(&urls), digest(&urls[..1]));
        for (text, why) in [
            ("", "has no URLs"),
            ("#\n", "has no URLs"),
            ("http://a/\nb/c", "line 2: b/c is not a URL"),
            ("ftp://a/", "line 1: ftp://a/: neither http nor https"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
        assert!(super::read(folder.path()).is_err(), "a folder");
    }
}
