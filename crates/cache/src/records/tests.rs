use super::*;
use std::fs;
use std::time::Duration;
use tempfile::TempDir;

fn open(dir: &Path, bytes: u64) -> Records {
    let retry = Duration::ZERO;
    Records::open(DiskConfig { retry, ..DiskConfig::new(dir, bytes) }).unwrap()
}

fn put(records: &Records, name: &str, value: &[u8]) {
    let value = value.to_vec();
    records.put(name.into(), to_u64(value.len()), move || value);
}

/// Returns the only value file.
fn only(dir: &TempDir) -> PathBuf {
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut values: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == SUFFIX)).collect();
    assert_eq!(values.len(), 1);
    values.remove(0)
}

fn on_disk(dir: &TempDir) -> u64 {
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
    let values = files.filter(|entry| entry.file_name() != "lock");
    values.map(|entry| cost(entry.metadata().unwrap().len())).sum()
}

#[tokio::test]
async fn values_outlive_a_restart() {
    let dir = TempDir::new().unwrap();
    let records = open(dir.path(), 1 << 20);
    assert_eq!(records.get(b"a").await, None);
    put(&records, "a", b"one");
    put(&records, "b", b"");
    put(&records, "a", b"two");
    records.flush().await;
    assert_eq!(records.get(b"a").await.as_deref(), Some(&b"two"[..]));
    assert_eq!((records.figures().values, records.figures().bytes), (2, 2 * BLOCK));
    let second = Records::open(DiskConfig::new(dir.path(), 1)).unwrap_err().to_string();
    assert!(second.contains("another process"), "{second}");
    records.close().await;
    // A file that was being written when the process ended.
    fs::write(dir.path().join(format!("{:032x}.{PART}", 7)), "x").unwrap();
    fs::write(dir.path().join("notes.txt"), "not ours").unwrap();

    let records = open(dir.path(), 1 << 20);
    records.recovered().await;
    assert_eq!((records.figures().values, records.figures().bytes), (2, 2 * BLOCK));
    assert_eq!(records.get(b"a").await.as_deref(), Some(&b"two"[..]));
    assert_eq!(records.get(b"b").await.as_deref(), Some(&b""[..]));
    assert_eq!(records.get(b"c").await, None);
    assert_eq!((records.figures().hits, records.figures().misses), (2, 1));
    assert!(records.forget(b"a") && !records.forget(b"a"));
    records.flush().await;
    assert_eq!(records.get(b"a").await, None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "b, the lock and the foreign file");
}

#[tokio::test]
async fn damaged_files_are_discarded() {
    let dir = TempDir::new().unwrap();
    let records = open(dir.path(), 1 << 20);
    put(&records, "name", b"a value");
    records.flush().await;
    let path = only(&dir);
    let whole = fs::read(&path).unwrap();
    let mut wrong: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
    wrong.extend((0..whole.len() * 8).map(|bit| {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    }));
    wrong.push([&whole[..], b"x"].concat());
    // Complete, but of another name or format.
    wrong.push(file::bytes(b"eman", b"a value").unwrap());
    wrong.push({
        let mut head = whole[..24].to_vec();
        let name = b"name";
        let value = b"a value";
        head[8] = 2;
        let mut digest = xxhash_rust::xxh3::Xxh3::new();
        [&head[..], name, value].into_iter().for_each(|part| digest.update(part));
        [&head[..], &digest.digest().to_le_bytes(), name, value].concat()
    });
    for (number, bytes) in (1..).zip(wrong) {
        fs::write(&path, &bytes).unwrap();
        records.0.shared.table().insert(file::id(b"name"), BLOCK);
        assert_eq!(records.get(b"name").await, None, "{bytes:?}");
        records.flush().await;
        assert_eq!((records.figures().discarded, records.figures().values), (number, 0));
        assert!(!path.exists());
    }
    fs::write(&path, &whole).unwrap();
    records.0.shared.table().insert(file::id(b"name"), BLOCK);
    assert_eq!(records.get(b"name").await.as_deref(), Some(&b"a value"[..]), "the undamaged file is read");
}

#[tokio::test]
async fn least_recently_used_values_are_evicted() {
    let dir = TempDir::new().unwrap();
    let records = open(dir.path(), 10 * BLOCK + 17);
    for n in 0..10 {
        put(&records, &n.to_string(), &[n; 100]);
    }
    records.flush().await;
    assert_eq!(on_disk(&dir), 10 * BLOCK);
    assert!(records.get(b"0").await.is_some());
    // The value takes two blocks, so the two least recently used values are evicted.
    put(&records, "x", &[0; 5000]);
    records.flush().await;
    assert!(on_disk(&dir) <= 10 * BLOCK);
    assert_eq!((records.figures().evictions, records.figures().bytes), (2, 10 * BLOCK));
    for (name, stays) in [("0", true), ("1", false), ("2", false), ("3", true), ("x", true)] {
        assert_eq!(records.get(name.as_bytes()).await.is_some(), stays, "{name}");
    }
    // A value that grows is not counted twice. A value larger than the limit is not kept.
    put(&records, "x", &[0; 9000]);
    put(&records, "y", &[0; 50_000]);
    records.flush().await;
    assert!(records.get(b"x").await.is_some() && records.get(b"y").await.is_none());
    assert_eq!((records.figures().evictions, records.figures().dropped), (3, 1));
    records.close().await;

    // After a restart with a smaller limit, the order is remembered as far as the file system's
    // clock resolves it.
    let records = open(dir.path(), 5 * BLOCK);
    records.recovered().await;
    assert!(on_disk(&dir) <= 5 * BLOCK && records.figures().bytes <= 5 * BLOCK);
    assert!(records.get(b"x").await.is_some(), "written last");
}

#[tokio::test]
async fn values_beyond_the_queue_are_dropped() {
    let dir = TempDir::new().unwrap();
    let records = Records::open(DiskConfig { queue: 100, ..DiskConfig::new(dir.path(), 1 << 20) }).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    records.put(b"slow".to_vec(), 60, move || {
        let _ = wait.recv();
        vec![1]
    });
    put(&records, "large", &[0; 50]);
    put(&records, "small", &[0; 30]);
    drop(go);
    records.flush().await;
    assert_eq!((records.figures().dropped, records.figures().values), (1, 2));
    assert!(records.get(b"large").await.is_none());
    put(&records, "large", &[0; 50]);
    records.flush().await;
    assert!(records.get(b"large").await.is_some());
}

#[tokio::test]
async fn a_removed_folder_loses_only_values() {
    let parent = TempDir::new().unwrap();
    let dir = parent.path().join("values");
    let records = open(&dir, 1 << 20);
    put(&records, "a", b"1");
    records.flush().await;
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(records.get(b"a").await, None);
    // A file in place of the folder makes writes fail.
    fs::write(&dir, "").unwrap();
    put(&records, "a", b"2");
    records.flush().await;
    assert_eq!((records.get(b"a").await, records.figures().dropped), (None, 1));
    // The folder is used again when that is possible.
    fs::remove_file(&dir).unwrap();
    put(&records, "a", b"3");
    records.flush().await;
    assert_eq!(records.get(b"a").await.as_deref(), Some(&b"3"[..]));
}

#[tokio::test]
async fn names_are_found_by_a_condition() {
    let dir = TempDir::new().unwrap();
    let records = open(dir.path(), 1 << 20);
    for name in ["series/one", "series/two", "film", "gone"] {
        put(&records, name, name.as_bytes());
    }
    records.forget(b"gone");
    records.flush().await;
    // Files that hold something else.
    for (id, text) in [(1_u128, &b"LMXVALUE"[..]), (2, &[b'x'; 100]), (3, &[0; 31])] {
        fs::write(dir.path().join(format!("{id:032x}.{SUFFIX}")), text).unwrap();
    }
    let moved = dir.path().join(format!("{:032x}.{SUFFIX}", file::id(b"film")));
    fs::copy(&moved, dir.path().join(format!("{:032x}.{SUFFIX}", 4))).unwrap();
    let mut found = records.names(|name| name.starts_with(b"series/")).await;
    found.sort();
    assert_eq!(found, [b"series/one", b"series/two"]);
    assert_eq!(records.names(|_| true).await.len(), 3);
    // The length of the name is not believed.
    let mut bytes = fs::read(&moved).unwrap();
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    fs::write(&moved, bytes).unwrap();
    assert_eq!(records.names(|_| true).await.len(), 2);
    fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(records.names(|_| true).await.len(), 0);
}
