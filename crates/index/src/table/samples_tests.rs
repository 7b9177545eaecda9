use super::*;
use crate::table::{layout::TrackLayout, sample_builder::SampleTableBuilder};
use proptest::prelude::*;

/// Builds a table from samples.
pub(crate) fn build(samples: &[Sample]) -> SampleTable {
    let mut builder = SampleTableBuilder::default();
    for (number, sample) in (0..).zip(samples) {
        builder.durations.push(sample.duration);
        builder.sizes.push(sample.size);
        builder.push_compositions(sample.composition_offset, 1);
        if sample.sync {
            builder.push_sync(number);
        }
    }
    let mut rest = samples;
    while let Some(first) = rest.first() {
        let mut end = first.offset;
        let joined = rest
            .iter()
            .take_while(|s| {
                let follows = s.offset == end;
                end = s.offset + u64::from(s.size);
                follows
            })
            .count();
        let (chunk, after) = rest.split_at(joined.min(7));
        let bytes = chunk.iter().map(|s| u64::from(s.size)).sum();
        builder.push_chunk(first.offset, u32::try_from(chunk.len()).unwrap(), bytes);
        rest = after;
    }
    builder.finish(samples.first().map_or(0, |s| s.decode_time))
}

/// Returns the range from the first to the last byte of the first and the last sample.
fn ends(samples: &[Sample]) -> Option<Range<u64>> {
    let first = samples.first()?;
    let last = samples.last()?;
    let end = |sample: &Sample| sample.offset + u64::from(sample.size);
    Some(first.offset.min(last.offset)..end(first).max(end(last)))
}

/// A chunk: its track, its samples' sizes and the bytes before it.
type DealtChunk = (usize, Vec<u32>, u32);

/// Returns the number of some tracks, up to four, and their samples, dealt out in chunks. The
/// tracks take turns as muxers write them, take turns with exceptions, or come in any order.
fn interleaved() -> impl Strategy<Value = (Order, usize, Vec<DealtChunk>)> {
    let order = prop_oneof![Just(Order::InTurn), Just(Order::Mostly), Just(Order::Any)];
    let gap = prop_oneof![8 => Just(0_u32), 1 => 1..5000_u32];
    // `build` takes no more samples for one chunk.
    let chunk = (0..4_usize, prop::collection::vec(200..900_u32, 1..8), gap, 0..20_u8);
    (order, 2..5_usize, prop::collection::vec(chunk, 1..900)).prop_map(|(order, tracks, mut chunks)| {
        for (number, (track, _, gap, odd)) in chunks.iter_mut().enumerate() {
            *track %= tracks;
            if order == Order::InTurn || order == Order::Mostly && *odd > 0 {
                (*track, *gap) = (number % tracks, 0);
            }
        }
        (order, tracks, chunks.into_iter().map(|(track, sizes, gap, _)| (track, sizes, gap)).collect())
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    InTurn,
    Mostly,
    Any,
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (0..4000_u32, 0..3000_u32, -2..3_i32, any::<bool>(), prop_oneof![Just(0_u64), 0..9999_u64]);
    (prop::collection::vec(one, 0..1500), -5000..5000_i64, 0..900_usize, any::<bool>()).prop_map(
        |(rows, mut time, steady, jumps)| {
            let mut offset = 40;
            rows.into_iter()
                .enumerate()
                .map(|(i, (size, duration, composition, sync, gap))| {
                    let duration = if i < steady { 512 } else { duration };
                    // Some offsets go back.
                    offset = if jumps && gap > 5000 { gap * 1_000_003 % (1 << 33) } else { offset + gap };
                    let sample = Sample {
                        offset,
                        size,
                        decode_time: time,
                        duration,
                        composition_offset: composition * 512,
                        sync,
                    };
                    offset += u64::from(size);
                    time += i64::from(duration);
                    sample
                })
                .collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn the_presented_range_covers_all_samples(
        samples in samples(),
        window in any::<[prop::sample::Index; 2]>(),
        media_time in -2000..2000_i64,
    ) {
        let mut table = build(&samples);
        let [a, b] = window.map(|i| i.index(samples.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        table.keep(u32::try_from(a).unwrap()..u32::try_from(b).unwrap());
        let presentation = Presentation { media_time, shift: 0 };
        let start = |s: &Sample| presentation.time(s.decode_time, s.composition_offset);
        let first = samples[a..b].iter().map(start).min();
        let last = samples[a..b].iter().map(|s| start(s) + i64::from(s.duration)).max();
        prop_assert_eq!(table.presented(&presentation), first.zip(last));
    }

    #[test]
    fn gives_back_what_it_was_built_from(
        samples in samples(),
        window in any::<[prop::sample::Index; 2]>(),
        range in any::<[prop::sample::Index; 2]>(),
    ) {
        let mut table = build(&samples);
        let [a, b] = window.map(|i| i.index(samples.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        let number = |i: usize| u32::try_from(i).unwrap();
        table.keep(number(a)..number(b));
        let model = &samples[a..b];
        prop_assert_eq!(table.len() as usize, model.len());
        prop_assert_eq!(table.range(0..u32::MAX).collect::<Vec<_>>(), model.to_vec());

        let [a, b] = range.map(|i| i.index(model.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        let range = number(a)..number(b);
        prop_assert_eq!(table.range(range.clone()).collect::<Vec<_>>(), model[a..b].to_vec());
        prop_assert_eq!(table.bytes_in(range), model[a..b].iter().map(|s| u64::from(s.size)).sum::<u64>());
        prop_assert_eq!(table.get(number(a)), model.get(a).copied());
        let cut = table.in_layout(number(a)..number(b)).unwrap();
        prop_assert_eq!(table.layout.extent([cut].into_iter()), ends(&model[a..b]));
        prop_assert_eq!(table.in_layout(0..number(model.len()) + 1), None);
        let composed = |s: &Sample| s.decode_time + i64::from(s.composition_offset);
        prop_assert_eq!(table.composition_time(number(a)), model.get(a).map(composed));
        let next = model.iter().skip(a).position(|s| s.sync).map(|i| number(i + a));
        prop_assert_eq!(table.sync_from(number(a)), next);
        let before = model.iter().take(a + 1).rposition(|s| s.sync).map(number);
        prop_assert_eq!(table.sync_until(number(a)), before);
        if let Some(at) = model.get(a) {
            let time = at.decode_time + i64::from(at.duration / 2);
            let until = model.partition_point(|s| s.decode_time <= time);
            prop_assert_eq!(table.decoded_until(time) as usize, until);
        }
        let durations = |range: &[Sample]| range.iter().map(|s| s.duration).collect::<Vec<_>>();
        let same = durations(&model[a..b]).windows(2).all(|w| w[0] == w[1]);
        let constant = model[a..b].first().map(|s| s.duration).filter(|_| same);
        prop_assert_eq!(table.constant_duration(number(a)..number(b)), constant);
        let cuts = [number(a), number(a + (b - a) / 3), number(b), number(b), number(model.len()), u32::MAX];
        let mut batches = table.batches(&cuts);
        for cut in cuts.windows(2) {
            let model = &model[cut[0] as usize..(cut[1] as usize).min(model.len())];
            let batch = batches.next_batch().unwrap();
            if let Some(first) = model.first() {
                prop_assert_eq!(batch.decode_time, first.decode_time);
            }
            prop_assert_eq!(batch.durations, durations(model));
            prop_assert_eq!(batch.sizes, model.iter().map(|s| s.size).collect::<Vec<_>>());
            prop_assert_eq!(batch.composition_offsets, model.iter().map(|s| s.composition_offset).collect::<Vec<_>>());
            prop_assert_eq!(batch.sync, model.iter().map(|s| s.sync).collect::<Vec<_>>());
            let mut singles = batch.one_by_one();
            for (index, sample) in model.iter().enumerate().filter(|(_, sample)| sample.size % 3 != 0) {
                let one = singles.get(index);
                prop_assert_eq!((one.decode_time, one.sizes), (sample.decode_time, &[sample.size][..]));
                prop_assert_eq!((one.durations, one.sync), (&[sample.duration][..], &[sample.sync][..]));
                prop_assert_eq!(one.composition_offsets, &[sample.composition_offset]);
            }
            prop_assert!(singles.get(model.len()).sizes.is_empty());
        }
        prop_assert!(batches.next_batch().is_none());
        let mut singles = table.singles_from(number(a)).unwrap();
        for (index, sample) in (0..).zip(model).skip(a).filter(|(_, sample)| sample.size % 3 != 0) {
            let one = singles.get(index).unwrap();
            prop_assert_eq!((one.decode_time, one.sizes, one.durations), (sample.decode_time, &[sample.size][..], &[sample.duration][..]));
            prop_assert_eq!((one.composition_offsets, one.sync), (&[sample.composition_offset][..], &[sample.sync][..]));
        }
        prop_assert!(singles.get(number(model.len())).is_none());
        let mut gops = Vec::new();
        table.each_gop(|index, decoded, composed, earliest| gops.push((index, decoded, composed, earliest)));
        let starts: Vec<usize> = (0..model.len()).filter(|&i| model[i].sync).collect();
        let ends = starts.iter().copied().skip(1).chain([model.len()]);
        let expected = starts.iter().zip(ends).map(|(&start, end)| {
            let earliest = model[start..end].iter().map(composed).min().unwrap();
            (number(start), model[start].decode_time, composed(&model[start]), earliest)
        });
        prop_assert_eq!(gops, expected.collect::<Vec<_>>());
        let mut batches = table.batches(&cuts).without_compositions();
        let batch = batches.next_batch().unwrap();
        prop_assert!(batch.composition_offsets.is_empty() && batch.sizes.len() == batch.sync.len());
        let presentation = Presentation { media_time: 300, shift: 0 };
        let start = model.iter().map(|s| composed(s) - 300).min();
        let end = model.iter().map(|s| composed(s) - 300 + i64::from(s.duration)).max();
        prop_assert_eq!(table.presented(&presentation), start.zip(end));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn tracks_described_by_each_other_lie_where_they_did(
        (order, used, chunks) in interleaved(),
        at in any::<prop::sample::Index>(),
        cuts in any::<[[prop::sample::Index; 2]; 4]>(),
    ) {
        let (mut tracks, count): (Vec<Vec<Sample>>, _) = (vec![Vec::new(); used], chunks.len());
        let mut offset = 48;
        for (track, sizes, gap) in chunks {
            offset += u64::from(gap);
            for size in sizes {
                let decode_time = i64::try_from(tracks[track].len()).unwrap() * 512;
                tracks[track].push(Sample { offset, size, decode_time, duration: 512, composition_offset: 0, sync: true });
                offset += u64::from(size);
            }
        }
        let mut tables: Vec<SampleTable> = tracks.iter().map(|samples| build(samples)).collect();
        let alone: usize = tables.iter().map(SampleTable::heap_bytes).sum();
        SampleTable::interleave(&mut tables.iter_mut().collect::<Vec<_>>());
        let among: usize = tables.iter().map(SampleTable::heap_bytes).sum();
        prop_assert!(among <= alone + alone / 4 + 4 * size_of::<TrackLayout>(), "{among} bytes, {alone} alone");
        if order == Order::InTurn && count > 300 {
            prop_assert!(Arc::ptr_eq(&tables[0].layout, &tables[1].layout), "described by each other");
        }
        for (table, samples) in tables.iter().zip(&tracks) {
            prop_assert_eq!(&table.range(0..u32::MAX).collect::<Vec<_>>(), samples);
            let from = at.index(samples.len() + 1);
            let range = u32::try_from(from).unwrap()..u32::MAX;
            prop_assert_eq!(table.range(range).take(30).collect::<Vec<_>>(), samples[from..].iter().copied().take(30).collect::<Vec<_>>());
        }
        let cuts: Vec<Range<u32>> = cuts.iter().zip(&tracks).map(|(cut, samples)| {
            let [a, b] = cut.map(|i| u32::try_from(i.index(samples.len() + 1)).unwrap());
            a.min(b)..a.max(b)
        }).collect();
        let of = |track: usize| &tracks[track][cuts[track].start as usize..cuts[track].end as usize];
        // All tracks, and every pair, in any order.
        let mut groups = vec![(0..used).collect::<Vec<_>>()];
        groups.extend((0..used).flat_map(|a| (0..used).map(move |b| vec![a, b])));
        for group in groups {
            if !group.iter().all(|&track| Arc::ptr_eq(&tables[track].layout, &tables[group[0]].layout)) {
                continue;
            }
            let extents = group.iter().filter_map(|&track| ends(of(track)));
            let model = extents.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
            let cuts = group.iter().map(|&track| tables[track].in_layout(cuts[track].clone()).unwrap());
            prop_assert_eq!(tables[group[0]].layout.extent(cuts), model, "{:?}", group);
        }
    }
}
