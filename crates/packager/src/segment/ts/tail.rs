//! The clock after the end of the video, while the audio of its last segment goes on.

use super::{
    layout::{AUDIO_LAG, MAX_FILLS, PCR_INTERVAL, PesUnit, decode_clock},
    stream::Stream,
};
use latemux_index::{Sample, Track, media::Samples, title::Segment};
use latemux_isobmff::{Time, Timescale, time::Round};

/// Returns the number of PCR-only packets after the end of the video. `video` is the track, its
/// share of the segment, and the end of its last sample in decode time; `audio` is the track, its
/// share, and its number of samples.
///
/// 0 unless the video track ends here and the audio is presented for longer than the interval of
/// PCRs. In other segments, the next one continues the clock.
pub(super) fn clocks(
    stream: &Stream,
    (video, picture, decode_end): (&Track, &Segment, i64),
    (audio, sound, samples): (&Track, &Segment, u32),
) -> u32 {
    let len = match &video.samples {
        Samples::Table(table) => table.len(),
        Samples::Fragments(table) => table.len(),
    };
    let end =
        |ticks: i64, track: &Track| Time::new(ticks, track.timescale).in_scale(Timescale::MPEG, Round::Down);
    let picture_end = end(picture.end, video);
    let sound_end = end(sound.end, audio);
    if picture.cut.end < len || sound_end - picture_end <= PCR_INTERVAL {
        return 0;
    }
    let ticks = sound_end + AUDIO_LAG - decode_clock(stream, decode_end);
    let count = u64::try_from(ticks).unwrap_or(0).div_ceil(PCR_INTERVAL.unsigned_abs());
    // Frames of audio last for less than the interval, or little longer.
    u32::try_from(count).unwrap_or(u32::MAX).min(samples.saturating_add(MAX_FILLS))
}

/// Returns the PCR-only packets behind a track's samples.
pub(super) fn units(
    stream: &Stream,
    samples: &[Sample],
    count: u32,
) -> impl Iterator<Item = PesUnit> + use<> {
    let last = samples.last().map_or(0, |last| last.decode_time + i64::from(last.duration));
    let start = decode_clock(stream, last);
    let first = u32::try_from(samples.len()).unwrap_or(u32::MAX);
    (0..i64::from(count)).map(move |number| PesUnit {
        first,
        send_time: start + number * PCR_INTERVAL,
        packets: 1,
        ..PesUnit::default()
    })
}
