use super::*;
use crate::{
    locate::placement,
    table::{
        chunk_block::{ChunkBlock, ChunkReader},
        layout::ChunkPositions,
        samples::Sample,
    },
};
use bytes::Bytes;
use latemux_isobmff::boxes::{
    ctts::{self, CompositionOffsets},
    stsc::{self, SamplesToChunks},
    stss::SyncSamples,
    stts::{self, TimeToSamples},
};
use proptest::prelude::*;

const SIZE: u64 = 10_000;

/// Reads the tables of a track that is alone in its file, with positions.
fn read(tables: &SampleTables, object_size: u64, all_sync: bool) -> Result<SampleTable, TrackProblemKind> {
    let mut table = super::read(tables, object_size, all_sync, None)?;
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
    assert_eq!(sync(&[1, 3, 3, 11, 4_000_000_000]), Ok(vec![1, 3]));
    assert_eq!(sync(&[]), Ok(vec![]));
    assert!(sync(&[5, 3]).is_err());
    // An empty `stss` means nothing for media that has only sync samples.
    let empty = SampleTables { stss: Some(SyncSamples::default()), ..tables() };
    assert!(read(&empty, SIZE, true).unwrap().all_sync());
}

/// The sample before each sync sample was taken for it.
#[test]
fn sync_samples_were_counted_from_1_where_the_first_is_0() {
    let stss: SyncSamples = [0, 3, 3, 9, 10].into_iter().collect();
    let table = read(&SampleTables { stss: Some(stss), ..tables() }, SIZE, false).unwrap();
    let sync: Vec<u32> = (0..).zip(table.range(0..99)).filter(|(_, s)| s.sync).map(|(n, _)| n).collect();
    assert_eq!(sync, [0, 3, 9]);
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

/// Returns tables of chunks with runs of many lengths, some without samples, in entries of all
/// widths. Some end beyond the object, or have too many or too few chunks.
fn chunked() -> impl Strategy<Value = SampleTables> {
    let run = (prop_oneof![1..4_u32, 1..300_u32], prop_oneof![3 => 1..4_u32, 1 => 0..20_u32]);
    let runs = prop::collection::vec(run, 1..12);
    let gaps = prop::collection::vec(prop_oneof![0..50_u64, Just(0)], 1..700);
    (runs, gaps, 1..2500_u32, 0..3_u8, any::<bool>()).prop_map(|(runs, gaps, samples, sizes, is_wide)| {
        let mut first = 1;
        let starts = runs.iter().map(|&(chunks, per_chunk)| {
            let run = (first, per_chunk, 1);
            first += chunks;
            run
        });
        let base = if is_wide { 1 << 32 } else { 0 };
        let offsets = gaps.iter().scan(base, |offset, gap| {
            *offset += gap + 30;
            Some(*offset)
        });
        let entries: Vec<u8> = (0..samples * 2).map(|i| u8::try_from(i % 7).unwrap()).collect();
        let stsz = match sizes {
            0 => (0..samples).map(|i| i % 7).collect(),
            1 => SampleSizes::Table { bits: 16, count: samples, entries: Bytes::from(entries) },
            _ => SampleSizes::Constant { size: 3, count: samples },
        };
        SampleTables {
            stts: stts(&[(samples, 1)]),
            ctts: None,
            stsz,
            stsc: stsc(&starts.collect::<Vec<_>>()),
            stco: offsets.collect(),
            stss: None,
        }
    })
}

proptest! {
    #[test]
    fn chunks_read_in_blocks_equal_those_read_one_by_one(tables in chunked(), size in 0..30_000_u64) {
        let object_size = size + if tables.stco.wide().is_some() { 1 << 32 } else { 0 };
        let mut one_by_one = Chunks::new(&tables, object_size);
        let expected: Vec<_> = one_by_one.by_ref().map(|c| (c.offset, c.offset + c.bytes)).collect();
        let mut in_blocks = Chunks::new(&tables, object_size);
        let mut read = Vec::new();
        loop {
            let mut block = ChunkBlock::new();
            ChunkReader::fill(&mut &mut in_blocks, &mut block);
            if block.starts().is_empty() {
                break;
            }
            read.extend(block.starts().iter().copied().zip(block.ends().iter().copied()));
        }
        prop_assert_eq!(read, expected);
        let finished = |chunks: Chunks<'_>| chunks.finish().map(|counts| counts.iter_from(0).collect::<Vec<_>>());
        prop_assert_eq!(finished(in_blocks), finished(one_by_one));
    }

    #[test]
    fn runs_of_offsets_become_one_offset_for_each_sample(
        runs in prop::collection::vec((prop_oneof![-3..3_i32, any::<i32>()], prop_oneof![3 => Just(1), 1 => 0..400_u32]), 0..300),
        len in 1..2000_u32,
    ) {
        let mut together = SampleTableBuilder::default();
        together.extend_compositions(runs.iter().copied(), len);
        let mut alone = SampleTableBuilder::default();
        let all = runs.iter().flat_map(|&(offset, count)| std::iter::repeat_n(offset, count as usize));
        let all = all.chain(std::iter::repeat(0)).take(len as usize);
        all.for_each(|offset| alone.push_compositions(offset, 1));
        for builder in [&mut together, &mut alone] {
            builder.sizes.push_run(1, len);
            builder.set_all_sync();
        }
        let together = together.finish(0);
        let alone = alone.finish(0);
        prop_assert_eq!(together.composition_bounds, alone.composition_bounds);
        prop_assert_eq!(together.compositions, alone.compositions);
    }
}
