//! Transport streams taken apart into the elementary streams of their first program. Packets and
//! counters have been checked before ([`latemux_client::check`]).

use crate::{
    CaptureError,
    audio_frames::Framing,
    nal::VideoCoding,
    rendition::Demuxer,
    samples::{AudioSamples, TrackSamples, VideoSamples},
};
use bytes::Bytes;
use latemux_client::{
    failure::{Failure, Reason},
    ts::{PACKET, Packet, ProgramStream, ProgramTables, SCALE, TimeStamps, time_stamps, unwrap_time},
};
use std::collections::{BTreeMap, btree_map::Entry};

/// The streams of a rendition. Kept from one segment to the next.
#[derive(Debug, Default)]
pub(super) struct TsDemuxer {
    tables: ProgramTables,
    streams: BTreeMap<u16, Stream>,
    /// The streams from before a discontinuity, which may continue with other PIDs.
    before: Vec<Stream>,
}

#[derive(Debug)]
struct Stream {
    /// The first PID of the stream, which identifies it even after a discontinuity.
    source: u16,
    coding: Coding,
    language: String,
    /// The bytes of the current PES packet.
    packet: Vec<u8>,
    /// True if decoding can start at that packet.
    is_random_access: bool,
}

#[derive(Debug)]
enum Coding {
    Video(VideoSamples),
    Audio(AudioSamples),
    /// Neither video nor audio, such as ID3.
    Other,
}

impl Demuxer for TsDemuxer {
    /// Prepares for a discontinuity, after which programs, PIDs and times may change. A stream then
    /// continues one of the same coding.
    fn discontinuity(&mut self) {
        self.tables = ProgramTables::default();
        self.before = std::mem::take(&mut self.streams).into_values().collect();
        for stream in &mut self.before {
            stream.packet.clear();
            if let Coding::Audio(audio) = &mut stream.coding {
                audio.restart();
            }
        }
    }

    /// Returns the samples of a segment, video first.
    fn segment(
        &mut self,
        body: &Bytes,
        reference: &mut Option<i64>,
    ) -> Result<Vec<TrackSamples>, CaptureError> {
        for packet in body.chunks_exact(PACKET) {
            self.packet(packet, reference)?;
        }
        let mut found = Vec::new();
        for stream in self.streams.values_mut() {
            stream.flush(reference)?;
            let taken = match &mut stream.coding {
                Coding::Video(video) => video.take()?.map(|(entry, samples)| (SCALE, entry, samples)),
                Coding::Audio(audio) => audio.take(),
                Coding::Other => None,
            };
            if let Some((timescale, entry, samples)) = taken {
                let source = stream.source.into();
                let language = stream.language.clone();
                found.push(TrackSamples { source, timescale, entry, language, samples });
            }
        }
        found.sort_by_key(|found| found.entry.handler != b"vide");
        Ok(found)
    }
}

impl TsDemuxer {
    fn packet(&mut self, bytes: &[u8], reference: &mut Option<i64>) -> Result<(), CaptureError> {
        let bad = |why: &str| Failure::new(Reason::BadTs, why);
        let packet = Packet::parse(bytes).map_err(bad)?;
        if self.tables.has(packet.pid) {
            let streams = self.tables.push(&packet).map_err(bad)?;
            return streams.into_iter().flatten().try_for_each(|stream| self.add(&stream));
        }
        let Some(stream) = self.streams.get_mut(&packet.pid) else { return Ok(()) };
        if packet.is_start {
            stream.flush(reference)?;
            stream.is_random_access = packet.is_random_access;
        } else if stream.packet.is_empty() {
            return Ok(());
        }
        stream.packet.extend_from_slice(packet.payload.unwrap_or_default());
        Ok(())
    }

    /// Adds a stream of the program map, if it is new.
    fn add(&mut self, stream: &ProgramStream) -> Result<(), CaptureError> {
        if let Entry::Vacant(vacant) = self.streams.entry(stream.pid) {
            let coding = coding(stream)?;
            let language = stream.descriptor(0x0a).and_then(|payload| payload.get(..3));
            let language = language.map(|code| String::from_utf8_lossy(code).into_owned());
            let known = self.before.iter().position(|before| before.coding.continues_as(&coding));
            vacant.insert(match known {
                Some(known) => self.before.remove(known),
                None => Stream {
                    source: stream.pid,
                    coding,
                    language: language.unwrap_or_default(),
                    packet: Vec::new(),
                    is_random_access: false,
                },
            });
        }
        Ok(())
    }
}

/// Returns the coding for a `stream_type` (ISO/IEC 13818-1 §2.4.4.9; for Dolby's codings ATSC A/53
/// Part 3 and ETSI EN 300 468 Annex D).
fn coding(stream: &ProgramStream) -> Result<Coding, CaptureError> {
    let audio = |framing| Coding::Audio(AudioSamples::new(framing));
    Ok(match stream.stream_type {
        0x1b => Coding::Video(VideoSamples::new(VideoCoding::Avc)),
        0x24 => Coding::Video(VideoSamples::new(VideoCoding::Hevc)),
        0x0f => audio(Framing::Adts),
        0x03 | 0x04 => audio(Framing::Mpeg),
        0x81 => audio(Framing::Ac3),
        0x87 => audio(Framing::Eac3),
        0x06 if stream.descriptor(0x6a).is_some() => audio(Framing::Ac3),
        0x06 if stream.descriptor(0x7a).is_some() => audio(Framing::Eac3),
        0x05 | 0x06 | 0x0d | 0x15 | 0x86 => Coding::Other,
        kind => {
            return Err(CaptureError::unsupported(format!(
                "a transport stream with stream type {kind:#04x}"
            )));
        }
    })
}

impl Coding {
    /// Returns true if a stream of the other coding can continue this one.
    fn continues_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Video(one), Self::Video(other)) => one.has_coding_of(other),
            (Self::Audio(one), Self::Audio(other)) => one.has_framing_of(other),
            (Self::Other, Self::Other) => true,
            _ => false,
        }
    }
}

impl Stream {
    /// Ends the current PES packet (ISO/IEC 13818-1 §2.4.3.6).
    fn flush(&mut self, reference: &mut Option<i64>) -> Result<(), CaptureError> {
        let packet = std::mem::take(&mut self.packet);
        let is_random_access = std::mem::take(&mut self.is_random_access);
        if packet.is_empty() || matches!(self.coding, Coding::Other) {
            return Ok(());
        }
        let Some(&[0, 0, 1, _, high, low, _, _, header]) = packet.first_chunk::<9>() else {
            return Err(Failure::new(Reason::BadTs, "a PES packet without its header").into());
        };
        let stated = usize::from(u16::from_be_bytes([high, low]));
        let end = if stated == 0 { packet.len() } else { packet.len().min(6 + stated) };
        let data = packet.get(9 + usize::from(header)..end).unwrap_or_default();
        let times = time_stamps(&packet).map(|TimeStamps { decode, presentation }| {
            let decode = unwrap_time(decode, reference.unwrap_or(decode));
            *reference = Some(decode);
            (decode, unwrap_time(presentation, decode))
        });
        match &mut self.coding {
            Coding::Video(video) => video.push(data, times, is_random_access),
            Coding::Audio(audio) => audio.push(data, times.map(|(_, shown)| (shown, SCALE)))?,
            Coding::Other => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_client::ts::crc;

    /// A packet that starts a PES packet or section. Its payload is filled up with 0xff.
    fn packet(pid: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes =
            vec![0x47, 0x40 | u8::try_from(pid >> 8).unwrap(), u8::try_from(pid & 0xff).unwrap(), 0x10];
        bytes.extend_from_slice(payload);
        bytes.resize(PACKET, 0xff);
        bytes
    }

    /// A section with its header and CRC, after a pointer.
    fn section(table: u8, body: &[u8]) -> Vec<u8> {
        let length = u8::try_from(body.len() + 9).unwrap();
        let section = [&[table, 0xb0, length, 0, 1, 0xc1, 0, 0], body].concat();
        [&[0], &section[..], &crc(&section).to_be_bytes()].concat()
    }

    /// The tables of a program with one stream of PID 0x101.
    fn tables(kind: u8, descriptors: &[u8]) -> Vec<u8> {
        let length = u8::try_from(descriptors.len()).unwrap();
        let stream = [&[0xe1, 1, 0xf0, 0, kind, 0xe1, 1, 0xf0, length], descriptors].concat();
        [packet(0, &section(0, &[0, 1, 0xe1, 0])), packet(0x100, &section(2, &stream))].concat()
    }

    #[test]
    fn codings_follow_from_stream_types_and_descriptors() {
        let of = |kind, descriptors: &[u8]| {
            let mut ts = TsDemuxer::default();
            ts.segment(&tables(kind, descriptors).into(), &mut None).map_err(|error| error.to_string())?;
            let stream = ts.streams.remove(&0x101).ok_or("no stream")?;
            Ok::<_, String>((format!("{:?}", stream.coding), stream.language))
        };
        let (coding, language) = of(0x06, &[0x6a, 1, 0, 0x0a, 4, b'd', b'e', b'u', 0]).unwrap();
        assert!(coding.contains("Ac3") && language == "deu", "{coding} {language}");
        assert!(of(0x06, &[0x7a, 1, 0]).unwrap().0.contains("Eac3"));
        assert_eq!(of(0x06, &[]).unwrap().0, "Other");
        assert_eq!(of(0x11, &[]).unwrap_err(), "a transport stream with stream type 0x11 cannot be captured");
    }

    proptest::proptest! {
        #[test]
        fn no_segment_makes_it_panic(
            kind in proptest::sample::select(vec![0x1b_u8, 0x24, 0x0f, 0x03, 0x81, 0x87]),
            payload in proptest::collection::vec(0_u8.., 0..184),
            noise in proptest::collection::vec(0_u8.., 0..600),
        ) {
            let pes = [&[0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1][..], &payload[..payload.len().min(170)]].concat();
            let _ = TsDemuxer::default().segment(&[tables(kind, &[]), packet(0x101, &pes), noise].concat().into(), &mut None);
        }
    }
}
