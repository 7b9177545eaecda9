//! Rights of the cache's files: they hold media, which only the user of the process may read.

use std::{
    fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, set_permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Creates a folder, and those above it that do not exist. A folder that exists keeps its rights,
/// because it may hold files of others too.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns options that create files which only their owner may read.
pub(crate) fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Replaces the contents of a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = file_options().write(true).create(true).truncate(true).open(path)?;
    io::Write::write_all(&mut file, bytes)
}

/// Takes from others the rights to a file that a version before 0.2.0 has created.
pub(crate) fn restrict(file: &File) -> io::Result<()> {
    if is_open_to_others(&file.metadata()?) { file.set_permissions(owner_only()) } else { Ok(()) }
}

/// Does the same for a file that is not open.
pub(crate) fn restrict_at(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if is_open_to_others(metadata) { set_permissions(path, owner_only()) } else { Ok(()) }
}

fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.mode() & 0o077 != 0
}

fn owner_only() -> Permissions {
    Permissions::from_mode(0o600)
}
