//! Locations as the user wrote them: in errors, and relative to each other.

use anyhow::{Context, Error, Result, anyhow, ensure};
use latemux_storage::Key;
use percent_encoding::percent_decode_str;
use std::path::{Path, PathBuf};
use url::Url;

/// Makes the message of an error at a location whose last component is `key`. If the error begins
/// with that key, the key is not repeated.
pub(crate) fn error_at(location: &str, key: &Key, error: &latemux_origin::Error) -> Error {
    let text = error.to_string();
    match location.strip_suffix(key.as_str()) {
        Some(folder) if text.starts_with(key.as_str()) => anyhow!("{folder}{text}"),
        _ => anyhow!("{location}: {text}"),
    }
}

/// Parses the URL of a stream.
pub(crate) fn http_url(text: &str) -> Result<Url> {
    ensure!(text.contains("://"), "{text} is not a URL: it must begin with http:// or https://");
    let url = Url::parse(text).with_context(|| format!("{text} is not a URL"))?;
    ensure!(matches!(url.scheme(), "http" | "https"), "{text}: neither http nor https");
    Ok(url)
}

/// Returns the path from the folder of `file` to `target`, both given as the user wrote them.
/// Returns `None` if the target is not in that folder or below it.
pub(crate) fn relative(file: &str, target: &str) -> Result<Option<String>> {
    let (service, file) = split(file)?;
    let (target_service, target) = split(target)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let below = target.strip_prefix(folder).ok().filter(|_| service == target_service);
    Ok(below.and_then(Path::to_str).filter(|name| !name.is_empty()).map(str::to_owned))
}

/// Splits a location into its service, which is empty for a local file, and the path there. Links
/// in the folder of a local file are resolved.
fn split(location: &str) -> Result<(String, PathBuf)> {
    let path = if location.contains("://") {
        let url = Url::parse(location).with_context(|| format!("{location} is not a URL"))?;
        if url.scheme() != "file" {
            let path = percent_decode_str(url.path()).decode_utf8().with_context(|| location.to_owned())?;
            let service = format!("{}://{}", url.scheme(), url.authority());
            return Ok((service, PathBuf::from(&*path)));
        }
        url.to_file_path().map_err(|()| anyhow!("{location}: not the address of a local file"))?
    } else {
        PathBuf::from(location)
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
    let name = path.file_name().with_context(|| format!("{location} names no file"))?;
    Ok((String::new(), folder.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_targets_in_the_folder_or_below_have_a_path() {
        let below = |file: &str, target: &str| relative(file, target).unwrap();
        assert_eq!(below("s3://b/d/t.ism", "s3://b/d/e/x%20y.mp4").as_deref(), Some("e/x y.mp4"));
        assert_eq!(below("s3://b/t.ism", "s3://b/x.mp4").as_deref(), Some("x.mp4"));
        assert_eq!(below("s3://b/d/t.ism", "s3://b/x.mp4"), None);
        assert_eq!(below("s3://b/t.ism", "s3://c/x.mp4"), None);
        assert_eq!(below("s3://b/t.ism", "/x.mp4"), None);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("e")).unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        assert_eq!(below(&at("t.ism"), &at("e/../e/x.mp4")).as_deref(), Some("e/x.mp4"));
        assert_eq!(below(&at("e/t.ism"), &at("x.mp4")), None);
        assert_eq!(latemux_origin::relative_url("e/100% a:b.mp4"), "e/100%25%20a%3Ab.mp4");
    }
}
