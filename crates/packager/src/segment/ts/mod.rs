//! MPEG-2 transport stream segments (ISO/IEC 13818-1), laid out packet by packet from the index.
//!
//! # Contents of a segment
//! A segment holds PAT, PMT, then the PES packets of its tracks by decode time, each in one run of
//! packets. A PES packet holds one video sample, or as many audio frames as last at most 100 ms.
//! Its first packet has 8 bytes of adaptation field, for a PCR if its PID carries it. A track thus
//! takes the same bytes muxed and alone.
//!
//! # Time
//! Times are presentation times in 90 kHz, rounded down from the exact time, plus 10 s. Decode
//! times are the source's, all earlier by the largest negative composition offset, if any. The PCR
//! of a PES packet is its decode time minus 0.7 s. Audio is placed 100 ms later than its decode
//! time, so that a segment starts with video. PCR-only packets fill gaps of more than 100 ms
//! between PCRs, up to the start of the next segment, and at the end of the video up to the end of
//! the audio. The PCR is on the video PID, but on the audio PID in a segment whose audio starts
//! long before its video.
//!
//! # Continuity
//! Segments are made one by one, on any node, so the counters of the segment before are unknown.
//! Every PID therefore takes a multiple of 16 packets in each segment: counters run from 0 to 15
//! and continue in the next segment. To gain the missing packets, the bytes of the last PES packets
//! are spread thinner. This costs 1.4 kB per PID and segment on average: 0.3 % for 1 Mbit/s at 4 s.
//! The alternative of adding up all segments before would make a segment cost as much as the title.
//! PAT and PMT, one packet each per segment, count with the segment's number.
//!
//! # Unknown sizes
//! Start codes replace four-byte NAL lengths. An access unit delimiter is added if the sample has
//! none. Otherwise, stuffing of the same length in the PES header takes its place. With NAL lengths
//! of one or two bytes, only the media determines the size: [`TsPlan::NeedsMedia`]. This also holds
//! for samples that are encrypted, since emulation prevention depends on the encrypted bytes.

mod adts;
mod annexb;
mod estimate;
mod layout;
mod mux;
mod packet;
mod pes;
mod program_config;
mod psi;
mod sample_aes;
mod stream;
mod stretch;
mod tail;

#[cfg(test)]
mod demux_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod reader_tests;
#[cfg(test)]
mod tests;

use super::TrackShare;
use crate::{
    PackError,
    part::{Part, Transform},
};
use bytes::{Bytes, BytesMut};
pub(crate) use estimate::UnreadSamples;
use latemux_index::{
    Sample, Track,
    media::{Samples, TrackKind},
    table::batches::SampleBatch,
    title::Segment,
};
use latemux_protect::{CutError, SampleAes};
use mux::{Muxer, PidState, ScheduledUnit};
use packet::PACKET;
use sample_aes::Description;
use std::array;
use stream::{Coding, Stream};

/// The result of planning a TS segment.
#[derive(Debug)]
pub(crate) enum TsPlan {
    Ready(TsSegment),
    /// The size depends on the media, which must be read first.
    NeedsMedia(TsMedia),
}

#[derive(Debug)]
pub(crate) struct TsSegment {
    /// Bytes of the segment: a multiple of 188.
    pub content_length: u64,
    /// Source bytes in the order that the muxer takes them.
    pub parts: Vec<Part>,
    /// The muxer, which makes the segment of the source bytes.
    pub muxer: Box<dyn Transform>,
}

/// A TS segment whose size depends on its media.
#[derive(Debug)]
pub(crate) struct TsMedia {
    /// Source bytes in the order that [`Self::segment`] takes them.
    pub parts: Vec<Part>,
    tracks: Vec<OwnedTrack>,
    /// The order of the samples.
    due: Vec<ScheduledUnit>,
    number: u32,
    /// The cipher of its samples, if they are to be encrypted.
    cipher: Option<Box<SampleAes>>,
}

/// PIDs of the elementary streams.
const VIDEO_PID: u16 = 0x100;
const AUDIO_PID: u16 = 0x101;
/// Time by which bytes arrive before they are decoded, in 90 kHz.
const LEAD: i64 = 63_000;

/// Plans the TS segment `number` (0-based) of at most one video and one audio track, in any order.
/// Audio frames whose length their framing cannot state (over 8 kB in AAC, 65 kB in others) are
/// left out. With a cipher, the samples are encrypted.
///
/// Fails with [`PackError::CannotCarry`] if a transport stream does not carry a track, and with
/// [`PackError::CannotProtect`] if it does not carry it encrypted.
pub(crate) fn plan_ts(
    shares: Vec<TrackShare<'_>>,
    number: u32,
    cipher: Option<Box<SampleAes>>,
) -> Result<TsPlan, PackError> {
    let clocks = tail_clocks(&shares);
    let mut owned = Vec::with_capacity(shares.len());
    for TrackShare { track, object, samples, .. } in shares {
        let mut stream = Stream::of(track)?;
        stream.raise_decode_lead(&samples);
        if cipher.is_some() {
            stream.encryption = Some(Description::of(track, &stream.coding)?);
        }
        let clocks = if track.kind == TrackKind::Video { clocks } else { 0 };
        owned.push(OwnedTrack { stream, object, samples, clocks });
    }
    Ok(plan_owned(owned, number, cipher))
}

/// Returns the number of PCR-only packets that follow the end of the video in a segment, while its
/// audio lasts.
fn tail_clocks(shares: &[TrackShare<'_>]) -> u32 {
    let of_kind = |kind| shares.iter().find(|share| share.track.kind == kind);
    let (Some(video), Some(audio)) = (of_kind(TrackKind::Video), of_kind(TrackKind::Audio)) else { return 0 };
    let (Some(segment), Some(sound), Some(last)) = (&video.segment, &audio.segment, video.samples.last())
    else {
        return 0;
    };
    let Ok(mut stream) = Stream::of(video.track) else { return 0 };
    stream.raise_decode_lead(&video.samples);
    let decode_end = last.decode_time + i64::from(last.duration);
    let samples = u32::try_from(audio.samples.len()).unwrap_or(u32::MAX);
    tail::clocks(&stream, (video.track, segment, decode_end), (audio.track, sound, samples))
}

/// Returns the bytes that a segment of video and audio has more than its tracks alone: those of
/// [`tail_clocks`]. At least as many as sent if the samples are not known.
pub(crate) fn tail_bytes(video: (&Track, &Segment), audio: (&Track, &Segment)) -> u64 {
    let Ok(stream) = Stream::of(video.0) else { return 0 };
    let decode_end = match &video.0.samples {
        Samples::Table(table) => table.decode_time(video.1.cut.end),
        // Frames are decoded no more than a second before they are presented.
        Samples::Fragments(_) => {
            let lead = i64::from(video.0.timescale.get());
            video.1.end.saturating_add(stream.media_time).saturating_sub(lead)
        }
    };
    let samples = match &audio.0.samples {
        Samples::Table(_) => u32::try_from(audio.1.cut.len()).unwrap_or(u32::MAX),
        Samples::Fragments(_) => u32::MAX,
    };
    let clocks = tail::clocks(&stream, (video.0, video.1, decode_end), (audio.0, audio.1, samples));
    u64::from(clocks) * PACKET as u64
}

/// Returns the bytes of a track's samples in a TS segment, without PAT and PMT, by the arithmetic
/// of [`plan_ts`]: the same alone and muxed. If the size depends on the media, each sample is taken
/// to have eight NAL units. 0 for a track that a transport stream does not carry.
pub(crate) fn ts_bytes(track: &Track, samples: impl Iterator<Item = Sample>) -> u64 {
    let Ok(stream) = Stream::of(track) else { return 0 };
    let more = stream.added_bytes();
    let samples = samples.map(|sample| Sample { size: sample.size.saturating_add(more), ..sample });
    layout::packets(&stream, samples) * PACKET as u64
}

/// Returns a function for [`ts_bytes`] of stretches of a track's samples.
pub(crate) fn stretch_bytes(track: &Track) -> impl Fn(&SampleBatch<'_>) -> u64 {
    let stream = Stream::of(track).ok();
    let more = stream.as_ref().map_or(0, Stream::added_bytes);
    move |stretch| {
        let Some(stream) = &stream else { return 0 };
        stretch::packets(stream, stretch, more) * PACKET as u64
    }
}

/// Returns an estimate of [`ts_bytes`] for samples that have not been read.
pub(crate) fn estimated_bytes(track: &Track, samples: &UnreadSamples) -> u64 {
    Stream::of(track).map_or(0, |stream| estimate::packets(&stream, samples) * PACKET as u64)
}

/// Bytes of a packet.
pub(crate) const PACKET_BYTES: u64 = PACKET as u64;
/// Bytes of PAT and PMT at the start of each segment.
pub(crate) const PSI_BYTES: u64 = 2 * PACKET as u64;

#[derive(Debug, Clone)]
struct OwnedTrack {
    stream: Stream,
    object: usize,
    samples: Vec<Sample>,
    /// Number of PCR-only packets behind its samples.
    clocks: u32,
}

fn plan_owned(mut tracks: Vec<OwnedTrack>, number: u32, cipher: Option<Box<SampleAes>>) -> TsPlan {
    tracks.sort_by_key(|track| !track.stream.is_video());
    if cipher.is_some() || tracks.iter().any(|track| track.stream.needs_media()) {
        let (due, _) = schedule(&tracks);
        let parts = source_parts(&tracks, &due);
        return TsPlan::NeedsMedia(TsMedia { parts, tracks, due, number, cipher });
    }
    TsPlan::Ready(segment(tracks, number))
}

fn segment(tracks: Vec<OwnedTrack>, number: u32) -> TsSegment {
    let (due, pcr_track) = schedule(&tracks);
    let parts = source_parts(&tracks, &due);
    let (muxer, content_length) = muxer(tracks, due, pcr_track, number);
    TsSegment { content_length, parts, muxer: Box::new(muxer) }
}

/// Returns the muxer of a segment, and the number of bytes that it writes.
fn muxer(tracks: Vec<OwnedTrack>, due: Vec<ScheduledUnit>, pcr_track: usize, number: u32) -> (Muxer, u64) {
    let mut sizes = Vec::with_capacity(tracks.iter().map(|track| track.samples.len()).sum());
    sizes.extend(due.iter().flat_map(|due| unit_samples(&tracks, due)).map(|sample| sample.size));
    let pids: Vec<PidState> = tracks
        .into_iter()
        .map(|track| {
            let pid = if track.stream.is_video() { VIDEO_PID } else { AUDIO_PID };
            PidState { stream: track.stream, pid, counter: 0 }
        })
        .collect();
    let program = psi::Program {
        streams: &pids,
        pcr_pid: pids.get(pcr_track).map_or(0x1FFF, |state| state.pid),
        counter: (number & 0x0F).to_le_bytes()[0],
    };
    let psi = program.packets();
    let packets: u64 = due.iter().map(|due| due.unit.packets).sum();
    (Muxer::new(psi, pids, due, sizes), PSI_BYTES + packets * PACKET as u64)
}

/// Returns all units in the order of sending, and the index of the track that carries the PCR.
fn schedule(tracks: &[OwnedTrack]) -> (Vec<ScheduledUnit>, usize) {
    // One for video, one for audio: without the second track, it is empty.
    let mut queues: [_; 2] = array::from_fn(|place| {
        let mut units = Vec::new();
        if let Some(track) = tracks.get(place) {
            units = layout::units(&track.stream, &track.samples);
            units.extend(tail::units(&track.stream, &track.samples, track.clocks));
        }
        units.into_iter().peekable()
    });
    let mut starts = queues.iter_mut().map(|units| units.peek().map(|unit| unit.send_time));
    let first = starts.next().flatten();
    let second = starts.next().flatten();
    let pcr_track = match (first, second) {
        (Some(first), Some(second)) => usize::from(second + LEAD / 2 < first),
        (None, Some(_)) => 1,
        _ => 0,
    };
    drop(starts);
    // Audio may last longer than video, up to the presented end of the segment. The video of the
    // next segment has begun long before, and this PCR must not run ahead of that segment's.
    let end = tracks.first().and_then(|track| {
        let last = track.samples.last()?;
        let end = last.decode_time + i64::from(last.duration);
        Some(layout::decode_clock(&track.stream, end))
    });
    let is_end = tracks.first().is_some_and(|track| track.clocks > 0);
    let last_pcr = if pcr_track == 0 || is_end { i64::MAX } else { end.unwrap_or(i64::MAX) };

    let mut due = Vec::with_capacity(queues.iter().map(ExactSizeIterator::len).sum());
    loop {
        let next = queues
            .iter_mut()
            .enumerate()
            .filter_map(|(track, units)| Some((units.peek()?.send_time, track)))
            .min();
        let Some((send_time, track)) = next else { break };
        let Some(unit) = queues.get_mut(track).and_then(Iterator::next) else { break };
        let pcr = (track == pcr_track && send_time <= last_pcr).then(|| mux::stream_time(send_time - LEAD));
        due.push(ScheduledUnit { track, unit, pcr });
    }
    (due, pcr_track)
}

fn unit_samples<'a>(tracks: &'a [OwnedTrack], due: &ScheduledUnit) -> &'a [Sample] {
    let first = due.unit.first as usize;
    let count = due.unit.count as usize;
    let samples = tracks.get(due.track).map_or(&[][..], |track| &track.samples);
    samples.get(first..).and_then(|rest| rest.get(..count)).unwrap_or_default()
}

/// Returns the source bytes of units in order, with neighbours joined.
fn source_parts(tracks: &[OwnedTrack], due: &[ScheduledUnit]) -> Vec<Part> {
    let units = || {
        let object = |due: &ScheduledUnit| tracks.get(due.track).map_or(0, |track| track.object);
        due.iter().map(move |due| (object(due), unit_samples(tracks, due)))
    };
    let samples = units().flat_map(|(object, samples)| samples.iter().map(move |sample| (object, sample)));
    let mut parts = Vec::with_capacity(Part::count(samples));
    for (object, samples) in units() {
        Part::push_samples(&mut parts, object, samples);
    }
    parts
}

/// Returns true if a transport stream carries a track with encrypted samples.
pub(crate) fn can_encrypt(track: &Track) -> bool {
    Stream::of(track).is_ok_and(|stream| Description::of(track, &stream.coding).is_ok())
}

impl TsMedia {
    /// Returns the whole segment from all bytes of the parts. Missing bytes count as zeros. Fails
    /// if a sample cannot be encrypted.
    pub(crate) fn segment(self, media: &[u8]) -> Result<Bytes, CutError> {
        let Self { mut tracks, due, number, mut cipher, .. } = self;
        let mut rest = media;
        let mut input = BytesMut::with_capacity(media.len() + media.len() / 8);
        for due in &due {
            let Some(OwnedTrack { stream, samples, .. }) = tracks.get_mut(due.track) else { continue };
            let first = due.unit.first as usize;
            let count = due.unit.count as usize;
            for sample in samples.iter_mut().skip(first).take(count) {
                let size = sample.size as usize;
                let (bytes, after) = rest.split_at(size.min(rest.len()));
                rest = after;
                let start = input.len();
                stream.write_sample(cipher.as_deref_mut(), bytes, size, &mut input)?;
                sample.size = u32::try_from(input.len() - start).unwrap_or(u32::MAX);
            }
        }
        for track in &mut tracks {
            if let Coding::Avc { length_size, .. } = &mut track.stream.coding {
                *length_size = 4;
            }
        }
        let (due, pcr_track) = schedule(&tracks);
        let (mut muxer, content_length) = muxer(tracks, due, pcr_track, number);
        let mut out = BytesMut::with_capacity(muxer.room(content_length, input.len()));
        muxer.write(&input, &mut out);
        muxer.finish(&mut out);
        Ok(out.freeze())
    }
}

impl Stream {
    /// Appends a sample as the muxer takes it, with NAL lengths of four bytes, and encrypted if
    /// there is a cipher. `size` is what the index states: missing bytes count as zeros.
    fn write_sample(
        &mut self,
        cipher: Option<&mut SampleAes>,
        sample: &[u8],
        size: usize,
        out: &mut BytesMut,
    ) -> Result<(), CutError> {
        let start = out.len();
        match (cipher, &self.coding) {
            (Some(cipher), coding) => {
                if let Some(encryption) = &mut self.encryption {
                    encryption.complete(sample);
                }
                sample_aes::write_sample(cipher, coding, sample, out)?;
            }
            (None, Coding::Avc { length_size, .. }) if *length_size != 4 => {
                annexb::widen(sample, *length_size, out);
            }
            (None, _) => {
                out.extend_from_slice(sample);
                out.resize(start + size, 0);
            }
        }
        Ok(())
    }
}
