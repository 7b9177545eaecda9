//! Rights of the files and folders on disk.

use crate::storages::{Network, World};
use latemux_cache::{Config, DiskConfig, Records};
use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Returns the rights of everything in a folder, and of the folder itself.
fn rights(path: &Path) -> BTreeMap<PathBuf, u32> {
    let mut found =
        BTreeMap::from([(path.to_owned(), fs::metadata(path).unwrap().permissions().mode() & 0o777)]);
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| found.extend(rights(&entry.unwrap().path())));
    }
    found
}

/// Fills a cache and a store of values in a folder.
async fn fill(dir: &Path) {
    let config = Config { memory: 16 << 20, dir: Some(dir.to_owned()), disk: 64 << 20, ..Config::default() };
    let world = World::new(1_000_000, config, |inner| Arc::new(Network::new(inner, 30_000, 8)));
    let values = Records::open(DiskConfig::new(dir.join("indexes"), 1 << 20)).unwrap();
    world.cache.recovered().await;
    values.recovered().await;
    world.read(0..1_000_000).await.unwrap();
    values.put(b"a".to_vec(), 1, || b"b".to_vec());
    world.cache.close().await;
    values.close().await;
}

#[tokio::test(start_paused = true)]
async fn everyone_could_read_the_cache_folder() {
    let outside = tempfile::tempdir().unwrap();
    let dir = outside.path().join("new/cache");
    fill(&dir).await;
    let made = rights(&outside.path().join("new"));
    // Three folders, two locks, the logs and a value.
    assert!(made.len() > 6, "{made:?}");
    for (path, mode) in &made {
        assert_eq!(*mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }

    // Files of an older version lose the rights of others. The operator's folder keeps its own.
    fs::set_permissions(&dir, Permissions::from_mode(0o750)).unwrap();
    for path in made.keys().filter(|path| path.extension().is_some()) {
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    fill(&dir).await;
    let made = rights(&dir);
    assert_eq!(made[&dir], 0o750);
    for (path, mode) in made.iter().filter(|(path, _)| path.extension().is_some()) {
        assert_eq!(*mode, 0o600, "{}", path.display());
    }
}
