//! Ranges of missing bytes: grouped into requests, and split into units.

use std::ops::Range;

/// Groups ranges, which are in order, where at most `bridge` bytes lie between them. Each group can
/// be fetched in one request.
pub(crate) fn group(ranges: Vec<Range<u64>>, bridge: u64) -> Vec<Vec<Range<u64>>> {
    let mut groups: Vec<Vec<Range<u64>>> = Vec::new();
    for range in ranges {
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(|last| range.start - last.end <= bridge) => {
                group.push(range);
            }
            _ => groups.push(vec![range]),
        }
    }
    groups
}

/// Splits a range into parts of `most` bytes; the last one may be shorter. Most buffers then have
/// one size, so a new buffer fits where an old one was freed. With equal parts of arbitrary size,
/// the holes of the allocator came to a third of the budget.
pub(crate) fn split(range: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let most = most.max(1);
    let parts = (range.end - range.start).div_ceil(most);
    (0..parts).map(move |n| {
        let start = range.start + n * most;
        start..(start + most).min(range.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_grouped_across_small_gaps() {
        let holes = vec![0..10, 15..20, 40..50, 51..52];
        assert_eq!(group(holes.clone(), 0).len(), 4);
        assert_eq!(group(holes.clone(), 5), [vec![0..10, 15..20], vec![40..50, 51..52]]);
        assert_eq!(group(holes, 20).len(), 1);
        assert_eq!(group(vec![0..10, 10..20], 0).len(), 1, "adjacent ranges are one group");
    }

    proptest! {
        #[test]
        fn units_tile_the_requested_range(start in 0..1000_u64, len in 1..10_000_u64, most in 1..500_u64) {
            let parts: Vec<_> = split(start..start + len, most).collect();
            prop_assert_eq!(parts.first().unwrap().start, start);
            prop_assert_eq!(parts.last().unwrap().end, start + len);
            prop_assert!(parts.windows(2).all(|w| w[0].end == w[1].start));
            let (last, others) = parts.split_last().unwrap();
            prop_assert!(others.iter().all(|part| part.end - part.start == most));
            prop_assert!((1..=most).contains(&(last.end - last.start)));
        }
    }
}
