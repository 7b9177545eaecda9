//! Elementary streams made samples, each with its times.

use crate::{
    CaptureError,
    entry::{self, Entry},
    frames::{self, Framing, Sound},
    nal::{self, PictureCoding},
};
use latemux_client::failure::{Failure, Reason};

/// A sample, and when it is. Times are in ticks of its track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) decode: i64,
    pub(super) shown: i64,
    /// Where the coding says.
    pub(super) duration: Option<u32>,
    pub(super) sync: bool,
    pub(super) data: Vec<u8>,
}

/// What a segment has of one track.
#[derive(Debug)]
pub(super) struct Elementary {
    /// Which of the segment's tracks: its PID or tag type.
    pub(super) source: u32,
    /// Ticks per second; not 0.
    pub(super) timescale: u32,
    pub(super) entry: Entry,
    /// As in the container; "" where that does not say.
    pub(super) language: String,
    pub(super) samples: Vec<Sample>,
}

/// Pictures in a byte stream.
#[derive(Debug)]
pub(super) struct Picture {
    coding: PictureCoding,
    /// Parameter sets of the sample entry.
    sets: Vec<Vec<u8>>,
    entry: Option<Entry>,
    /// Parameter sets have come that are not in the sample entry: from then on all stay where they are.
    in_band: bool,
    samples: Vec<Sample>,
}

impl Picture {
    pub(super) const fn new(coding: PictureCoding) -> Self {
        Self { coding, sets: Vec::new(), entry: None, in_band: false, samples: Vec::new() }
    }

    /// Whether both are coded alike.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.coding == other.coding
    }

    /// Takes an access unit; `random_access` is what the container says of it. One without time goes on with the one before it.
    pub(super) fn push(&mut self, bytes: &[u8], times: Option<(i64, i64)>, random_access: bool) {
        let units = nal::units(bytes);
        let coding = self.coding;
        let sets = || units.iter().filter(|unit| coding.is_parameter_set(unit));
        let unknown = |known: &[Vec<u8>], unit: &[u8]| !known.iter().any(|set| set == unit);
        for set in sets() {
            if unknown(&self.sets, set) {
                match self.entry {
                    None => self.sets.push(set.to_vec()),
                    Some(_) => self.in_band = true,
                }
            }
        }
        let mut data = Vec::with_capacity(bytes.len());
        let mut sync = random_access;
        for unit in &units {
            if coding.is_delimiter(unit) || (!self.in_band && coding.is_parameter_set(unit)) {
                continue;
            }
            sync |= coding.is_sync(unit);
            data.extend(u32::try_from(unit.len()).unwrap_or(u32::MAX).to_be_bytes());
            data.extend_from_slice(unit);
        }
        match times {
            Some((decode, shown)) => {
                self.samples.push(Sample { decode, shown, duration: None, sync, data });
            }
            None => {
                if let Some(last) = self.samples.last_mut() {
                    last.data.extend(data);
                }
            }
        }
    }

    /// What came since it was last asked.
    pub(super) fn take(&mut self) -> Result<Option<(Entry, Vec<Sample>)>, CaptureError> {
        let samples = std::mem::take(&mut self.samples);
        if samples.is_empty() {
            return Ok(None);
        }
        let entry = match &self.entry {
            Some(entry) => entry.clone(),
            None => {
                let (format, kind) = match self.coding {
                    PictureCoding::Avc => (*b"avc1", *b"avcC"),
                    PictureCoding::Hevc => (*b"hvc1", *b"hvcC"),
                };
                let made = self.coding.record(&self.sets);
                let made = made.and_then(|record| entry::visual(format, kind, &record, None));
                let why = "video without parameter sets that can be read";
                let made = made.ok_or_else(|| CaptureError::Unsupported(why.to_owned()))?;
                self.entry.insert(made).clone()
            }
        };
        Ok(Some((entry, samples)))
    }
}

/// When frames of sound are. Containers round their times; frames are of so many samples. Where both agree to half a frame, the frames are
/// believed, so that rounding is not kept.
#[derive(Debug, Default)]
struct Clock {
    /// When the next frame is, in samples.
    next: Option<i64>,
}

impl Clock {
    /// The time of a frame of so many samples, of which the container says when it is (in seconds as a fraction) or nothing.
    fn of(&mut self, stated: Option<(i64, u32)>, rate: u32, samples: u32) -> Option<i64> {
        let stated = stated.map(|(ticks, scale)| {
            let (rate, scale) = (i128::from(rate), i128::from(scale.max(1)));
            let rounded = (i128::from(ticks) * rate * 2 + scale).div_euclid(scale * 2);
            i64::try_from(rounded).unwrap_or(i64::MAX)
        });
        let time = match (stated, self.next) {
            (Some(stated), Some(next)) if stated.abs_diff(next) > u64::from(samples / 2) => stated,
            (stated, next) => next.or(stated)?,
        };
        self.next = Some(time.saturating_add(samples.into()));
        Some(time)
    }
}

/// Frames of sound.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    /// The start of a frame.
    left: Vec<u8>,
    clock: Clock,
    sound: Option<Sound>,
    samples: Vec<Sample>,
}

impl Frames {
    pub(super) const fn new(framing: Framing) -> Self {
        Self { framing, left: Vec::new(), clock: Clock { next: None }, sound: None, samples: Vec::new() }
    }

    /// Takes bytes; the time is that of the first frame that begins in them (ISO/IEC 13818-1 §2.4.3.7), in ticks and their scale.
    pub(super) fn push(&mut self, bytes: &[u8], time: Option<(i64, u32)>) -> Result<(), Failure> {
        let before = self.left.len();
        let mut buffer = std::mem::take(&mut self.left);
        buffer.extend_from_slice(bytes);
        let (units, whole) = frames::units(self.framing, &buffer)?;
        let mut time = time;
        for unit in units {
            let stated = if unit.start >= before { time.take() } else { None };
            let rate = unit.sound.rate;
            let Some(at) = self.clock.of(stated, rate, unit.samples) else {
                return Err(Failure::new(Reason::BadAudio, "sound that does not say when it is"));
            };
            match &self.sound {
                None => self.sound = Some(unit.sound),
                Some(sound) if same(sound, &unit.sound) => {}
                Some(_) => return Err(Failure::new(Reason::BadAudio, "the coding of the sound changes")),
            }
            let data = buffer.get(unit.data).unwrap_or_default().to_vec();
            self.samples.push(Sample {
                decode: at,
                shown: at,
                duration: Some(unit.samples),
                sync: true,
                data,
            });
        }
        self.left = buffer.split_off(whole.min(buffer.len()));
        Ok(())
    }

    /// What came since it was last asked, and its scale.
    pub(super) fn take(&mut self) -> Option<(u32, Entry, Vec<Sample>)> {
        let sound = self.sound.as_ref()?;
        let samples = std::mem::take(&mut self.samples);
        (!samples.is_empty()).then(|| (sound.rate, entry::sound(sound), samples))
    }

    /// Goes on with other times.
    pub(super) fn restart(&mut self) {
        self.left.clear();
        self.clock = Clock::default();
    }

    /// Whether both are framed alike.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.framing == other.framing
    }

    /// Whether a frame is not whole.
    pub(super) fn is_cut(&self) -> bool {
        !self.left.is_empty()
    }
}

/// Frames of one stream may differ in size, and so in what is said of their bit rate.
fn same(one: &Sound, other: &Sound) -> bool {
    use frames::Coding::{Ac3, Eac3};
    let alike = match (&one.coding, &other.coding) {
        (Ac3(_), Ac3(_)) | (Eac3(_), Eac3(_)) => true,
        (one, other) => one == other,
    };
    alike
        && one.rate == other.rate
        && (one.channels == other.channels || matches!(one.coding, frames::Coding::Mpeg))
}

/// Sound whose frames come apart, one by one, with a configuration of their own: AAC in FLV.
#[derive(Debug, Default)]
pub(super) struct Packets {
    clock: Clock,
    samples: Vec<Sample>,
}

impl Packets {
    /// A packet of so many samples at a rate.
    pub(super) fn push(&mut self, data: &[u8], time: (i64, u32), rate: u32, samples: u32) {
        let at = self.clock.of(Some(time), rate, samples).unwrap_or_default();
        let (duration, data) = (Some(samples), data.to_vec());
        self.samples.push(Sample { decode: at, shown: at, duration, sync: true, data });
    }

    pub(super) fn take(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_keeps_to_its_frames_until_they_are_half_a_frame_off() {
        let mut clock = Clock::default();
        let mut at = |millis| clock.of(Some((millis, 1000)), 48_000, 1024).unwrap();
        assert_eq!([0, 21, 42, 64].map(&mut at), [0, 1024, 2048, 3072]);
        // 85 ms would be the next; a gap of a second is one.
        assert_eq!([1085, 1106].map(&mut at), [52_080, 53_104]);
        assert_eq!(Clock::default().of(None, 48_000, 1024), None);
    }

    #[test]
    fn parameter_sets_that_change_stay_in_the_samples() {
        let mut picture = Picture::new(PictureCoding::Avc);
        // 320×180, Constrained Baseline, by x264.
        let sequence = [
            0x67, 0x42, 0xc0, 0x0c, 0xda, 0x05, 0x06, 0x7e, 0x7c, 0x04, 0x40, 0, 0, 3, 0, 0x40, 0, 0, 0x0c,
            0x83, 0xc5, 0x0a, 0xa8,
        ];
        let start = [0, 0, 0, 1];
        let access = |set: &[u8], slice: u8| {
            [&start[..], &[9, 0xf0], &start, set, &start, &[0x68, 0xcb], &start, &[slice, 1]].concat()
        };
        picture.push(&access(&sequence, 0x65), Some((0, 0)), false);
        picture.push(&access(&sequence, 0x41), Some((1, 1)), false);
        let (entry, samples) = picture.take().unwrap().unwrap();
        assert_eq!(entry.size, (320, 180));
        assert_eq!(
            samples.iter().map(|s| (s.sync, s.data.len())).collect::<Vec<_>>(),
            [(true, 6), (false, 6)]
        );
        let mut other = sequence;
        other[3] = 0x1e;
        picture.push(&access(&other, 0x65), Some((2, 2)), false);
        picture.push(&access(&sequence, 0x65), Some((3, 3)), false);
        let (_, samples) = picture.take().unwrap().unwrap();
        assert_eq!(samples.iter().map(|s| s.data.len()).collect::<Vec<_>>(), [39, 39]);
    }
}
