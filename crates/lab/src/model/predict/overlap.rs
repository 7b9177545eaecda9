//! The bytes that two neighbouring segments with video and audio both read from an MP4.
//!
//! A file holds samples by decode time. Video is decoded earlier than it is presented, audio is
//! not. At the boundary of two segments, the last audio of the first segment therefore lies behind
//! the first frames of the second one. Each segment reads the range in which its samples lie, so
//! both read the bytes between these places. Mostly, these are a sync sample and a frame or two.

use super::tables::{boxes, handler, numbers, pairs, sizes, table, within};
use std::iter;

/// A sample: the bytes of the file where it starts and ends, and its time of presentation in
/// microseconds.
#[derive(Debug, Clone, Copy)]
struct Sample {
    start: u64,
    end: u64,
    time: i64,
}

/// Returns the mean overlap of two neighbouring segments. Every sync sample of the video except
/// the first one counts as a boundary between two segments. Returns `None` if `moov` lists no video
/// with audio, or a single sync sample.
pub(super) fn mean(moov: &[u8]) -> Option<u64> {
    let tracks = || boxes(moov, *b"trak");
    let of = |wanted: &[u8]| tracks().find(|track| handler(track) == Some(wanted));
    let (video, audio) = (of(b"vide")?, of(b"soun")?);
    let sync = sync_samples(video)?;
    let (video, audio) = (samples(video)?, samples(audio)?);
    let overlaps = sync.iter().skip(1).filter_map(|number| overlap(&video, &audio, *number));
    let (count, sum) = overlaps.fold((0, 0), |(count, sum), overlap| (count + 1, sum + overlap));
    u64::checked_div(sum, count)
}

/// Returns the overlap of two neighbouring segments. The second one begins with the sample of the
/// video that has the number `first`.
fn overlap(video: &[Sample], audio: &[Sample], first: usize) -> Option<u64> {
    let (before, first) = (video.get(first.checked_sub(1)?)?, video.get(first)?);
    let cut = audio.partition_point(|sample| sample.time < first.time);
    let end = before.end.max(audio.get(cut.checked_sub(1)?)?.end);
    let start = audio.get(cut).map_or(first.start, |sample| first.start.min(sample.start));
    Some(end.saturating_sub(start))
}

/// Returns the sync samples of a track (ISO/IEC 14496-12, 8.6.2), counted from 0.
fn sync_samples(track: &[u8]) -> Option<Vec<usize>> {
    let sync = numbers(table(track, *b"stss")?).skip(1);
    Some(sync.filter_map(|number| usize::try_from(number).ok()?.checked_sub(1)).collect())
}

/// Returns the samples of a track in the order of decoding.
fn samples(track: &[u8]) -> Option<Vec<Sample>> {
    let ranges = ranges(track, sizes(table(track, *b"stsz")?)?.into_iter())?;
    let ranges = ranges.into_iter().zip(times(track)?);
    Some(ranges.map(|((start, end), time)| Sample { start, end, time }).collect())
}

/// Returns the start and end of samples of these sizes (8.7.4, 8.7.5).
fn ranges(track: &[u8], mut sizes: impl Iterator<Item = u64>) -> Option<Vec<(u64, u64)>> {
    let chunks: Vec<u64> = match table(track, *b"stco") {
        Some(offsets) => numbers(offsets).skip(1).map(u64::from).collect(),
        None => {
            pairs(table(track, *b"co64")?).map(|(high, low)| u64::from(high) << 32 | u64::from(low)).collect()
        }
    };
    let mut runs = numbers(table(track, *b"stsc")?).skip(1);
    let mut run = || Some((runs.next()?, runs.next()?, runs.next()?));
    let (mut current, mut next) = (run()?, run());
    let mut ranges = Vec::new();
    for (number, chunk) in (1..).zip(chunks) {
        if let Some(from_here) = next.filter(|next| next.0 <= number) {
            (current, next) = (from_here, run());
        }
        let mut at = chunk;
        for size in sizes.by_ref().take(usize::try_from(current.1).ok()?) {
            ranges.push((at, at + size));
            at += size;
        }
    }
    Some(ranges)
}

/// Returns the times at which samples are presented, in microseconds (8.6.1, 8.6.6).
fn times(track: &[u8]) -> Option<impl Iterator<Item = i64>> {
    let scale = i64::from(numbers(within(track, &[*b"mdia", *b"mdhd"])?).nth(2)?).max(1);
    // Uses the last edit, because an earlier one would be empty.
    let edit =
        within(track, &[*b"edts", *b"elst"]).and_then(|list| numbers(list).skip(1).skip(1).step_by(3).last());
    let start = i64::from(edit.unwrap_or(0));
    let repeated = |(count, value): (u32, u32)| iter::repeat_n(value, count as usize);
    let durations = pairs(table(track, *b"stts")?).flat_map(repeated);
    let offsets = table(track, *b"ctts").into_iter().flat_map(pairs).flat_map(repeated);
    let mut decoded = 0_i64;
    Some(durations.zip(offsets.chain(iter::repeat(0))).map(move |(duration, offset)| {
        let presented = decoded + i64::from(offset.cast_signed()) - start;
        decoded += i64::from(duration);
        presented * 1_000_000 / scale
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len() + 8).unwrap();
        [&length.to_be_bytes()[..], name, content].concat()
    }

    fn full(name: &[u8; 4], numbers: &[u32]) -> Vec<u8> {
        of(name, &[0].iter().chain(numbers).flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>())
    }

    fn track(handler: &[u8], edit: Option<u32>, tables: &[Vec<u8>]) -> Vec<u8> {
        let times = full(b"mdhd", &[0, 0, 1000, 0]);
        let tables = of(b"minf", &of(b"stbl", &tables.concat()));
        let media = of(b"mdia", &[times, of(b"hdlr", &[&[0; 8], handler].concat()), tables].concat());
        let edits = edit.map(|start| of(b"edts", &full(b"elst", &[1, 4000, start, 1 << 16])));
        of(b"trak", &[edits.unwrap_or_default(), media].concat())
    }

    /// Four frames of 100 bytes, decoded a second before they are presented, and four frames of
    /// audio of 10 bytes, the last two in one chunk: V V A V A V A A.
    fn moov(sync: &[u32]) -> Vec<u8> {
        let video = [
            full(b"stts", &[1, 4, 1000]),
            full(b"ctts", &[1, 4, 1000]),
            full(b"stss", sync),
            full(b"stsz", &[100, 4]),
            full(b"stsc", &[1, 1, 1, 1]),
            full(b"co64", &[4, 0, 0, 0, 100, 0, 210, 0, 320]),
        ];
        let audio = [
            full(b"stts", &[1, 4, 1000]),
            full(b"stsz", &[0, 4, 10, 10, 10, 10]),
            full(b"stsc", &[2, 1, 1, 1, 3, 2, 1]),
            full(b"stco", &[3, 200, 310, 420]),
        ];
        [track(b"soun", None, &audio), track(b"vide", Some(1000), &video)].concat()
    }

    #[test]
    fn segments_overlap_from_a_sync_sample_to_the_audio_before_it() {
        assert_eq!(mean(&moov(&[2, 1, 3])), Some(320 - 210));
        // The second frame of the video follows directly on the first one, and both precede audio.
        assert_eq!(mean(&moov(&[2, 1, 2])), Some(210 - 100));
        assert_eq!(mean(&moov(&[3, 1, 2, 3])), Some(110));
    }

    #[test]
    fn without_a_boundary_there_is_no_overlap() {
        assert_eq!(mean(&moov(&[1, 1])), None);
        assert_eq!(mean(&track(b"vide", None, &[])), None);
        assert_eq!(mean(&[]), None);
    }
}
