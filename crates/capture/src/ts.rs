//! Transport streams taken apart (ISO/IEC 13818-1 §2.4): the elementary streams of the first program. What is wrong with packets and counters
//! was found before ([`latemux_client::check`]).

use crate::{
    CaptureError,
    frames::Framing,
    nal::PictureCoding,
    stream::{Elementary, Frames, Picture},
};
use latemux_client::{
    check::ts::{near, stamps_of},
    failure::{Failure, Reason},
};
use std::collections::{BTreeMap, btree_map::Entry};

const PACKET: usize = 188;
/// Ticks per second of time stamps.
pub(super) const SCALE: u32 = 90_000;
/// The most bytes of a table.
const MAX_TABLE: usize = 4096;

/// The streams of a rendition, from segment to segment.
#[derive(Debug, Default)]
pub(super) struct Ts {
    /// PID of the program map.
    program: Option<u16>,
    /// Tables as far as they are there.
    tables: BTreeMap<u16, Vec<u8>>,
    streams: BTreeMap<u16, Stream>,
    /// Streams before a discontinuity, behind which they may have other PIDs.
    before: Vec<Stream>,
}

#[derive(Debug)]
struct Stream {
    /// Its PID at first.
    source: u16,
    coding: Coding,
    language: String,
    /// The PES packet that is being put together, and whether it is marked as one for random access.
    packet: Vec<u8>,
    random_access: bool,
}

#[derive(Debug)]
enum Coding {
    Picture(Picture),
    Sound(Frames),
    /// Neither seen nor heard: ID3 and such.
    Other,
}

impl Ts {
    /// Behind this there may be other programs, PIDs and times. Streams go on as those that are coded alike.
    pub(super) fn discontinuity(&mut self) {
        self.program = None;
        self.tables.clear();
        self.before = std::mem::take(&mut self.streams).into_values().collect();
        for stream in &mut self.before {
            stream.packet.clear();
            if let Coding::Sound(frames) = &mut stream.coding {
                frames.restart();
            }
        }
    }

    /// All of a segment. `reference` is a time near which all time stamps are, whose 33 bits come round.
    pub(super) fn segment(
        &mut self,
        body: &[u8],
        reference: &mut Option<i64>,
    ) -> Result<Vec<Elementary>, CaptureError> {
        for packet in body.chunks_exact(PACKET) {
            self.packet(packet, reference)?;
        }
        let mut found = Vec::new();
        for stream in self.streams.values_mut() {
            stream.flush(reference)?;
            let (timescale, taken) = match &mut stream.coding {
                Coding::Picture(picture) => (SCALE, picture.take()?),
                Coding::Sound(frames) => match frames.take() {
                    Some((rate, entry, samples)) => (rate, Some((entry, samples))),
                    None => (SCALE, None),
                },
                Coding::Other => (SCALE, None),
            };
            if let Some((entry, samples)) = taken {
                let language = stream.language.clone();
                found.push(Elementary { source: stream.source.into(), timescale, entry, language, samples });
            }
        }
        // Pictures first, as in other files.
        found.sort_by_key(|found| found.entry.handler != b"vide");
        Ok(found)
    }

    fn packet(&mut self, packet: &[u8], reference: &mut Option<i64>) -> Result<(), CaptureError> {
        let &[_, high, low, control, ..] = packet else { return Ok(()) };
        let (starts, pid) = (high & 0x40 != 0, u16::from(high & 0x1f) << 8 | u16::from(low));
        let (mut payload_at, mut random_access) = (4, false);
        if control & 0x20 != 0 {
            let length = usize::from(packet.get(4).copied().unwrap_or(0));
            payload_at = 5 + length;
            random_access = length > 0 && packet.get(5).is_some_and(|flags| flags & 0x40 != 0);
        }
        let payload = packet.get(payload_at..).filter(|_| control & 0x10 != 0).unwrap_or_default();
        if pid == 0 || Some(pid) == self.program {
            return self.table(pid, starts, payload);
        }
        let Some(stream) = self.streams.get_mut(&pid) else { return Ok(()) };
        if starts {
            stream.flush(reference)?;
            stream.random_access = random_access;
        } else if stream.packet.is_empty() {
            return Ok(());
        }
        stream.packet.extend_from_slice(payload);
        Ok(())
    }

    /// Puts a table together (§2.4.4).
    fn table(&mut self, pid: u16, starts: bool, payload: &[u8]) -> Result<(), CaptureError> {
        let table = self.tables.entry(pid).or_default();
        let new = if starts {
            table.clear();
            let pointer = payload.first().copied().unwrap_or(0);
            payload.get(usize::from(pointer) + 1..).unwrap_or_default()
        } else {
            payload
        };
        table.extend_from_slice(new);
        table.truncate(MAX_TABLE);
        let Some(&[kind, high, low]) = table.first_chunk::<3>() else { return Ok(()) };
        let end = 3 + (usize::from(high & 0x0f) << 8 | usize::from(low));
        let Some(section) = table.get(..end).map(<[u8]>::to_vec) else { return Ok(()) };
        table.clear();
        let body = section.get(8..end.saturating_sub(4)).unwrap_or_default();
        match kind {
            0 => self.program = self.program.or_else(|| first_program(body)),
            2 => self.map(body)?,
            _ => {}
        }
        Ok(())
    }

    /// The program map (§2.4.4.8).
    fn map(&mut self, body: &[u8]) -> Result<(), CaptureError> {
        let length = |at: Option<&[u8]>| {
            at.and_then(<[u8]>::first_chunk).map_or(0, |&[a, b]| usize::from(a & 0x0f) << 8 | usize::from(b))
        };
        let mut rest = body.get(4 + length(body.get(2..))..).unwrap_or_default();
        while let Some(&[kind, high, low, ..]) = rest.first_chunk::<5>() {
            let descriptors = length(rest.get(3..));
            let told = rest.get(5..5 + descriptors).unwrap_or_default();
            rest = rest.get(5 + descriptors..).unwrap_or_default();
            let pid = u16::from(high & 0x1f) << 8 | u16::from(low);
            if let Entry::Vacant(place) = self.streams.entry(pid) {
                let coding = coding(kind, told)?;
                let language = descriptor(told, 0x0a).and_then(|told| told.get(..3));
                let language =
                    language.map(|code| String::from_utf8_lossy(code).into_owned()).unwrap_or_default();
                let same = self.before.iter().position(|stream| stream.coding.is_like(&coding));
                let new =
                    || Stream { source: pid, coding, language, packet: Vec::new(), random_access: false };
                place.insert(match same {
                    Some(same) => self.before.remove(same),
                    None => new(),
                });
            }
        }
        Ok(())
    }
}

fn first_program(body: &[u8]) -> Option<u16> {
    body.chunks_exact(4).find_map(|entry| match *entry {
        [0, 0, ..] => None,
        [_, _, high, low] => Some(u16::from(high & 0x1f) << 8 | u16::from(low)),
        _ => None,
    })
}

/// The payload of the first descriptor of that tag (§2.6).
fn descriptor(mut told: &[u8], tag: u8) -> Option<&[u8]> {
    while let Some(&[found, length]) = told.first_chunk::<2>() {
        let payload = told.get(2..)?.get(..length.into())?;
        if found == tag {
            return Some(payload);
        }
        told = told.get(2 + usize::from(length)..)?;
    }
    None
}

/// By `stream_type` (§2.4.4.9; ATSC A/53 Part 3 and ETSI EN 300 468 Annex D for Dolby's).
fn coding(kind: u8, told: &[u8]) -> Result<Coding, CaptureError> {
    Ok(match kind {
        0x1b => Coding::Picture(Picture::new(PictureCoding::Avc)),
        0x24 => Coding::Picture(Picture::new(PictureCoding::Hevc)),
        0x0f => Coding::Sound(Frames::new(Framing::Adts)),
        0x03 | 0x04 => Coding::Sound(Frames::new(Framing::Mpeg)),
        0x81 => Coding::Sound(Frames::new(Framing::Ac3)),
        0x87 => Coding::Sound(Frames::new(Framing::Eac3)),
        0x06 if descriptor(told, 0x6a).is_some() => Coding::Sound(Frames::new(Framing::Ac3)),
        0x06 if descriptor(told, 0x7a).is_some() => Coding::Sound(Frames::new(Framing::Eac3)),
        0x05 | 0x06 | 0x0d | 0x15 | 0x86 => Coding::Other,
        _ => {
            return Err(CaptureError::Unsupported(format!(
                "a transport stream with stream type {kind:#04x}"
            )));
        }
    })
}

impl Coding {
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Picture(one), Self::Picture(other)) => one.is_like(other),
            (Self::Sound(one), Self::Sound(other)) => one.is_like(other),
            (Self::Other, Self::Other) => true,
            _ => false,
        }
    }
}

impl Stream {
    /// The PES packet is whole (§2.4.3.6).
    fn flush(&mut self, reference: &mut Option<i64>) -> Result<(), CaptureError> {
        let packet = std::mem::take(&mut self.packet);
        let random_access = std::mem::take(&mut self.random_access);
        if packet.is_empty() || matches!(self.coding, Coding::Other) {
            return Ok(());
        }
        let Some(&[0, 0, 1, _, high, low, _, _, header]) = packet.first_chunk::<9>() else {
            return Err(Failure::new(Reason::BadTs, "a PES packet without its header").into());
        };
        let stated = usize::from(u16::from_be_bytes([high, low]));
        let end = if stated == 0 { packet.len() } else { packet.len().min(6 + stated) };
        let data = packet.get(9 + usize::from(header)..end).unwrap_or_default();
        let times = stamps_of(&packet).map(|(decode, shown)| {
            let decode = near(decode, reference.unwrap_or(decode));
            *reference = Some(decode);
            (decode, near(shown, decode))
        });
        match &mut self.coding {
            Coding::Picture(picture) => picture.push(data, times, random_access),
            Coding::Sound(frames) => frames.push(data, times.map(|(_, shown)| (shown, SCALE)))?,
            Coding::Other => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of a PID that starts something, its payload filled up.
    fn packet(pid: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes =
            vec![0x47, 0x40 | u8::try_from(pid >> 8).unwrap(), u8::try_from(pid & 0xff).unwrap(), 0x10];
        bytes.extend_from_slice(payload);
        bytes.resize(PACKET, 0xff);
        bytes
    }

    /// Tables of a program with one stream; their CRCs are not looked at here.
    fn tables(kind: u8, told: &[u8]) -> Vec<u8> {
        let length = |payload: usize| u8::try_from(payload + 9).unwrap();
        let pat = [&[0, 0, 0xb0, length(4), 0, 1, 0xc1, 0, 0], &[0, 1, 0xe1, 0][..], &[0; 4]].concat();
        let told_length = u8::try_from(told.len()).unwrap();
        let stream = [&[kind, 0xe1, 1, 0xf0, told_length], told].concat();
        let pmt = [
            &[0, 2, 0xb0, length(4 + stream.len()), 0, 1, 0xc1, 0, 0],
            &[0xe1, 1, 0xf0, 0][..],
            &stream,
            &[0; 4],
        ];
        [packet(0, &pat), packet(0x100, &pmt.concat())].concat()
    }

    #[test]
    fn streams_are_known_by_their_types_and_descriptors() {
        let of = |kind, told: &[u8]| {
            let mut ts = Ts::default();
            ts.segment(&tables(kind, told), &mut None).map_err(|error| error.to_string())?;
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
        fn nothing_that_comes_makes_it_panic(
            kind in proptest::sample::select(vec![0x1b_u8, 0x24, 0x0f, 0x03, 0x81, 0x87]),
            payload in proptest::collection::vec(0_u8.., 0..184),
            noise in proptest::collection::vec(0_u8.., 0..600),
        ) {
            let pes = [&[0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1][..], &payload[..payload.len().min(170)]].concat();
            let _ = Ts::default().segment(&[tables(kind, &[]), packet(0x101, &pes), noise].concat(), &mut None);
        }
    }
}
