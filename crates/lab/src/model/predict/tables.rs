//! Reads boxes, and the tables of samples in a `moov`, as far as the model needs them. The origin's
//! own reader is not used: the model must not repeat its mistakes.

use std::iter;

/// The most bytes of a `moov` that are read.
pub(super) const MAX_MOOV: u64 = 64 << 20;

/// Returns the content of each box with a name. All heads have 8 bytes.
pub(super) fn boxes(mut bytes: &[u8], wanted: [u8; 4]) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        while let Some((&[a, b, c, d, name @ ..], rest)) = bytes.split_first_chunk::<8>() {
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?.checked_sub(8)?;
            let (content, next) = rest.split_at_checked(length)?;
            bytes = next;
            if name == wanted {
                return Some(content);
            }
        }
        None
    })
}

/// Returns the content of a box in boxes.
pub(super) fn within<'a>(track: &'a [u8], path: &[[u8; 4]]) -> Option<&'a [u8]> {
    path.iter().try_fold(track, |content, name| boxes(content, *name).next())
}

pub(super) fn handler(track: &[u8]) -> Option<&[u8]> {
    within(track, &[*b"mdia", *b"hdlr"])?.get(8..12)
}

/// Returns the content of a table of samples.
pub(super) fn table(track: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    within(track, &[*b"mdia", *b"minf", *b"stbl", name])
}

/// Returns the numbers of a box behind its version and flags.
pub(super) fn numbers(content: &[u8]) -> impl Iterator<Item = u32> {
    let (numbers, _) = content.as_chunks::<4>();
    numbers.iter().skip(1).map(|number| u32::from_be_bytes(*number))
}

/// Returns pairs of numbers behind their count.
pub(super) fn pairs(content: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let mut numbers = numbers(content).skip(1);
    iter::from_fn(move || Some((numbers.next()?, numbers.next()?)))
}

/// Returns the sizes that a `stsz` lists (ISO/IEC 14496-12, 8.7.3): version, size of all samples,
/// their number, and the size of each sample if these differ.
pub(super) fn sizes(stsz: &[u8]) -> Option<Vec<u64>> {
    let (numbers, _) = stsz.as_chunks::<4>();
    let mut numbers = numbers.iter().map(|number| u64::from(u32::from_be_bytes(*number)));
    let (size, count) = (numbers.nth(1)?, numbers.next()?);
    // If all samples have one size, the box lists none, so its length does not limit their number.
    // Without this limit, the list could fill the memory.
    let count = usize::try_from(count.min(MAX_MOOV / 4)).ok()?;
    Some(if size == 0 { numbers.take(count).collect() } else { vec![size; count] })
}
