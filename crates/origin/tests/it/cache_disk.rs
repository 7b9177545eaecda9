//! A cache disk that fails in every way: responses stay right, then and later.

use crate::{
    rig::{FetchResult, Oracle, Rig, Tiers, library_with, relabelled},
    server::{library, sample},
};
use futures_util::future::{join, join_all};
use std::{fs, io::ErrorKind, path::PathBuf, time::Duration};

const TITLES: [&str; 1] = ["lighthouse.mp4"];

async fn oracle() -> Oracle {
    Oracle::of(&[library()], &TITLES).await
}

async fn all_right(rig: &Rig, oracle: &Oracle) {
    for url in oracle.urls() {
        assert_eq!(rig.get(oracle, url).await, FetchResult::Right(0), "{url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_or_read_only_disk_costs_only_requests_to_storage() {
    let oracle = oracle().await;
    for kind in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem, ErrorKind::FileTooLarge] {
        for from_the_start in [true, false] {
            let mut rig = Rig::new(Tiers::Disk, library());
            if !from_the_start {
                for url in oracle.some() {
                    assert!(rig.get(&oracle, &url).await.is_right());
                }
                rig.idle().await;
            }
            rig.disk_faults.fail_writes(kind);
            all_right(&rig, &oracle).await;
            rig.idle().await;
            let figures = rig.cache.figures();
            assert!(figures.disk_errors > 0 && figures.disk_dropped_failed > 0, "{kind}: {figures:?}");
            all_right(&rig, &oracle).await;
            rig.check_recovered(&oracle, &TITLES, 0).await;
            assert!(rig.cache.figures().disk_units > 0, "{kind}: the disk is not used again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_disk_costs_only_requests_to_storage() {
    let oracle = oracle().await;
    for kind in [ErrorKind::Other, ErrorKind::UnexpectedEof, ErrorKind::PermissionDenied] {
        let mut rig = Rig::new(Tiers::Disk, library());
        all_right(&rig, &oracle).await;
        rig.idle().await;
        assert!(rig.cache.figures().disk_units > 20);
        rig.disk_faults.fail_reads(kind);
        all_right(&rig, &oracle).await;
        rig.check_recovered(&oracle, &TITLES, 0).await;
    }
}

async fn tick() {
    tokio::time::advance(Duration::from_millis(100)).await;
    tokio::task::yield_now().await;
}

/// A hanging read is given up after the disk's timeout, and storage is read instead. No request
/// waits for a hanging write.
#[tokio::test(start_paused = true)]
async fn a_hanging_disk_is_given_up_after_its_timeout() {
    let oracle = oracle().await;
    for (reads, writes) in [(true, false), (false, true), (true, true)] {
        let mut rig = Rig::new(Tiers::Disk, library());
        let urls: Vec<_> = oracle.urls().cloned().collect();
        let (first, second) = urls.split_at(urls.len() / 2);
        for url in first {
            assert!(rig.get(&oracle, url).await.is_right());
        }
        rig.idle().await;
        rig.disk_faults.hang(reads, writes);
        let faults = rig.disk_faults.clone();
        let begun = tokio::time::Instant::now();
        // The paused clock does not advance while a thread is busy. The test advances it.
        let requests = async {
            let mut got = rig.get_all(&oracle, first).await;
            got.extend(rig.get_all(&oracle, second).await);
            got
        };
        let mut requests = Box::pin(requests);
        let got = loop {
            tokio::select! {
                biased;
                got = &mut requests => break got,
                () = tick(), if reads => {}
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "reads {reads}, writes {writes}: a request waits for the disk"
            );
        };
        drop(requests);
        faults.heal();
        assert!(got.iter().all(FetchResult::is_right), "{got:?}");
        let figures = rig.cache.figures();
        assert!(figures.disk_timeouts > 0 || !reads, "{figures:?}");
        rig.check_recovered(&oracle, &TITLES, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_folder_removed_while_in_use_causes_no_wrong_response() {
    let oracle = oracle().await;
    let mut rig = Rig::new(Tiers::Disk, library());
    let urls: Vec<_> = oracle.urls().cloned().collect();
    let (first, second) = urls.split_at(urls.len() / 2);
    let removing = async {
        while rig.cache.figures().disk_written < 3 {
            tokio::task::yield_now().await;
        }
        fs::remove_dir_all(rig.dir.path()).unwrap();
    };
    let (got, ()) = join(rig.get_all(&oracle, first), removing).await;
    assert!(got.iter().all(FetchResult::is_right), "{got:?}");
    assert!(rig.get_all(&oracle, second).await.iter().all(FetchResult::is_right));
    all_right(&rig, &oracle).await;
    rig.check_recovered(&oracle, &TITLES, 0).await;
}

/// Returns offsets of bytes in a part of a log: its head (`file`), the records' heads, names or
/// data, or the footer.
fn offsets(log: &[u8], part: &str) -> Vec<usize> {
    let number = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap()) as usize;
    let mut offsets = Vec::new();
    let mut at = 24;
    while log.get(at..at + 4) == Some(b"LMRC") {
        let names = number(at + 4);
        let data = number(at + 32);
        match part {
            "head" | "unsealed" => offsets.push(at + 25),
            "names" => offsets.push(at + 56 + names / 2),
            "data" => offsets.push(at + 56 + names + data / 2),
            _ => {}
        }
        at += 56 + names + data;
    }
    match part {
        "file" => vec![3],
        "footer" => (at..log.len()).step_by(13).collect(),
        _ => offsets,
    }
}

fn logs(rig: &Rig) -> Vec<PathBuf> {
    let files = fs::read_dir(rig.dir.path()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == "units")).collect()
}

fn flip(rig: &Rig, part: &str) -> usize {
    use std::os::unix::fs::FileExt;
    let mut flipped = 0;
    for path in logs(rig) {
        let log = fs::read(&path).unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        if part == "unsealed" {
            // A killed process leaves a log without a footer. Its records are walked then.
            file.set_len(offsets(&log, "footer")[0] as u64).unwrap();
        }
        for at in offsets(&log, part) {
            // In place, so that a process which has the file open reads the change.
            file.write_all_at(&[log[at] ^ 0x20], at as u64).unwrap();
            flipped += 1;
        }
    }
    flipped
}

#[tokio::test(start_paused = true)]
async fn flipped_bits_on_disk_are_never_served() {
    let oracle = oracle().await;
    for part in ["head", "unsealed", "names", "data", "footer", "file"] {
        for while_open in [true, false] {
            let mut rig = Rig::new(Tiers::Disk, library());
            all_right(&rig, &oracle).await;
            rig.idle().await;
            if while_open {
                if matches!(part, "footer" | "unsealed") {
                    continue;
                }
            } else {
                rig.cache.close().await;
            }
            assert!(flip(&rig, part) > 0, "{part}");
            if !while_open {
                rig.restart().await;
            }
            all_right(&rig, &oracle).await;
            rig.idle().await;
            let figures = rig.cache.figures();
            match part {
                // The head is read when a process starts. With a damaged head, the file is
                // discarded.
                "file" => assert_eq!(figures.disk_discarded > 0, !while_open, "{figures:?}"),
                // Without a footer, the records are walked.
                "footer" => assert_eq!(figures.disk_corrupt, 0, "{figures:?}"),
                _ => assert!(
                    figures.disk_corrupt > 10 || !while_open && figures.storage_requests > 0,
                    "{part}: {figures:?}"
                ),
            }
            rig.check_recovered(&oracle, &TITLES, 0).await;
        }
    }
}

/// An object is replaced between two processes. The disk still has bytes of the old version.
#[tokio::test(start_paused = true)]
async fn bytes_of_an_older_version_on_disk_are_never_served() {
    let title = TITLES[0];
    let new = relabelled(&sample(title), 3).await;
    let oracle = Oracle::of(&[library(), library_with(title, new.clone())], &[title]).await;
    let mut rig = Rig::new(Tiers::Disk, library());
    let urls: Vec<_> = oracle.urls().cloned().collect();
    assert!(rig.get_all(&oracle, &urls).await.iter().all(FetchResult::is_right));
    rig.idle().await;
    rig.memory.put(crate::server::key(title), new);
    rig.restart().await;
    rig.check_recovered(&oracle, &[title], 1).await;
    let again = join_all(urls.iter().map(|url| rig.get(&oracle, url))).await;
    assert!(again.iter().all(FetchResult::is_right), "{again:?}");
}
