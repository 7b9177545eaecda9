//! Samples of elementary streams, each with its times.

use crate::{
    CaptureError,
    audio_frames::{self, AudioFormat, Framing},
    nal::{self, VideoCoding},
    sample_entry::{self, TrackEntry},
};
use latemux_client::failure::{Failure, Reason};

/// A sample and its times, in ticks of its track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) decode: i64,
    /// The presentation time.
    pub(super) shown: i64,
    /// The duration, if the coding states it.
    pub(super) duration: Option<u32>,
    /// True if decoding can start here.
    pub(super) is_sync: bool,
    pub(super) data: Vec<u8>,
}

/// The samples of one track in a segment.
#[derive(Debug)]
pub(super) struct TrackSamples {
    /// The track within the segment: its PID or tag type.
    pub(super) source: u32,
    /// Ticks per second; not 0.
    pub(super) timescale: u32,
    pub(super) entry: TrackEntry,
    /// The language as the container states it; empty if it does not.
    pub(super) language: String,
    pub(super) samples: Vec<Sample>,
}

/// Video in the byte stream format, made into samples.
#[derive(Debug)]
pub(super) struct VideoSamples {
    coding: VideoCoding,
    /// The parameter sets of the sample entry.
    sets: Vec<Vec<u8>>,
    entry: Option<TrackEntry>,
    /// True once a parameter set has arrived that is not in the sample entry. From then on, all
    /// parameter sets stay in the samples.
    has_in_band_sets: bool,
    samples: Vec<Sample>,
}

impl VideoSamples {
    pub(super) const fn new(coding: VideoCoding) -> Self {
        Self { coding, sets: Vec::new(), entry: None, has_in_band_sets: false, samples: Vec::new() }
    }

    /// Returns true if both have the same coding.
    pub(super) fn has_coding_of(&self, other: &Self) -> bool {
        self.coding == other.coding
    }

    /// Takes an access unit, with its decode and presentation times. `is_random_access` is true if
    /// the container states that decoding can start here. Bytes without times continue the last
    /// unit.
    pub(super) fn push(&mut self, bytes: &[u8], times: Option<(i64, i64)>, is_random_access: bool) {
        let units = nal::units(bytes);
        let coding = self.coding;
        let sets = || units.iter().filter(|unit| coding.is_parameter_set(unit));
        let unknown = |known: &[Vec<u8>], unit: &[u8]| !known.iter().any(|set| set == unit);
        for set in sets() {
            if unknown(&self.sets, set) {
                match self.entry {
                    None => self.sets.push(set.to_vec()),
                    Some(_) => self.has_in_band_sets = true,
                }
            }
        }
        let mut data = Vec::with_capacity(bytes.len());
        let mut is_sync = is_random_access;
        for unit in &units {
            if coding.is_delimiter(unit) || (!self.has_in_band_sets && coding.is_parameter_set(unit)) {
                continue;
            }
            is_sync |= coding.is_sync(unit);
            data.extend(u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
            data.extend_from_slice(unit);
        }
        match times {
            Some((decode, shown)) => {
                self.samples.push(Sample { decode, shown, duration: None, is_sync, data });
            }
            None => {
                if let Some(last) = self.samples.last_mut() {
                    last.data.extend(data);
                }
            }
        }
    }

    /// Returns the sample entry and the samples since the last call, or `None` if there are no
    /// samples.
    pub(super) fn take(&mut self) -> Result<Option<(TrackEntry, Vec<Sample>)>, CaptureError> {
        let samples = std::mem::take(&mut self.samples);
        if samples.is_empty() {
            return Ok(None);
        }
        let entry = match &self.entry {
            Some(entry) => entry.clone(),
            None => {
                let (format, kind) = match self.coding {
                    VideoCoding::Avc => (*b"avc1", *b"avcC"),
                    VideoCoding::Hevc => (*b"hvc1", *b"hvcC"),
                };
                let made = self.coding.record(&self.sets);
                let made = made.and_then(|record| sample_entry::video_entry(format, kind, &record, None));
                let without = || CaptureError::unsupported("video without valid parameter sets");
                let made = made.ok_or_else(without)?;
                self.entry.insert(made).clone()
            }
        };
        Ok(Some((entry, samples)))
    }
}

/// The times of audio frames. Containers round their times, but frames have an exact number of
/// samples. If the stated time differs from the end of the last frame by at most half a frame, that
/// end is used, so that rounding errors of the container are dropped.
#[derive(Debug, Default)]
struct FrameClock {
    /// The time of the next frame, in samples.
    next: Option<i64>,
}

impl FrameClock {
    /// Returns the time of the next frame. `stated` is the time in the container, in ticks and
    /// ticks per second, if it states one.
    fn next_time(&mut self, stated: Option<(i64, u32)>, rate: u32, samples: u32) -> Option<i64> {
        let stated = stated.map(|(ticks, scale)| {
            let rate = i128::from(rate);
            let scale = i128::from(scale.max(1));
            let rounded = (i128::from(ticks) * rate * 2 + scale).div_euclid(scale * 2);
            i64::try_from(rounded).unwrap_or(0)
        });
        let time = match (stated, self.next) {
            (Some(stated), Some(next)) if stated.abs_diff(next) > u64::from(samples / 2) => stated,
            (stated, next) => next.or(stated)?,
        };
        self.next = Some(time + i64::from(samples));
        Some(time)
    }
}

/// Audio frames made into samples.
#[derive(Debug)]
pub(super) struct AudioSamples {
    framing: Framing,
    /// The start of a frame whose end has not arrived.
    left: Vec<u8>,
    clock: FrameClock,
    format: Option<AudioFormat>,
    samples: Vec<Sample>,
}

impl AudioSamples {
    pub(super) const fn new(framing: Framing) -> Self {
        let clock = FrameClock { next: None };
        Self { framing, left: Vec::new(), clock, format: None, samples: Vec::new() }
    }

    /// Takes bytes. `time` is that of the first frame that begins in them (ISO/IEC 13818-1
    /// §2.4.3.7), in ticks and ticks per second.
    pub(super) fn push(&mut self, bytes: &[u8], time: Option<(i64, u32)>) -> Result<(), Failure> {
        let before = self.left.len();
        let mut buffer = std::mem::take(&mut self.left);
        buffer.extend_from_slice(bytes);
        let (units, whole) = audio_frames::units(self.framing, &buffer)?;
        let mut time = time;
        for unit in units {
            let stated = if unit.start >= before { time.take() } else { None };
            let rate = unit.format.rate;
            let Some(at) = self.clock.next_time(stated, rate, unit.samples) else {
                return Err(Failure::new(Reason::BadAudio, "audio without a time"));
            };
            match &self.format {
                None => self.format = Some(unit.format),
                Some(format) if is_same_stream(format, &unit.format) => {}
                Some(_) => return Err(Failure::new(Reason::BadAudio, "the coding of the audio changes")),
            }
            let data = buffer.get(unit.data).unwrap_or_default().to_vec();
            let duration = Some(unit.samples);
            self.samples.push(Sample { decode: at, shown: at, duration, is_sync: true, data });
        }
        self.left = buffer.split_off(whole.min(buffer.len()));
        Ok(())
    }

    /// Returns the timescale, the sample entry and the samples since the last call, or `None` if
    /// there are no samples.
    pub(super) fn take(&mut self) -> Option<(u32, TrackEntry, Vec<Sample>)> {
        let format = self.format.as_ref()?;
        let samples = std::mem::take(&mut self.samples);
        (!samples.is_empty()).then(|| (format.rate, sample_entry::audio_entry(format), samples))
    }

    /// Drops a partial frame, and uses the next stated time as it is.
    pub(super) fn restart(&mut self) {
        self.left.clear();
        self.clock = FrameClock::default();
    }

    /// Returns true if both have the same framing.
    pub(super) fn has_framing_of(&self, other: &Self) -> bool {
        self.framing == other.framing
    }

    /// Returns true if the end of a frame has not arrived.
    pub(super) fn has_partial_frame(&self) -> bool {
        !self.left.is_empty()
    }
}

/// Returns true if frames can belong to one stream. The sizes of Dolby frames may differ, and with
/// them the bit rate that their record states.
fn is_same_stream(one: &AudioFormat, other: &AudioFormat) -> bool {
    use audio_frames::AudioCoding::{Ac3, Eac3};
    let alike = match (&one.coding, &other.coding) {
        (Ac3(_), Ac3(_)) | (Eac3(_), Eac3(_)) => true,
        (one, other) => one == other,
    };
    alike
        && one.rate == other.rate
        && (one.channels == other.channels || matches!(one.coding, audio_frames::AudioCoding::Mpeg))
}

/// Audio whose frames arrive one by one, and whose configuration arrives separately: AAC in FLV.
#[derive(Debug, Default)]
pub(super) struct AudioPackets {
    clock: FrameClock,
    samples: Vec<Sample>,
}

impl AudioPackets {
    /// Takes a packet of `samples` samples. `time` is in ticks and ticks per second.
    pub(super) fn push(&mut self, data: &[u8], time: (i64, u32), rate: u32, samples: u32) {
        let at = self.clock.next_time(Some(time), rate, samples).unwrap_or_default();
        let duration = Some(samples);
        let data = data.to_vec();
        self.samples.push(Sample { decode: at, shown: at, duration, is_sync: true, data });
    }

    pub(super) fn take(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_times_of_frames_are_corrected_up_to_half_a_frame() {
        let mut clock = FrameClock::default();
        let mut at = |millis| clock.next_time(Some((millis, 1000)), 48_000, 1024).unwrap();
        assert_eq!([0, 21, 42, 64].map(&mut at), [0, 1024, 2048, 3072]);
        // The next frame would be at 85 ms. A gap of a second is kept.
        assert_eq!([1085, 1106].map(&mut at), [52_080, 53_104]);
        assert_eq!(FrameClock::default().next_time(None, 48_000, 1024), None);
    }

    #[test]
    fn parameter_sets_that_change_stay_in_the_samples() {
        let mut video = VideoSamples::new(VideoCoding::Avc);
        // 320×180, Constrained Baseline, by x264.
        let sequence = [
            0x67, 0x42, 0xc0, 0x0c, 0xda, 0x05, 0x06, 0x7e, 0x7c, 0x04, 0x40, 0, 0, 3, 0, 0x40, 0, 0, 0x0c,
            0x83, 0xc5, 0x0a, 0xa8,
        ];
        let start = [0, 0, 0, 1];
        let access = |set: &[u8], slice: u8| {
            [&start[..], &[9, 0xf0], &start, set, &start, &[0x68, 0xcb], &start, &[slice, 1]].concat()
        };
        video.push(&access(&sequence, 0x65), Some((0, 0)), false);
        video.push(&access(&sequence, 0x41), Some((1, 1)), false);
        let (entry, samples) = video.take().unwrap().unwrap();
        assert_eq!(entry.size, (320, 180));
        assert_eq!(
            samples.iter().map(|s| (s.is_sync, s.data.len())).collect::<Vec<_>>(),
            [(true, 6), (false, 6)]
        );
        let mut other = sequence;
        other[3] = 0x1e;
        video.push(&access(&other, 0x65), Some((2, 2)), false);
        video.push(&access(&sequence, 0x65), Some((3, 3)), false);
        let (_, samples) = video.take().unwrap().unwrap();
        assert_eq!(samples.iter().map(|s| s.data.len()).collect::<Vec<_>>(), [39, 39]);
    }

    /// An AAC frame of 12 bytes at 48 kHz, five of which are the sample.
    const FRAME: &[u8] = &[0xff, 0xf1, 0x4c, 0x80, 0x01, 0x9f, 0xfc, 1, 2, 3, 4, 5];

    fn decode_times(audio: &mut AudioSamples) -> Vec<i64> {
        let Some((rate, entry, samples)) = audio.take() else { return Vec::new() };
        assert_eq!((rate, entry.handler.0), (48_000, *b"soun"));
        assert!(samples.iter().all(|sample| sample.data == FRAME[7..] && sample.duration == Some(1024)));
        samples.iter().map(|sample| sample.decode).collect()
    }

    #[test]
    fn frames_may_be_split_over_several_pushes() {
        let mut audio = AudioSamples::new(Framing::Adts);
        let two = [FRAME, FRAME].concat();
        audio.push(&two[..15], Some((90_000, 90_000))).unwrap();
        assert!(audio.has_partial_frame());
        assert_eq!(decode_times(&mut audio), [48_000]);
        // The time belongs to the frame that begins in these bytes, not to the rest of the one
        // before.
        audio.push(&[&two[15..], FRAME].concat(), Some((93_840, 90_000))).unwrap();
        assert!(!audio.has_partial_frame());
        assert_eq!(decode_times(&mut audio), [49_024, 50_048]);
        assert!(decode_times(&mut audio).is_empty(), "all have been taken");
    }

    #[test]
    fn a_restart_drops_partial_frames_and_takes_the_stated_time() {
        let mut audio = AudioSamples::new(Framing::Adts);
        audio.push(&[FRAME, &FRAME[..5]].concat(), Some((0, 90_000))).unwrap();
        audio.restart();
        audio.push(FRAME, Some((1_900, 90_000))).unwrap();
        assert_eq!(decode_times(&mut audio), [0, 1013], "not 1024");
    }

    #[test]
    fn audio_needs_a_time_and_keeps_its_coding() {
        let mut audio = AudioSamples::new(Framing::Adts);
        assert_eq!(audio.push(FRAME, None).unwrap_err().to_string(), "bad_audio: audio without a time");
        let mut audio = AudioSamples::new(Framing::Adts);
        audio.push(FRAME, Some((0, 90_000))).unwrap();
        audio.push(FRAME, None).unwrap();
        assert_eq!(decode_times(&mut audio), [0, 1024], "frames without a time follow each other");
        let mut faster = FRAME.to_vec();
        faster[2] = 0x44;
        let error = audio.push(&faster, None).unwrap_err();
        assert_eq!(error.to_string(), "bad_audio: the coding of the audio changes");
        assert!(audio.push(&[0; 12], None).is_err(), "no frame");
    }

    #[test]
    fn video_without_times_continues_the_access_unit_before() {
        let mut video = VideoSamples::new(VideoCoding::Avc);
        let slice = |byte: u8| [0, 0, 0, 1, 0x41, byte];
        video.push(&slice(1), Some((0, 0)), true);
        video.push(&slice(2), None, false);
        assert_eq!(video.samples.len(), 1);
        assert_eq!(video.samples[0].data, [0, 0, 0, 2, 0x41, 1, 0, 0, 0, 2, 0x41, 2]);
        assert!(video.samples[0].is_sync, "the container states random access");
        let error = video.take().unwrap_err();
        assert_eq!(error.to_string(), "video without valid parameter sets cannot be captured");
        assert!(VideoSamples::new(VideoCoding::Hevc).take().unwrap().is_none(), "no samples");
    }

    #[test]
    fn packets_of_a_known_coding_have_rounded_times() {
        let mut packets = AudioPackets::default();
        for (millis, byte) in [(0, 1), (21, 2), (43, 3)] {
            packets.push(&[byte], (millis, 1000), 48_000, 1024);
        }
        let taken = packets.take();
        let of = |sample: &Sample| (sample.decode, sample.data[0]);
        assert_eq!(taken.iter().map(of).collect::<Vec<_>>(), [(0, 1), (1024, 2), (2048, 3)]);
        assert!(packets.take().is_empty());
    }

    #[test]
    fn dolby_frames_of_one_stream_may_have_other_bit_rates() {
        use audio_frames::AudioCoding::{Aac, Ac3, Mpeg};
        let format = |coding, rate, channels| AudioFormat { coding, rate, channels };
        let ac3 = |byte: u8| format(Ac3(vec![byte]), 48_000, 2);
        assert!(is_same_stream(&ac3(1), &ac3(2)));
        assert!(!is_same_stream(&ac3(1), &format(Ac3(vec![1]), 44_100, 2)));
        let aac = |byte: u8| format(Aac(vec![byte]), 48_000, 2);
        assert!(is_same_stream(&aac(1), &aac(1)) && !is_same_stream(&aac(1), &aac(2)));
        // Joint stereo may change the number of channels from frame to frame.
        assert!(is_same_stream(&format(Mpeg, 44_100, 1), &format(Mpeg, 44_100, 2)));
        assert!(!is_same_stream(&format(Ac3(vec![1]), 48_000, 1), &ac3(1)));
    }
}
