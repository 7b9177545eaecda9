//! Persisted indexes: they are read back equal, and other bytes are rejected.

use crate::{
    index_files::full,
    locating::{locate, read_fragment, samples_of},
    moov::{Sparse, audio, interleave, sample_entries, video},
    shared_media,
};
use bytes::Bytes;
use latemux_index::{
    MediaIndex, Sample,
    error::TrackProblem,
    locate::limits::Limits,
    media::fragment_samples::FragmentSamples,
    media::{IndexSource, Purpose, Role, Samples},
    persist::error::{FORMAT, PersistError},
};
use latemux_isobmff::Time;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

fn library() -> Vec<PathBuf> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/library");
    let folders = [library.clone(), library.join("harbour")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Bytes {
    Bytes::from(std::fs::read(path).unwrap())
}

#[test]
fn every_kind_of_index_is_read_back_equal() {
    let mut kinds = BTreeSet::new();
    let mut left_out = BTreeSet::new();
    for path in library().into_iter().chain(shared_media::files()) {
        let object = read(&path);
        let Ok(located) = locate(&object, Limits::default()) else { continue };
        let index = located.index;
        let bytes = index.to_bytes();
        let again = MediaIndex::from_bytes(&bytes).unwrap();
        assert_eq!(again, *index, "{}", path.display());
        assert_eq!(again.to_bytes(), bytes, "{}", path.display());
        assert_eq!(again.heap_bytes(), index.heap_bytes(), "{}", path.display());
        assert!(bytes.len() < index.heap_bytes() + 400, "{}: {} bytes", path.display(), bytes.len());
        kinds.insert(format!("{:?}", index.source));
        left_out.extend(index.left_out.iter().map(TrackProblem::reason));
        // They must also work like the original.
        let again = std::sync::Arc::new(again);
        for (number, track) in index.tracks.iter().enumerate() {
            assert_eq!(samples_of(&again, &object, number), samples_of(&index, &object, number));
            let Samples::Fragments(table) = &track.samples else { continue };
            for fragment in (0..table.len()).filter_map(|i| table.get(i)).take(3) {
                let samples = read_fragment(&index, &object, fragment.bytes(), 4000).unwrap();
                let bytes = samples.to_bytes();
                assert_eq!(FragmentSamples::from_bytes(&bytes).unwrap(), samples);
                assert!(MediaIndex::from_bytes(&bytes).is_err());
            }
        }
    }
    println!("{kinds:?}, left out {left_out:?}");
    assert!(kinds.len() >= if shared_media::files().is_empty() { 2 } else { 4 }, "{kinds:?}");
}

/// An index MP4: its tracks lie in other objects, and share a layout with tracks of other objects.
#[test]
fn tracks_with_media_in_other_objects_are_read_back_equal() {
    let path = library().into_iter().find(|path| path.ends_with("lighthouse.mp4")).unwrap();
    let (locator, _, _) = full(&read(&path), Limits::default()).unwrap();
    let made = locator.full_tables().unwrap().index_file("one.mp4", None).unwrap().to_vec();
    let at: Vec<usize> =
        made.windows(7).enumerate().filter(|(_, w)| w == b"one.mp4").map(|(i, _)| i).collect();
    let mut made = made;
    made[at[1]..at[1] + 7].copy_from_slice(b"two.mp4");
    let made = Bytes::from(made);
    let index = locate(&made, Limits::default()).unwrap().index;
    let purpose = Purpose { forced: false, default: true, role: Role::Description };
    let index = MediaIndex::clone(&index).with_purpose(1, purpose, Some("Described".into()));
    assert!(index.stamp.is_some() && index.tracks.iter().all(|track| track.location.is_some()));
    assert_eq!(MediaIndex::from_bytes(&index.to_bytes()).unwrap(), index);
    let parts = index.by_location();
    assert_eq!(parts.len(), 2);
    for (_, part) in parts {
        assert_eq!(MediaIndex::from_bytes(&part.to_bytes()).unwrap(), part);
    }
}

/// Returns the smallest index by `sidx` and the smallest by sample tables.
fn small() -> Vec<Vec<u8>> {
    let indexes = library().into_iter().map(|path| locate(&read(&path), Limits::default()).unwrap().index);
    let (mut tables, mut fragments): (Vec<_>, Vec<_>) =
        indexes.partition(|index| index.source == IndexSource::SampleTables);
    tables.sort_by_key(|index| index.heap_bytes());
    fragments.sort_by_key(|index| index.heap_bytes());
    [&tables[0], &fragments[0]].map(|index| index.to_bytes()).to_vec()
}

#[test]
fn every_flipped_or_missing_bit_is_detected() {
    for bytes in small() {
        println!("{} bytes", bytes.len());
        for len in 0..bytes.len() {
            assert!(MediaIndex::from_bytes(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(MediaIndex::from_bytes(&longer), Err(PersistError::Damaged("the length does not match")));
        let mut flipped = bytes.clone();
        for bit in 0..bytes.len() * 8 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(MediaIndex::from_bytes(&flipped).is_err(), "bit {bit}");
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(flipped, bytes);
    }
}

#[test]
fn other_versions_and_damage_are_different_errors() {
    let bytes = small().remove(0);
    for other in [FORMAT - 1, FORMAT + 1, u16::MAX] {
        let mut bytes = bytes.clone();
        bytes[9..11].copy_from_slice(&other.to_le_bytes());
        assert_eq!(MediaIndex::from_bytes(&bytes), Err(PersistError::OtherFormat { found: other }));
    }
    let none = PersistError::NotThis("the index of an object");
    assert_eq!(MediaIndex::from_bytes(b""), Err(none.clone()));
    assert_eq!(MediaIndex::from_bytes(&read(&library()[0])), Err(none.clone()));
    let samples = FragmentSamples { tracks: Vec::new() };
    assert_eq!(MediaIndex::from_bytes(&samples.to_bytes()), Err(none));
}

#[test]
fn times_and_positions_that_sums_would_overflow_count_as_damage() {
    let index = MediaIndex::from_bytes(&small()[0]).unwrap();
    let changes: [fn(&mut MediaIndex); 4] = [
        |index| index.tracks[0].start = i64::MIN,
        |index| index.tracks[0].end = i64::MAX,
        |index| index.tracks[0].presentation.media_time = Time::MAX_TICKS + 1,
        |index| index.tracks[0].presentation.shift = -Time::MAX_TICKS - 1,
    ];
    for change in changes {
        let mut index = index.clone();
        change(&mut index);
        let read = MediaIndex::from_bytes(&index.to_bytes());
        assert_eq!(read, Err(PersistError::Damaged("a number that is too large")));
    }
    let sample =
        Sample { offset: 1 << 63, size: 1, decode_time: 0, duration: 1, composition_offset: 0, sync: true };
    for sample in [sample, Sample { offset: 0, decode_time: i64::MIN, ..sample }] {
        let samples = FragmentSamples { tracks: vec![Box::new([sample])] };
        assert!(matches!(FragmentSamples::from_bytes(&samples.to_bytes()), Err(PersistError::Damaged(_))));
    }
}

/// Persisted bytes stay readable: they change only together with [`FORMAT`], or if columns are
/// packed with other parameters of the same format.
#[test]
fn the_format_is_frozen() {
    let path = library().into_iter().find(|path| path.ends_with("ferry.mp4")).unwrap();
    let bytes = locate(&read(&path), Limits::default()).unwrap().index.to_bytes();
    let digest = xxhash_rust::xxh3::xxh3_64(&bytes);
    assert_eq!((FORMAT, bytes.len(), digest), (12, 1092, 12_671_200_210_488_058_558));
}

/// Prints the cost of persisting a title of four hours. It checks nothing.
#[test]
#[ignore = "a measurement"]
fn four_hours() {
    let (avc, aac) = sample_entries("persist");
    let mut tracks = vec![video(&avc, 14_400), audio(&aac, 14_400)];
    interleave(&mut tracks);
    let sparse = Sparse::new(tracks, 1 << 20);
    let index = sparse.locate().unwrap().index;
    let started = Instant::now();
    let bytes = index.to_bytes();
    let written = started.elapsed();
    let started = Instant::now();
    let again = MediaIndex::from_bytes(&bytes).unwrap();
    let loaded = started.elapsed();
    assert_eq!(again, *index);
    println!(
        "moov {} bytes, in memory {}, as bytes {}; written in {written:?}, read in {loaded:?}",
        sparse.moov,
        index.heap_bytes(),
        bytes.len()
    );
}
