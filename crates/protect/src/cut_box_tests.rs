use super::*;
use proptest::prelude::*;

const MOOV: u128 = 7;

/// Returns the box of samples, each with its offset and its cuts.
fn made(samples: &BTreeMap<u64, Vec<(u32, u32)>>) -> Vec<u8> {
    let mut writer = CutBoxWriter::new(MOOV);
    for (offset, cuts) in samples {
        let cuts: Vec<Cut> = cuts.iter().map(|&(clear, data)| Cut { clear, data }).collect();
        writer.add(*offset, &cuts);
    }
    writer.finish().unwrap()
}

/// Reads the cuts of samples as the origin does, by two reads.
fn read(bytes: &[u8], moov: u128, samples: &[(u64, u32)]) -> Option<PackedCuts> {
    let first = samples.iter().map(|sample| sample.0).min()?;
    let last = samples.iter().map(|sample| sample.0).max()?;
    let regions = Regions::of(moov, bytes.len() as u64, first, last)?;
    let at = |range: Range<u64>| {
        bytes.get(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()).unwrap()
    };
    let entries = at(regions.entries());
    regions.cuts(entries, at(regions.data(entries)?))?.of(samples.iter().copied())
}

fn size(cuts: &[(u32, u32)]) -> u32 {
    cuts.iter().map(|(clear, data)| clear + data).sum()
}

fn packed(samples: &[&[(u32, u32)]]) -> PackedCuts {
    let mut packed = PackedCuts::default();
    for cuts in samples {
        let cuts: Vec<Cut> = cuts.iter().map(|&(clear, data)| Cut { clear, data }).collect();
        packed.push(&cuts);
    }
    packed
}

fn some() -> BTreeMap<u64, Vec<(u32, u32)>> {
    let samples = [
        (0, vec![(40, 900)]),
        (1000, vec![(5, 90), (6, 70)]),
        (REGION - 1, vec![(700, 0)]),
        (REGION, vec![(7, 3000)]),
        (5 * REGION + 9, vec![(70_000, 1 << 27)]),
    ];
    samples.into_iter().collect()
}

#[test]
fn the_layout_is_as_stated() {
    let bytes = made(&[(3, vec![(5, 200)])].into_iter().collect());
    // A distance, the number of cuts, the clear bytes, and 200 as 72 + 128.
    let data = [3, 1, 5, 0xc8, 1];
    assert_eq!(bytes.len(), 32 + 16 + data.len());
    assert_eq!(bytes[..4], 53_u32.to_be_bytes());
    assert_eq!((&bytes[4..8], &bytes[24..32]), (&b"uuid"[..], &[0, 0, 0, 0, 0, 0, 0, 1][..]));
    assert_eq!(bytes[32..40], [0, 0, 0, 48, 0, 0, 0, 5]);
    assert_eq!(bytes[48..], data);
}

#[test]
fn cuts_are_found_by_the_offsets_of_samples_in_any_order() {
    let samples = some();
    let bytes = made(&samples);
    let of = |offset: u64| (offset, size(&samples[&offset]));
    assert_eq!(read(&bytes, MOOV, &[of(1000), of(0)]), Some(packed(&[&samples[&1000], &samples[&0]])));
    let far = 5 * REGION + 9;
    assert_eq!(read(&bytes, MOOV, &[of(REGION), of(far)]), Some(packed(&[&[(7, 3000)], &samples[&far]])));
    // Samples that are not stated, and sizes that are not those of the cuts.
    for wrong in [(1, 940), (0, 939), (REGION, 3006), (6 * REGION, 1), (u64::MAX, 1), (2 * REGION, 0)] {
        assert_eq!(read(&bytes, MOOV, &[wrong]), None, "{wrong:?}");
    }
}

#[test]
fn the_reads_of_a_segment_do_not_grow_with_the_title() {
    for regions in [4, 4000] {
        let mut samples = BTreeMap::new();
        for number in 0..regions * 16 {
            samples.insert(number * (REGION / 16), vec![(6, 65_530)]);
        }
        let bytes = made(&samples);
        let of = Regions::of(MOOV, bytes.len() as u64, REGION, 3 * REGION - 1).unwrap();
        let entries = of.entries();
        assert_eq!(entries.end - entries.start, 32);
        let entries = &bytes[usize::try_from(entries.start).unwrap()..usize::try_from(entries.end).unwrap()];
        let data = of.data(entries).unwrap();
        assert!(data.end - data.start <= 32 * 8, "{data:?}");
    }
}

#[test]
fn cuts_of_another_index_mp4_are_not_used() {
    let samples = some();
    let bytes = made(&samples);
    let wanted = [(1000, 171)];
    assert!(read(&bytes, MOOV, &wanted).is_some());
    assert_eq!(read(&bytes, MOOV + 1, &wanted), None);
    // The same cuts, of the region beside it.
    let mut shifted = bytes.clone();
    shifted.copy_within(32..48, 48);
    assert_eq!(read(&shifted, MOOV, &[(REGION + 1000, 171)]), None);
}

/// The lengths of the sample stay right, so that only the checksum tells.
#[test]
fn a_byte_more_that_is_clear_is_noticed() {
    let mut bytes = made(&[(3, vec![(5, 100)])].into_iter().collect());
    assert_eq!(read(&bytes, MOOV, &[(3, 105)]), Some(packed(&[&[(5, 100)]])));
    let [.., clear, data] = &mut bytes[..] else { panic!("cuts") };
    *clear += 1;
    *data -= 1;
    assert_eq!(read(&bytes, MOOV, &[(3, 105)]), None);
}

#[test]
fn a_region_with_too_many_cuts_is_left_out() {
    let mut samples = BTreeMap::new();
    for offset in 0..u64::from(MOST_BYTES) {
        samples.insert(offset, vec![(1, 0)]);
    }
    samples.insert(REGION, vec![(1, 99)]);
    let bytes = made(&samples);
    assert_eq!(read(&bytes, MOOV, &[(0, 1)]), None);
    assert_eq!(read(&bytes, MOOV, &[(REGION, 100)]), Some(packed(&[&[(1, 99)]])));
}

proptest! {
    #[test]
    fn cuts_are_read_as_they_were_written(
        samples in prop::collection::btree_map(
            0_u64..8 * REGION,
            prop::collection::vec((0_u32..100_000, 0_u32..1 << 24), 1..5),
            1..60,
        ),
    ) {
        let bytes = made(&samples);
        let wanted: Vec<(u64, u32)> = samples.iter().map(|(offset, cuts)| (*offset, size(cuts))).collect();
        let cuts: Vec<&[(u32, u32)]> = samples.values().map(Vec::as_slice).collect();
        prop_assert_eq!(read(&bytes, MOOV, &wanted), Some(packed(&cuts)));
    }

    /// A byte that is changed or missing gives no other cuts.
    #[test]
    fn damaged_boxes_give_no_other_cuts(at in any::<prop::sample::Index>(), flip in 1_u8.., cut in any::<bool>()) {
        let samples = some();
        let mut bytes = made(&samples);
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= flip;
        }
        for (offset, cuts) in &samples {
            if let Some(read) = read(&bytes, MOOV, &[(*offset, size(cuts))]) {
                prop_assert_eq!(read, packed(&[cuts]));
            }
        }
    }
}
