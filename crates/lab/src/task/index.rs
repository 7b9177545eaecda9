//! Index MP4s that name storage itself, so that media does not pass the cache of index MP4s.

use super::place::Place;
use crate::{
    Error,
    http::Authority,
    nbmp,
    process::{Process, command},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

/// Writes an index MP4 for each one of a title, with the authority under which the last reader
/// reaches the media. Returns their folder.
///
/// # Errors
/// If the storage has only one reader, the title has no index MP4s, or `latemux index` fails.
pub(super) fn write(task: &nbmp::Task, title: &Path, own: &Path, place: &Place) -> Result<PathBuf, Error> {
    let id = &task.id;
    let media = match task.outputs.as_slice() {
        [_, .., media] => Authority::of(&media.url),
        _ => None,
    };
    let media = media.ok_or_else(|| {
        Error::invalid(format!("{id}: index = 'absolute' needs two readers: of index MP4s and of media"))
    })?;
    let folder = own.join("indexes");
    fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, &error))?;
    let mut count = 0;
    for entry in fs::read_dir(title).map_err(|error| Error::file(title, &error))?.flatten() {
        let name = entry.file_name();
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".index.mp4")) else { continue };
        let mut index = command(&place.latemux);
        index.arg("index").arg(title.join(format!("{stem}.mp4"))).arg("-o").arg(folder.join(&name));
        index.args(["--location", &format!("http://{media}/{stem}.mp4")]);
        index.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !Process::start(&mut index)?.finish().is_some_and(|status| status.success()) {
            return Err(Error::Lacking(format!("{id}: latemux index failed for {stem}.mp4")));
        }
        count += 1;
    }
    match count {
        0 => Err(Error::invalid(format!("{id}: the title has no index MP4s"))),
        _ => Ok(folder),
    }
}
