//! MPEG-2 transport stream segments (ISO/IEC 13818-1), laid out packet by packet from the index
//! alone.
//!
//! # Contents of a segment
//! A segment holds PAT, PMT, then the PES packets of its tracks by decode time, each in one run of
//! packets. A PES packet holds one video sample, or as many audio frames as last at most 100 ms.
//! The first packet of every PES packet has 8 bytes of adaptation field, for a PCR if its PID
//! carries it. A track thus takes the same bytes muxed and alone.
//!
//! # Time
//! Times are presentation times in 90 kHz, rounded down from the exact time, plus 10 s. Decode
//! times are the source's. Those of a track with negative composition offsets are all earlier by
//! the largest of them. The PCR of a PES packet is its decode time minus 0.7 s. Audio is placed 100
//! ms later than its decode time, so that a segment starts with video. If two PCRs would be more
//! than 100 ms apart, PCR-only packets are put between them, up to the start of the next segment.
//! The PCR is on the video PID. In a segment whose audio starts long before its video, the PCR is
//! on the audio PID.
//!
//! # Continuity
//! Segments are made one by one, on any node, so the counters of the segment before are unknown.
//! Every PID therefore takes a multiple of 16 packets in each segment: counters run from 0 to 15
//! and continue in the next segment. The missing packets are gained by spreading the bytes of the
//! last PES packets thinner. This costs 1.4 kB per PID and segment on average: 0.3 % for 1 Mbit/s
//! at 4 s. The alternative of adding up all segments before would make a segment cost as much as
//! the title. PAT and PMT, one packet each per segment, count with the segment's number.
//!
//! # Unknown sizes
//! Start codes replace four-byte NAL lengths. An access unit delimiter is added if the sample has
//! none. If it has one, stuffing in the PES header takes the place of the added one. With NAL
//! lengths of one or two bytes, only the media determines the size: [`TsPlan::NeedsMedia`].

mod adts;
mod annexb;
mod layout;
mod mux;
mod packet;
mod pes;
mod program_config;
mod psi;
mod stream;
mod stretch;

#[cfg(test)]
mod demux_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod reader_tests;
#[cfg(test)]
mod tests;

use crate::{
    PackError,
    plan::{Part, Transform},
};
use bytes::{Bytes, BytesMut};
use latemux_index::{Sample, Track, table::batches::SampleBatch};
use layout::Unit;
use mux::{Due, Lane, Muxer};
use packet::PACKET;
use stream::{Coding, Stream};

/// One track of a TS segment with its samples.
#[derive(Debug)]
pub struct TsTrack<'a> {
    /// The track itself.
    pub track: &'a Track,
    /// Index of its object in the title.
    pub object: usize,
    /// Samples in decode order.
    pub samples: &'a [Sample],
}

/// The result of planning a TS segment.
#[derive(Debug)]
pub enum TsPlan {
    /// The segment is planned.
    Ready(TsSegment),
    /// The size depends on the media, which must be read first.
    NeedsMedia(TsMedia),
}

/// A planned TS segment.
#[derive(Debug)]
pub struct TsSegment {
    /// Bytes of the segment: a multiple of 188.
    pub content_length: u64,
    /// Source bytes in the order that the muxer takes them.
    pub parts: Vec<Part>,
    /// The muxer, which makes the segment of the source bytes.
    pub muxer: Box<dyn Transform>,
}

/// A TS segment whose size depends on its media.
#[derive(Debug)]
pub struct TsMedia {
    /// Source bytes in the order that [`Self::segment`] takes them.
    pub parts: Vec<Part>,
    tracks: Vec<Owned>,
    number: u32,
}

/// PIDs of the elementary streams.
const VIDEO_PID: u16 = 0x100;
const AUDIO_PID: u16 = 0x101;
/// Time by which bytes arrive before they are decoded, in 90 kHz.
const LEAD: i64 = 63_000;

/// Plans the TS segment `number` (0-based) of at most one video and one audio track, in any order.
/// Audio frames whose length their framing cannot state (over 8 kB in AAC, 65 kB in others) are
/// left out.
///
/// # Errors
/// [`PackError::CannotCarry`] if a transport stream does not carry a track.
pub fn plan_ts(tracks: &[TsTrack<'_>], number: u32) -> Result<TsPlan, PackError> {
    let mut owned = Vec::with_capacity(tracks.len());
    for track in tracks {
        let mut stream = Stream::of(track.track)?;
        stream.learn_lead(track.samples);
        owned.push(Owned { stream, object: track.object, samples: track.samples.to_vec() });
    }
    Ok(plan_owned(owned, number))
}

/// Returns the bytes that a track's samples take in a TS segment, without PAT and PMT, by the
/// arithmetic of [`plan_ts`]. They are the same alone and muxed. If the size depends on the media,
/// each sample is taken to have eight NAL units. 0 for a track that a transport stream does not
/// carry.
#[must_use]
pub fn ts_bytes(track: &Track, samples: impl Iterator<Item = Sample>) -> u64 {
    let Ok(stream) = Stream::of(track) else { return 0 };
    let more = match stream.coding {
        Coding::Avc { length_size, .. } => 8 * u32::from(4_u8.saturating_sub(length_size)),
        _ => 0,
    };
    let samples = samples.map(|sample| Sample { size: sample.size.saturating_add(more), ..sample });
    layout::packets(&stream, samples).saturating_mul(PACKET as u64)
}

/// Returns a function for [`ts_bytes`] of stretches of a track's samples.
pub fn stretch_bytes(track: &Track) -> impl Fn(&SampleBatch<'_>) -> u64 {
    let stream = Stream::of(track).ok();
    let more = match stream.as_ref().map(|stream| &stream.coding) {
        Some(Coding::Avc { length_size, .. }) => 8 * u32::from(4_u8.saturating_sub(*length_size)),
        _ => 0,
    };
    move |stretch| {
        let Some(stream) = &stream else { return 0 };
        stretch::packets(stream, stretch, more).saturating_mul(PACKET as u64)
    }
}

/// Bytes of PAT and PMT at the start of each segment.
pub const PSI_BYTES: u64 = 2 * PACKET as u64;

/// A track with its samples.
#[derive(Debug, Clone)]
struct Owned {
    stream: Stream,
    object: usize,
    samples: Vec<Sample>,
}

fn plan_owned(mut tracks: Vec<Owned>, number: u32) -> TsPlan {
    tracks.sort_by_key(|track| !track.stream.is_video());
    if tracks.iter().any(|track| track.stream.needs_media()) {
        let (due, _) = schedule(&tracks);
        return TsPlan::NeedsMedia(TsMedia { parts: source_parts(&tracks, &due), tracks, number });
    }
    TsPlan::Ready(segment(tracks, number))
}

fn segment(tracks: Vec<Owned>, number: u32) -> TsSegment {
    let (due, pcr_lane) = schedule(&tracks);
    let parts = source_parts(&tracks, &due);
    let sizes = due.iter().flat_map(|due| unit_samples(&tracks, due)).map(|sample| sample.size).collect();
    let lanes: Vec<Lane> = tracks
        .into_iter()
        .map(|track| {
            let pid = if track.stream.is_video() { VIDEO_PID } else { AUDIO_PID };
            Lane { stream: track.stream, pid, counter: 0 }
        })
        .collect();
    let streams: Vec<_> = lanes.iter().map(|lane| (lane.pid, &lane.stream)).collect();
    let program = psi::Program {
        streams: &streams,
        pcr_pid: lanes.get(pcr_lane).map_or(0x1FFF, |lane| lane.pid),
        counter: (number & 0x0F).to_le_bytes()[0],
    };
    let psi = program.packets();
    let packets: u64 = due.iter().map(|due| due.unit.packets).sum();
    TsSegment {
        content_length: PSI_BYTES.saturating_add(packets.saturating_mul(PACKET as u64)),
        parts,
        muxer: Box::new(Muxer::new(psi, lanes, due, sizes)),
    }
}

/// Returns all units in the order of sending, and the index of the track that carries the PCR.
fn schedule(tracks: &[Owned]) -> (Vec<Due>, usize) {
    let mut lanes: Vec<std::iter::Peekable<std::vec::IntoIter<Unit>>> = tracks
        .iter()
        .map(|track| layout::units(&track.stream, &track.samples).into_iter().peekable())
        .collect();
    let mut starts = lanes.iter_mut().map(|units| units.peek().map(|unit| unit.place));
    let (first, second) = (starts.next().flatten(), starts.next().flatten());
    let pcr_lane = match (first, second) {
        (Some(first), Some(second)) => usize::from(second.saturating_add(LEAD / 2) < first),
        (None, Some(_)) => 1,
        _ => 0,
    };
    drop(starts);
    // Audio may last longer than video, up to the presented end of the segment. The video of the
    // next segment has begun long before, and this PCR must not run ahead of that segment's.
    let end = tracks.first().and_then(|track| {
        let last = track.samples.last()?;
        let end = last.decode_time.saturating_add(i64::from(last.duration));
        Some(layout::decode_clock(&track.stream, end))
    });
    let last_pcr = if pcr_lane == 0 { i64::MAX } else { end.unwrap_or(i64::MAX) };

    let mut due = Vec::new();
    loop {
        let next =
            lanes.iter_mut().enumerate().filter_map(|(lane, units)| Some((units.peek()?.place, lane))).min();
        let Some((place, lane)) = next else { break };
        let Some(unit) = lanes.get_mut(lane).and_then(Iterator::next) else { break };
        let pcr = (lane == pcr_lane && place <= last_pcr).then(|| mux::stamp(place.saturating_sub(LEAD)));
        due.push(Due { lane, unit, pcr });
    }
    (due, pcr_lane)
}

fn unit_samples<'a>(tracks: &'a [Owned], due: &Due) -> &'a [Sample] {
    let first = usize::try_from(due.unit.first).unwrap_or(usize::MAX);
    let count = usize::try_from(due.unit.count).unwrap_or(0);
    let samples = tracks.get(due.lane).map_or(&[][..], |track| &track.samples);
    samples.get(first..).and_then(|rest| rest.get(..count)).unwrap_or_default()
}

/// Returns the source bytes of units in order, with neighbours joined.
fn source_parts(tracks: &[Owned], due: &[Due]) -> Vec<Part> {
    let mut parts = Vec::new();
    for due in due {
        let object = tracks.get(due.lane).map_or(0, |track| track.object);
        for sample in unit_samples(tracks, due) {
            let end = sample.offset.saturating_add(u64::from(sample.size));
            Part::push_source(&mut parts, object, sample.offset..end);
        }
    }
    parts
}

impl TsMedia {
    /// Returns the whole segment. `media` holds all bytes of the parts in order. Missing bytes
    /// count as zeros.
    #[must_use]
    pub fn segment(mut self, media: &[u8]) -> Bytes {
        let (due, _) = schedule(&self.tracks);
        let mut rest = media;
        let mut input = BytesMut::with_capacity(media.len() + media.len() / 8);
        let mut wide = self.tracks.clone();
        for due in &due {
            let Some(track) = wide.get_mut(due.lane) else { continue };
            let first = usize::try_from(due.unit.first).unwrap_or(usize::MAX);
            for (i, sample) in unit_samples(&self.tracks, due).iter().enumerate() {
                let size = usize::try_from(sample.size).unwrap_or(usize::MAX);
                let (bytes, after) = rest.split_at(size.min(rest.len()));
                rest = after;
                let start = input.len();
                match track.stream.coding {
                    Coding::Avc { length_size, .. } if length_size != 4 => {
                        annexb::widen(bytes, length_size, &mut input);
                        if let Some(sample) = track.samples.get_mut(first + i) {
                            sample.size = u32::try_from(input.len() - start).unwrap_or(u32::MAX);
                        }
                    }
                    _ => {
                        input.extend_from_slice(bytes);
                        input.resize(start + size, 0);
                    }
                }
            }
        }
        for track in &mut wide {
            if let Coding::Avc { length_size, .. } = &mut track.stream.coding {
                *length_size = 4;
            }
        }
        self.tracks.clear();
        let mut segment = segment(wide, self.number);
        let mut out = BytesMut::new();
        segment.muxer.write(&input, &mut out);
        segment.muxer.finish(&mut out);
        out.freeze()
    }
}
