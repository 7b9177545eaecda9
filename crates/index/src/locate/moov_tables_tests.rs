use super::*;
use crate::{
    locate::placement,
    table::{layout::ChunkPositions, samples::Sample},
};
use bytes::Bytes;
use latemux_isobmff::boxes::{
    ctts::{self, CompositionOffsets},
    stsc::{self, SamplesToChunks},
    stss::SyncSamples,
    stts::{self, TimeToSamples},
};

const SIZE: u64 = 10_000;

/// Reads the tables of a track that is alone in its file, with positions.
fn read(tables: &SampleTables, object_size: u64, all_sync: bool) -> Result<SampleTable, TrackProblemKind> {
    let mut table = super::read(tables, object_size, all_sync)?;
    let (counts, positions) = placement::chunks_of(tables, object_size)?;
    table.set_chunks(counts, ChunkPositions::Separate(positions));
    Ok(table)
}

/// Returns ten samples of 100, 101, … bytes in chunks of 4, 4 and 2.
fn tables() -> SampleTables {
    let run = |first_chunk, samples_per_chunk| stsc::Run {
        first_chunk,
        samples_per_chunk,
        sample_description_index: 1,
    };
    SampleTables {
        stts: stts(&[(9, 512), (1, 300)]),
        ctts: None,
        stsz: (0..10).map(|i| 100 + i).collect(),
        stsc: [run(1, 4), run(3, 2)].into_iter().collect(),
        stco: [1000, 3000, 2000].into_iter().collect(),
        stss: None,
    }
}

fn stts(runs: &[(u32, u32)]) -> TimeToSamples {
    runs.iter().map(|&(count, delta)| stts::Run { count, delta }).collect()
}

fn ctts(runs: &[(u32, i32)]) -> Option<CompositionOffsets> {
    Some(runs.iter().map(|&(count, offset)| ctts::Run { count, offset }).collect())
}

fn stsc(runs: &[(u32, u32, u32)]) -> SamplesToChunks {
    let run = |&(first_chunk, samples_per_chunk, sample_description_index): &_| stsc::Run {
        first_chunk,
        samples_per_chunk,
        sample_description_index,
    };
    runs.iter().map(run).collect()
}

fn samples(tables: &SampleTables) -> Vec<Sample> {
    read(tables, SIZE, false).unwrap().range(0..u32::MAX).collect()
}

fn rejection(tables: &SampleTables) -> String {
    match read(tables, SIZE, false) {
        Err(TrackProblemKind::Malformed(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn chunks_may_lie_in_any_order() {
    let samples = samples(&tables());
    let offsets: Vec<u64> = samples.iter().map(|s| s.offset).collect();
    assert_eq!(offsets, [1000, 1100, 1201, 1303, 3000, 3104, 3209, 3315, 2000, 2108]);
    assert_eq!(
        samples[9],
        Sample {
            offset: 2108,
            size: 109,
            decode_time: 4608,
            duration: 300,
            composition_offset: 0,
            sync: true
        }
    );
}

#[test]
fn entries_after_the_last_sample_are_ignored() {
    let expected = samples(&tables());
    let longer = SampleTables {
        stts: stts(&[(9, 512), (1, 300), (5, 9)]),
        stsc: stsc(&[(1, 4, 1), (3, 2, 1), (5, 7, 2)]),
        stco: [1000, 3000, 2000, 1 << 40].into_iter().collect(),
        ctts: ctts(&[(99, 0)]),
        ..tables()
    };
    assert_eq!(samples(&longer), expected);
    assert_eq!(sample_description(&longer), Ok(1));
}

#[test]
fn missing_composition_offsets_are_0() {
    let offsets: Vec<i32> = samples(&SampleTables { ctts: ctts(&[(2, 1024), (1, -512)]), ..tables() })
        .iter()
        .map(|s| s.composition_offset)
        .collect();
    assert_eq!(offsets, [1024, 1024, -512, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn sync_sample_numbers_are_checked() {
    let sync = |numbers: &[u32]| {
        let stss: SyncSamples = numbers.iter().copied().collect();
        let table = read(&SampleTables { stss: Some(stss), ..tables() }, SIZE, false);
        table.map(|table| {
            (1..).zip(table.range(0..99)).filter(|(_, s)| s.sync).map(|(n, _)| n).collect::<Vec<u32>>()
        })
    };
    assert_eq!(sync(&[1, 5, 9]), Ok(vec![1, 5, 9]));
    assert_eq!(sync(&[0, 3, 3, 11, 4_000_000_000]), Ok(vec![3]));
    assert_eq!(sync(&[]), Ok(vec![]));
    assert!(sync(&[5, 3]).is_err());
    // An empty `stss` means nothing for media that has only sync samples.
    let empty = SampleTables { stss: Some(SyncSamples::default()), ..tables() };
    assert!(read(&empty, SIZE, true).unwrap().all_sync());
}

#[test]
fn compact_and_constant_sizes_are_read() {
    let nibbles = Bytes::from_static(b"\x12\x34\x56\x78\x9a");
    let stz2 = SampleTables { stsz: SampleSizes::Table { bits: 4, count: 10, entries: nibbles }, ..tables() };
    assert_eq!(samples(&stz2).iter().map(|s| s.size).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    let one = SampleTables { stsz: SampleSizes::Constant { size: 50, count: 10 }, ..tables() };
    assert_eq!(
        samples(&one)[5],
        Sample {
            offset: 3050,
            size: 50,
            decode_time: 2560,
            duration: 512,
            composition_offset: 0,
            sync: true
        }
    );
}

#[test]
fn unproven_sample_counts_are_rejected_or_cost_nothing() {
    let read_large = |tables: SampleTables| read(&tables, 1 << 40, false);
    let huge = SampleTables {
        stsz: SampleSizes::Constant { size: 1, count: u32::MAX },
        stts: stts(&[(u32::MAX, 1)]),
        stsc: stsc(&[(1, u32::MAX, 1)]),
        ..tables()
    };
    assert!(matches!(read_large(huge.clone()), Err(TrackProblemKind::TooLarge(_))));
    assert!(matches!(read(&huge, SIZE, false), Err(TrackProblemKind::TooLarge(_))));
    // The largest number allowed, in one chunk, is one run in every column.
    let most =
        SampleTables { stsz: SampleSizes::Constant { size: 1, count: MAX_SAMPLES }, stss: None, ..huge };
    let table = read_large(most).unwrap();
    assert_eq!(table.len(), MAX_SAMPLES);
    assert!(table.heap_bytes() < 500, "{} bytes", table.heap_bytes());
}

#[test]
fn contradictory_tables_are_rejected() {
    assert_eq!(
        rejection(&SampleTables { stts: stts(&[(9, 512)]), ..tables() }),
        "stts has 9 samples, but stsz has 10"
    );
    assert_eq!(
        rejection(&SampleTables { stts: stts(&[(10, 1 << 31)]), ..tables() }),
        "stts: a sample lasts 2147483648 ticks, which is too long"
    );
    let short = SampleTables { stco: [1000, 3000].into_iter().collect(), ..tables() };
    assert_eq!(rejection(&short), "stsz has 10 samples, but the chunks hold 8");
    assert_eq!(
        rejection(&SampleTables { stsc: stsc(&[(2, 4, 1)]), ..tables() }),
        "stsc does not begin with the first chunk"
    );
    let back = SampleTables {
        stsc: stsc(&[(1, 4, 1), (3, 2, 1), (2, 1, 1)]),
        stco: [0, 400, 800, 900].into_iter().collect(),
        stsz: (0..12).collect(),
        stts: stts(&[(12, 1)]),
        ..tables()
    };
    assert_eq!(rejection(&back), "stsc: chunk numbers do not ascend");
    let beyond = SampleTables { stco: [1000, 3000, SIZE - 216].into_iter().collect(), ..tables() };
    assert!(matches!(
        read(&beyond, SIZE, false),
        Err(TrackProblemKind::Truncated { sample: 10, end: 10_001, .. })
    ));
    let wraps = SampleTables { stco: [1000, u64::MAX - 5, 2000].into_iter().collect(), ..tables() };
    assert!(matches!(read(&wraps, SIZE, false), Err(TrackProblemKind::Truncated { .. })));
}

#[test]
fn several_sample_entries_in_use_are_rejected() {
    let with = |runs: &[(u32, u32, u32)]| sample_description(&SampleTables { stsc: stsc(runs), ..tables() });
    assert_eq!(with(&[(1, 4, 2), (3, 2, 2)]), Ok(2));
    assert!(matches!(with(&[(1, 4, 1), (3, 2, 2)]), Err(TrackProblemKind::Unsupported(_))));
    assert_eq!(with(&[]), Err(TrackProblemKind::Empty));
}
