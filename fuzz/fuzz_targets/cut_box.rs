//! Reads the cuts of samples from arbitrary boxes of index MP4s, with the checksums of their bytes
//! as well as with the given ones. No input may panic, a read takes no more than the box has, and
//! cuts are as long as their sample.
//!
//! The input is a byte for the number of regions, one for the first region that is read, one for
//! the number of those, one that is odd if checksums are made right, then the box.
#![no_main]

use latemux_protect::cut_box::{REGION, Regions, checksum};
use libfuzzer_sys::fuzz_target;
use std::ops::Range;

const MOOV: u128 = 1;
const HEAD: usize = 32;
const ENTRY: usize = 16;

fuzz_target!(|data: &[u8]| {
    let Some((&[regions, first, count, is_right], bytes)) = data.split_first_chunk() else { return };
    let mut bytes = bytes.to_vec();
    if is_right % 2 == 1 {
        make_right(&mut bytes, regions.into());
    }
    let first = u64::from(first);
    let last = first + u64::from(count);
    let Some(of) = Regions::of(MOOV, bytes.len() as u64, first * REGION, last * REGION) else { return };
    let slice = |range: Range<u64>| {
        let at = |n: u64| usize::try_from(n).unwrap();
        bytes.get(at(range.start)..at(range.end)).expect("a range within the box")
    };
    let entries = slice(of.entries());
    let Some(range) = of.data(entries) else { return };
    let Some(stated) = of.cuts(entries, slice(range)) else { return };
    // Samples at the first offsets of each region, of sizes that small cuts have.
    for sample in 0..64_u64 {
        for size in [0, 1, 2, 100, 8257] {
            let offset = first * REGION + sample;
            let Some(packed) = stated.of([(offset, size)].into_iter()) else { continue };
            let mut cuts = Vec::new();
            packed.samples().next_sample(size, &mut cuts).unwrap();
            let sum: u64 = cuts.iter().map(|cut| u64::from(cut.clear) + u64::from(cut.data)).sum();
            assert_eq!(sum, u64::from(size));
        }
    }
});

/// Makes the entries of some regions consecutive, and their checksums right.
fn make_right(bytes: &mut [u8], regions: usize) {
    let mut start = HEAD + ENTRY * regions;
    for region in 0..regions {
        let entry = HEAD + ENTRY * region;
        let Some(stated) = bytes.get(entry + 7) else { return };
        let end = (start + usize::from(*stated)).min(bytes.len());
        let Some(data) = bytes.get(start..end) else { return };
        let sum = checksum(MOOV, region as u64, data);
        let number = |n: usize| u32::try_from(n).unwrap().to_be_bytes();
        let of = [&number(start)[..], &number(end - start), &sum.to_be_bytes()].concat();
        let Some(place) = bytes.get_mut(entry..entry + ENTRY) else { return };
        place.copy_from_slice(&of);
        start = end;
    }
}
