//! Upper estimates of the sizes of segments made of fragments whose samples are not known. They
//! follow from the sizes of fragments and from the rates of samples in three of them, which are the
//! same on every node.

use crate::{
    carry::Protocol,
    segment::{
        cmaf, f4f,
        ts::{self, UnreadSamples},
    },
};
use latemux_index::{
    MediaIndex, Track,
    media::{Samples, TrackKind},
    table::fragment_table::{FragmentTable, SampleRates},
    title::Segment,
};
use latemux_isobmff::{Time, Timescale, codec::Config, time::Round};

/// Longest time in milliseconds for which samples are estimated, 18 hours: the estimate then fits
/// 64 bits.
const LONGEST_MILLIS: u64 = 1 << 26;

/// Smallest size in bytes of the boxes around the samples of a fragment: `moof`, `mfhd`, `traf`,
/// `tfhd`, `trun` and the header of `mdat`.
const LEAST_BOXES: u64 = 8 + 16 + 8 + 16 + 16 + 8;

/// Bytes of a sample's size in `trun`.
const SIZE_FIELD: u64 = 4;

/// Bytes of the fields of a sample that a segment of several fragments may need, although the
/// fragments do not: their defaults differ.
const JOINED_FIELDS: u64 = 8;

/// The fragments of a segment.
#[derive(Debug, Clone, Copy)]
struct Fragments<'a> {
    object: &'a MediaIndex,
    track: &'a Track,
    /// Number of fragments.
    count: u64,
    /// Size of all fragments in bytes, with the samples of other tracks.
    bytes: u64,
    /// Duration in milliseconds, rounded up.
    millis: u64,
    rates: SampleRates,
}

/// Returns the bytes of a track's samples in a segment, as sent in a protocol, without
/// `container_bytes`.
pub(super) fn share_size(
    object: &MediaIndex,
    track: &Track,
    table: &FragmentTable,
    segment: &Segment,
    protocol: Protocol,
) -> u64 {
    let ticks = Time::new(segment.end - segment.start, track.timescale);
    let millis = u64::try_from(ticks.in_scale(Timescale::MILLIS, Round::Up)).unwrap_or(0);
    let fragments = segment.cut.clone().filter_map(|index| table.get(index));
    let (count, bytes) = fragments.fold((0, 0), |(count, bytes), f| (count + 1, bytes + f.size));
    let millis = millis.min(LONGEST_MILLIS);
    Fragments { object, track, count, bytes, millis, rates: table.rates() }.share_size(protocol)
}

impl Fragments<'_> {
    fn share_size(&self, protocol: Protocol) -> u64 {
        let samples = self.samples();
        let own = self.own_bytes();
        match protocol {
            Protocol::HlsTs => {
                let bytes = own.saturating_sub(self.least_boxes(samples));
                let sync_count = of_rate(self.rates.sync_samples.into(), self.millis).max(self.count);
                let rate = self.sample_rate();
                let millis = self.millis;
                ts::estimated_bytes(
                    self.track,
                    &UnreadSamples { bytes, count: samples, sync_count, rate, millis },
                )
            }
            Protocol::Hds => own + samples * f4f::MAX_OVERHEAD,
            Protocol::Dash | Protocol::HlsCmaf | Protocol::Smooth => {
                let joined = if self.count > 1 { samples * JOINED_FIELDS } else { 0 };
                own + cmaf::MIN_SEGMENT_HEADER + joined
            }
        }
    }

    /// Returns the number of the track's samples.
    fn samples(&self) -> u64 {
        // Samples before 0 belong to the first segment.
        let priming = if self.track.kind == TrackKind::Audio { 2 } else { 0 };
        of_rate(self.sample_rate(), self.millis) + priming
    }

    /// Returns the number of samples in 1000 seconds.
    fn sample_rate(&self) -> u64 {
        let seen = u64::from(self.rates.samples);
        match (&self.track.codec.config, self.track.kind) {
            (Config::Aac(aac), _) => {
                let exact = u64::from(aac.core_sample_rate) * 1000;
                exact.div_ceil(u64::from(aac.frame_length.max(1))).max(seen)
            }
            (_, TrackKind::Video) if seen == 0 => 60_000,
            // AC-3 and MP3 frames last 24 ms and more.
            _ if seen == 0 => 42_000,
            _ => seen,
        }
    }

    /// Returns the bytes of boxes that the fragments hold besides this track's media.
    fn least_boxes(&self, samples: u64) -> u64 {
        // Only equal sizes need not be stated one by one.
        let varies = matches!(self.track.codec.config, Config::Avc(_) | Config::Aac(_));
        let sizes = if varies { samples.saturating_sub(2) * SIZE_FIELD } else { 0 };
        self.count * LEAST_BOXES + sizes
    }

    /// Returns the bytes of the track's samples and of its boxes.
    ///
    /// If other tracks share the fragments, audio and text take the highest rate seen, and video
    /// what the lowest rates of the others leave. Several videos share that out
    /// ([`share_of_video`]). The rates get margins, because they may differ in other fragments: 5 %
    /// of the rate, or 2 % of the fragment if that is more.
    fn own_bytes(&self) -> u64 {
        if !self.is_shared() || self.rates.most_bytes == 0 {
            return self.bytes;
        }
        let others = self.object.tracks.iter().filter(|other| other.id != self.track.id);
        let rates = |track: &Track| match &track.samples {
            Samples::Fragments(table) => table.rates(),
            Samples::Table(_) => SampleRates::default(),
        };
        let (video, rest): (Vec<&Track>, Vec<&Track>) =
            others.partition(|other| other.kind == TrackKind::Video);
        let tolerance = self.bytes / 50 / (rest.len() as u64).max(1);
        let margin = |bytes: u64| (bytes / 20).max(tolerance);
        let most = match self.track.kind {
            TrackKind::Video => {
                let least = rest.iter().map(|other| {
                    let bytes = u64::from(rates(other).least_bytes) * self.millis.saturating_sub(1) / 1000;
                    bytes.saturating_sub(margin(bytes))
                });
                let left = self.bytes.saturating_sub(least.sum());
                let others: Vec<SampleRates> = video.iter().map(|other| rates(other)).collect();
                if others.is_empty() { left } else { share_of_video(left, self.millis, self.rates, &others) }
            }
            kind => {
                let bytes = of_rate(u64::from(self.rates.most_bytes).saturating_mul(1000), self.millis);
                let more = if kind == TrackKind::Text { margin(bytes) } else { margin(bytes).min(bytes) };
                bytes + more + self.count * LEAST_BOXES + self.samples() * (SIZE_FIELD + JOINED_FIELDS)
            }
        };
        most.min(self.bytes)
    }

    /// Returns true if fragments of different tracks overlap: together they are larger than the
    /// object.
    fn is_shared(&self) -> bool {
        let sizes = self.object.tracks.iter().map(|track| match &track.samples {
            Samples::Fragments(table) => table.bytes(),
            Samples::Table(_) => 0,
        });
        sizes.sum::<u64>() > self.object.object_size
    }
}

/// Returns the share that one of several videos has in `bytes` of video that last `millis`, with a
/// margin of 5 %.
///
/// The rates of renditions rise and fall together, so the lowest rates seen belong together, and so
/// do the highest. Between and beyond the two, the rate of one grows evenly with their sum. If the
/// sums are nearly equal, the larger of the two shares counts.
fn share_of_video(bytes: u64, millis: u64, own: SampleRates, others: &[SampleRates]) -> u64 {
    let sum =
        |of: fn(&SampleRates) -> u32| others.iter().chain([&own]).map(|rates| u128::from(of(rates))).sum();
    let (least_sum, most_sum): (u128, u128) = (sum(|rates| rates.least_bytes), sum(|rates| rates.most_bytes));
    let least = u128::from(own.least_bytes);
    let most = u128::from(own.most_bytes);
    let bytes = u128::from(bytes);
    let part = |own: u128, sum: u128| (bytes * own).div_ceil(sum.max(1));
    let is_steady = most_sum * 10 <= least_sum * 11;
    let share = if is_steady {
        part(least, least_sum).max(part(most, most_sum))
    } else {
        let seconds = |rate: u128| (rate * u128::from(millis)).div_ceil(1000);
        let more = bytes.saturating_sub(seconds(least_sum));
        let below = seconds(least_sum).saturating_sub(bytes);
        let grown = |by: u128| (by * (most - least)).div_ceil(most_sum - least_sum);
        (seconds(least) + grown(more)).saturating_sub(grown(below))
    };
    u64::try_from(share + share.div_ceil(20)).unwrap_or(u64::MAX)
}

/// Returns the number of things in `millis`, rounded up, of which 1000 s have `rate`.
fn of_rate(rate: u64, millis: u64) -> u64 {
    let things = (u128::from(rate) * u128::from(millis)).div_ceil(1_000_000);
    u64::try_from(things).unwrap_or(u64::MAX)
}
