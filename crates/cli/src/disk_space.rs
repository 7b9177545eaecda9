//! The space on the cache's disk.

use latemux_cache::Config;
use latemux_quantity::ByteSize;
use std::{fs, path::Path};

/// Warns the operator if the budgets of the cache's folder are larger than the space that its file
/// system has for them. This is no error: the cache deletes its oldest files when the disk is full,
/// and other programs may free space later.
pub(crate) fn check(config: &Config) {
    let Some(dir) = &config.dir else { return };
    let budget = config.disk.saturating_add(config.index_disk);
    let Ok(system) = rustix::fs::statvfs(dir) else { return };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let held = held(dir).saturating_add(held(&dir.join("indexes")));
    let room = free.saturating_add(held);
    if budget > room {
        tracing::warn!(
            reason = "cache_disk",
            folder = %dir.display(),
            budget = %ByteSize(budget),
            free,
            held,
            "cache.disk and cache.index_disk together exceed the free space and what the folder holds: \
             other programs may find the disk full"
        );
    }
}

/// Returns the bytes of the files in a folder.
fn held(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.filter_map(|entry| entry.ok()?.metadata().ok()).filter(fs::Metadata::is_file);
    sizes.map(|metadata| metadata.len()).sum()
}
