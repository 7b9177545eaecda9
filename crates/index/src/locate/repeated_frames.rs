//! Frames that are shown for long, such as the still picture of a song or the slides of a talk.
//!
//! A frame cannot be cut, so its segment, and the sound with it, would last as long as the frame.
//! Moreover, decoders that work on several frames at a time show the last ones only when more
//! follow or the stream ends, and a player does not end the stream while there is sound to buffer.
//! If every frame of a track is a sync sample, latemux repeats long ones about once a second:
//! decoding a sync sample again shows the same picture. The repetitions are samples with the same
//! bytes of the source. All protocols use the result.

use crate::{
    media::{Samples, Track, TrackKind},
    table::sample_builder::SampleTableBuilder,
    table::samples::{Sample, SampleTable},
};

/// Frames that last longer are repeated, in seconds.
const LONG: i64 = 2;

/// Most samples that all tracks with repeated frames of an object may have together: 18 hours at
/// one a second.
pub(crate) const MOST_SAMPLES: u32 = 1 << 16;

/// Size in bytes of the largest frame that is repeated: at one a second, 2 Mbit/s.
const LARGEST: u32 = 250_000;

/// Returns the track with its long frames repeated, or unchanged if that is not possible. Only
/// video whose samples are in the object itself is changed. `room` is the number of samples that
/// the changed track may have. It is reduced by the number that the track then has.
pub(crate) fn repeated(mut track: Track, room: &mut u32) -> Track {
    let seconds = i64::from(track.timescale.get());
    if let Samples::Table(table) = &track.samples
        && track.kind == TrackKind::Video
        && track.location.is_none()
        && let Some(table) = with_repetitions(table, seconds, *room)
    {
        *room -= table.len();
        let bytes = table.bytes_in(0..u32::MAX);
        let duration = (track.end.abs_diff(track.start), track.timescale.get());
        track.average_bitrate = super::track_description::rate(bytes, duration);
        track.samples = Samples::Table(table);
    }
    track
}

/// Returns a table with long frames repeated about every `second` ticks. `None` if there is nothing
/// to repeat, if a sample is not a sync sample, if composition offsets differ, or if the table
/// would have more samples than `most`.
fn with_repetitions(table: &SampleTable, second: i64, most: u32) -> Option<SampleTable> {
    let (lowest, highest) = table.composition_bounds();
    if !table.all_sync() || table.len() > most || lowest != highest {
        return None;
    }
    let is_long = |duration: u32| i64::from(duration) > LONG * second;
    if !table.timing(0).any(|(_, duration, _)| is_long(duration)) {
        return None;
    }
    let times = |sample: &Sample| match is_long(sample.duration) && sample.size <= LARGEST {
        true => u32::try_from(i64::from(sample.duration) / second).ok(),
        false => Some(1),
    };
    // Counting first builds nothing for tracks that are left as they are, of which a file may have
    // a thousand.
    let count = table
        .range(0..u32::MAX)
        .try_fold(0_u32, |count, sample| count.checked_add(times(&sample)?).filter(|count| *count <= most))?;
    if count <= table.len() {
        return None;
    }
    let mut builder = SampleTableBuilder::default();
    builder.set_all_sync();
    for sample in table.range(0..u32::MAX) {
        repeat(&sample, times(&sample)?, &mut builder)?;
    }
    Some(builder.finish(table.decode_time(0)))
}

/// Appends a sample `times` times, with its duration divided among the repetitions. `None` if a
/// duration does not fit.
fn repeat(sample: &Sample, times: u32, builder: &mut SampleTableBuilder) -> Option<()> {
    let Sample { duration, size, .. } = *sample;
    // Rounding each end, not each duration, keeps the sum of the durations exact.
    let until = |number: u32| u64::from(duration) * u64::from(number) / u64::from(times);
    for number in 0..times {
        builder.durations.push(u32::try_from(until(number + 1) - until(number)).ok()?);
        builder.sizes.push(size);
        builder.push_chunk(sample.offset, 1, size.into());
    }
    builder.push_compositions(sample.composition_offset, times);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::samples::tests::build;

    /// Returns frames of these durations in ticks, all of them sync samples.
    fn frames(durations: &[u32], size: u32) -> SampleTable {
        let mut decode_time = 7;
        let sample = |(number, &duration): (u64, &u32)| {
            let sample = Sample {
                offset: 100 + number * u64::from(size),
                size,
                decode_time,
                duration,
                composition_offset: 3,
                sync: true,
            };
            decode_time += i64::from(duration);
            sample
        };
        build(&(0..).zip(durations).map(sample).collect::<Vec<_>>())
    }

    fn repeated(table: &SampleTable) -> Option<SampleTable> {
        with_repetitions(table, 1000, MOST_SAMPLES)
    }

    #[test]
    fn long_frames_are_repeated_every_second() {
        let table = repeated(&frames(&[1000, 3100, 2000, 10_999], 50)).unwrap();
        let got: Vec<_> = table.range(0..u32::MAX).map(|s| (s.offset, s.decode_time, s.duration)).collect();
        let mut want = vec![(100, 7, 1000), (150, 1007, 1033), (150, 2040, 1033), (150, 3073, 1034)];
        want.push((200, 4107, 2000));
        want.extend((0..10).map(|n| (250, 6107 + 10_999 * n / 10, 0)));
        for pair in want.iter().zip(&got) {
            assert_eq!((pair.0.0, pair.0.1), (pair.1.0, pair.1.1));
        }
        assert_eq!(got.len(), want.len());
        assert_eq!(got.iter().map(|sample| u64::from(sample.2)).sum::<u64>(), 1000 + 3100 + 2000 + 10_999);
        assert!(table.all_sync() && table.composition_bounds() == (3, 3));
        assert_eq!(table.bytes_in(0..u32::MAX), 15 * 50);
    }

    #[test]
    fn frames_that_others_depend_on_large_ones_and_too_many_are_left_as_they_are() {
        assert!(repeated(&frames(&[1000, 2000], 50)).is_none());
        assert!(repeated(&frames(&[68_000], LARGEST + 1)).is_none());
        assert!(repeated(&frames(&[68_000, 66_000_000], 50)).is_none());
        assert!(repeated(&frames(&[65_536_000], 50)).is_some());
        let mut samples: Vec<Sample> = frames(&[5000, 5000], 50).range(0..2).collect();
        samples[1].sync = false;
        assert!(repeated(&build(&samples)).is_none());
        (samples[1].sync, samples[1].composition_offset) = (true, 4);
        assert!(repeated(&build(&samples)).is_none());
    }
}
