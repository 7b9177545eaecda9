use super::{unpacked::UnpackedValues, *};
use proptest::prelude::*;

impl FromIterator<u32> for Column {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        let mut builder = ColumnBuilder::default();
        values.into_iter().for_each(|value| builder.push(value));
        builder.finish()
    }
}

/// Values like those of real tables: noise, long runs, multiples, extremes.
fn values() -> impl Strategy<Value = Vec<u32>> {
    let piece = prop_oneof![
        (any::<u32>(), 1..2000_usize).prop_map(|(v, n)| vec![v; n]),
        prop::collection::vec(200..500_u32, 1..700),
        prop::collection::vec((0..5_u32).prop_map(|v| v * 512), 1..700),
        prop::collection::vec((0..2_u32).prop_map(|v| 1024 - v * 3), 1..700),
        prop::collection::vec(any::<u32>(), 1..100),
        Just(vec![0; 65]),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn sums(values: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let mut sums = vec![0];
    sums.extend(values.iter().map(|&v| {
        sum += u64::from(v);
        sum
    }));
    sums
}

proptest! {
    #[test]
    fn behaves_like_a_vector(values in values(), picks in prop::collection::vec(any::<prop::sample::Index>(), 20)) {
        let column: Column = values.iter().copied().collect();
        let sums = sums(&values);
        prop_assert_eq!(column.len() as usize, values.len());
        prop_assert_eq!(column.total(), *sums.last().unwrap());
        prop_assert_eq!(column.iter_from(0).collect::<Vec<_>>(), values.clone());
        for pick in picks {
            let i = pick.index(values.len() + 1);
            let index = u32::try_from(i).unwrap();
            prop_assert_eq!(column.get(index), values.get(i).copied());
            prop_assert_eq!(column.sum_before(index), sums[i]);
            prop_assert_eq!(column.iter_from(index).take(70).collect::<Vec<_>>(), values[i..].iter().copied().take(70).collect::<Vec<_>>());
            let j = (i + 40).min(values.len());
            let equal = values[i..j].windows(2).all(|w| w[0] == w[1]);
            let constant = values[i..j].first().copied().filter(|_| equal);
            prop_assert_eq!(column.constant_in(index..u32::try_from(j).unwrap()), constant);
            for sum in [sums[i].saturating_sub(1), sums[i], sums[i] + 1] {
                let model = sums.partition_point(|&s| s <= sum) - 1;
                prop_assert_eq!(column.find(sum) as usize, model);
                let (index, before, mut reader) = column.seek_sum(sum);
                prop_assert_eq!((index as usize, before), (model, sums[model]));
                let taken = (values.len() - model).min(100);
                for count in [0, 1, 30, 69] {
                    let at = values.len() - reader.len();
                    let until = (at + count).min(values.len());
                    prop_assert_eq!(reader.sum_next(u32::try_from(count).unwrap()), sums[until] - sums[at]);
                }
                prop_assert_eq!(reader.next(), values.get(model + taken).copied());
                prop_assert_eq!(reader.sum_next(u32::MAX), sums[values.len()] - sums[(model + taken + 1).min(values.len())]);
            }
        }
        for from in [0, values.len() / 2] {
            let mut reader = column.bulk_from(u32::try_from(from).unwrap());
            let mut pieces = Vec::new();
            for size in [1, 64, 511, 3, 700, 2000].into_iter().cycle() {
                let mut piece = vec![0; size];
                let filled = reader.fill(&mut piece);
                pieces.extend_from_slice(&piece[..filled]);
                if filled < size {
                    break;
                }
            }
            prop_assert_eq!(&pieces, &values[from..]);
        }
        let mut reader = column.iter_from(0);
        let mut pieces = Vec::new();
        for size in [1, 64, 511, 3, 700].into_iter().cycle() {
            let mut piece = vec![0; size];
            let filled = reader.fill(&mut piece);
            pieces.extend_from_slice(&piece[..filled]);
            prop_assert_eq!(reader.len(), values.len() - pieces.len());
            if filled < size {
                break;
            }
        }
        prop_assert_eq!(pieces, values);
        prop_assert_eq!(column.iter_from(column.len()).next(), None);
        prop_assert_eq!(column.iter_from(u32::MAX).next(), None);
    }

    #[test]
    fn runs_and_single_pushes_make_the_same_column(runs in prop::collection::vec((0..3_u32, 1..900_u32), 0..40)) {
        let mut by_run = ColumnBuilder::default();
        runs.iter().for_each(|&(value, count)| by_run.push_run(value, count));
        let by_run = by_run.finish();
        let by_value: Column = runs.iter().flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize)).collect();
        prop_assert!(by_run.iter_from(0).eq(by_value.iter_from(0)));
        prop_assert_eq!(by_run.find(700), by_value.find(700));
    }
}

#[test]
fn a_constant_of_billions_costs_nothing() {
    let mut builder = ColumnBuilder::default();
    builder.push_run(1024, u32::MAX);
    builder.push(7);
    let column = builder.finish();
    assert_eq!((column.len(), column.heap_bytes()), (u32::MAX, 0));
    assert_eq!(column.find(1024 * 1_000_000 + 1023), 1_000_000);
}

#[test]
fn takes_the_form_that_is_smallest() {
    let few: Column = std::iter::repeat_n(1, 100_000).chain(std::iter::repeat_n(2, 100_000)).collect();
    assert!(matches!(few.0, ColumnEncoding::Runs(_)), "{} bytes", few.heap_bytes());
    let noise: Column = (0..100_000_u32).map(|i| 300 + (i.wrapping_mul(2_654_435_761) >> 27)).collect();
    assert!(matches!(noise.0, ColumnEncoding::Packed(_)));
    // 32 equally likely values are 5 bits each; the directory and its fresh starts take one more.
    assert!(noise.heap_bytes() < 100_000 * 25 / 32, "{} bytes", noise.heap_bytes());
    // Steps of a frame clock rounded to milliseconds: 33, 33, 34.
    let steps: Column = (0..100_000_u32).map(|i| if i % 3 == 2 { 34 } else { 33 }).collect();
    assert!(steps.heap_bytes() < 100_000 * 2 / 8, "{} bytes", steps.heap_bytes());
}

/// Returns a column and its values, which have just been packed.
fn kept(values: &[u32]) -> (Column, UnpackedValues) {
    let mut column: Column = values.iter().copied().collect();
    let mut unpacked = UnpackedValues::default();
    unpacked.keep(&mut column, values.to_vec());
    (column, unpacked)
}

proptest! {
    #[test]
    fn kept_values_are_read_like_packed_ones(
        values in values(),
        from in any::<prop::sample::Index>(),
        steps in prop::collection::vec((0..4_u8, 0..300_u32), 1..20),
    ) {
        let (column, unpacked) = kept(&values);
        let packed: Column = values.iter().copied().collect();
        let from = u32::try_from(from.index(values.len() + 1)).unwrap();
        let sum = packed.sum_before(from);
        prop_assert_eq!(column.sum_before(from), sum);
        let read = |(before, reader): (u64, Values<'_>)| (before, reader.take(300).collect::<Vec<_>>());
        prop_assert_eq!(read(column.seek(from)), read(packed.seek(from)));
        for &(_, more) in &steps {
            let sum = sum + u64::from(more);
            prop_assert_eq!(column.find(sum), packed.find(sum));
            let read = |(index, before, reader)| (index, read((before, reader)));
            prop_assert_eq!(read(column.seek_sum(sum)), read(packed.seek_sum(sum)));
            let range = from..from.saturating_add(more);
            prop_assert_eq!(column.constant_in(range.clone()), packed.constant_in(range));
        }
        let mut readers = [column.iter_from(from), packed.iter_from(from)];
        let mut bulk = [column.bulk_from(from), packed.bulk_from(from)];
        // A reader goes on when the owner is gone.
        drop(unpacked);
        for (step, count) in steps {
            let [one, two] = &mut readers;
            match step {
                0 => prop_assert_eq!(one.next(), two.next()),
                1 => prop_assert_eq!(one.sum_next(count), two.sum_next(count)),
                2 => {
                    one.skip_next(count);
                    two.skip_next(count);
                }
                _ => {
                    let mut read = [vec![0; count as usize], vec![0; count as usize]];
                    prop_assert_eq!(one.fill(&mut read[0]), two.fill(&mut read[1]));
                    prop_assert_eq!(&read[0], &read[1]);
                }
            }
            prop_assert_eq!(one.len(), two.len());
            let mut read = [vec![0; count as usize], vec![0; count as usize]];
            prop_assert_eq!(bulk[0].fill(&mut read[0]), bulk[1].fill(&mut read[1]));
            prop_assert_eq!(&read[0], &read[1]);
        }
    }
}

#[test]
fn kept_values_are_not_decoded() {
    let values: Vec<u32> = (0..1000_u32).map(|i| 300 + (i.wrapping_mul(2_654_435_761) >> 27)).collect();
    let (mut column, unpacked) = kept(&values);
    assert_eq!(unpacked.heap_bytes(), 4000);
    let ColumnEncoding::Packed(packed) = &mut column.0 else { panic!("it is packed") };
    packed.stream.fill(0);
    let mut read = vec![0; 1000];
    assert!(column.iter_from(0).eq(values.iter().copied()));
    assert_eq!((column.bulk_from(0).fill(&mut read), &read), (1000, &values));
    let owned = column.heap_bytes();
    drop(unpacked);
    assert!(column.iter_from(0).ne(values.iter().copied()));
    // A small piece of memory stays until the column is dropped, and is counted.
    let never_kept: Column = values.iter().copied().collect();
    assert_eq!((column.heap_bytes(), owned), (never_kept.heap_bytes() + 32, owned));
}
