//! The packets of samples whose sizes and times are not known: an upper estimate for the bit rates
//! of fragments.

use super::{
    annexb::DELIMITER_LEN,
    layout::MAX_FRAMES,
    packet::{PAYLOAD, PCR_FIELD},
    pes,
    stream::{Coding, Stream},
};

/// The known properties of a track's samples in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnreadSamples {
    /// Largest number of media bytes.
    pub(crate) bytes: u64,
    /// Number of samples.
    pub(crate) count: u64,
    /// Number of sync samples.
    pub(crate) sync_count: u64,
    /// Samples in 1000 seconds.
    pub(crate) rate: u64,
    /// Duration in milliseconds.
    pub(crate) millis: u64,
}

/// Most bytes of stuffing in the last packet of a unit.
const MOST_STUFFING: u64 = PAYLOAD as u64 - 1;

/// Mean number of bytes of stuffing of units whose sizes vary.
const MEAN_STUFFING: u64 = PAYLOAD as u64 / 2;

/// Four times the standard deviation of the stuffing of a unit.
const DEVIATIONS: u64 = 4 * 54;

/// Frames per second that video rarely exceeds.
const MOST_FRAMES: u64 = 60;

/// Units that hold samples, with the bytes that each takes besides media and stuffing.
struct Units {
    count: u64,
    /// The number of units if there are more samples than expected.
    most: u64,
    header: u64,
    /// All bytes of media, with headers of frames.
    payload: u64,
    /// True if the sizes of samples vary, and stuffing with them.
    varies: bool,
    /// True if most units have nearly the same size.
    is_even: bool,
}

/// Returns the packets of a track's samples in a segment.
///
/// The result is not below the true number if there are not more samples than stated, except that
/// the stuffing of units of varying sizes may exceed four standard deviations. If this costs less
/// than 3 % of the media, the result holds for any stuffing, and for up to [`MOST_FRAMES`].
pub(super) fn packets(stream: &Stream, samples: &UnreadSamples) -> u64 {
    let units = Units::of(stream, samples);
    let usual = units.payload + units.count * (units.header + units.usual_stuffing());
    let most = units.payload + units.most * (units.header + MOST_STUFFING);
    let margin = if units.varies {
        let by_chance = DEVIATIONS * units.count.isqrt().saturating_add(1);
        by_chance.max(units.payload * 3 / 100)
    } else {
        u64::MAX
    };
    let packets = usual.saturating_add(margin).min(most).div_ceil(PAYLOAD as u64);
    // Stuffing completes 16 packets (see `layout`).
    packets.next_multiple_of(16) + fills(samples)
}

impl Units {
    /// Returns the mean number of bytes of stuffing in a unit. If most units have nearly the same
    /// size, that of a unit of mean size, if it is more.
    fn usual_stuffing(&self) -> u64 {
        if !self.is_even {
            return MEAN_STUFFING;
        }
        let mean = self.payload / self.count.max(1) + self.header;
        MEAN_STUFFING.max(mean.next_multiple_of(PAYLOAD as u64) - mean)
    }

    fn of(stream: &Stream, samples: &UnreadSamples) -> Self {
        let UnreadSamples { bytes, count, sync_count, rate, millis } = *samples;
        match &stream.coding {
            Coding::Avc { parameter_sets, .. } => Self {
                count,
                most: count.max(MOST_FRAMES * millis.div_ceil(1000)),
                header: (pes::header_len(true) + DELIMITER_LEN + PCR_FIELD) as u64,
                payload: bytes
                    + sync_count * parameter_sets.len() as u64
                    + count * u64::from(stream.added_bytes()),
                varies: true,
                is_even: false,
            },
            coding => {
                let frame_header = if let Coding::Aac(adts) = coding { adts.len() as u64 } else { 0 };
                // A unit lasts for at most 100 ms.
                let together = (rate / 10_000).clamp(1, u64::from(MAX_FRAMES));
                let units = count.div_ceil(together);
                Self {
                    count: units,
                    most: units,
                    header: (pes::header_len(false) + PCR_FIELD) as u64,
                    payload: bytes + count * frame_header,
                    // Frames of other codings mostly have one size.
                    varies: matches!(coding, Coding::Aac(_)),
                    is_even: matches!(coding, Coding::Aac(_)),
                }
            }
        }
    }
}

/// Returns the number of packets that hold only a PCR: samples that last longer than 100 ms need
/// them.
fn fills(samples: &UnreadSamples) -> u64 {
    let tenths = 10_000 / samples.rate.max(1);
    (samples.count * tenths).min(samples.millis.div_ceil(100))
}
