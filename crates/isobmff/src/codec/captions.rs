//! Closed captions within video: CEA-608 and CEA-708 data in SEI messages of AVC and HEVC
//! (ATSC A/53 Part 4 §6.2.3). They are found, not decoded.

use crate::bits::without_emulation_prevention;
use std::{collections::BTreeSet, fmt, str::FromStr};

/// One channel of closed captions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaptionChannel {
    /// CC1 to CC4 of CEA-608.
    Cea608(u8),
    /// Services 1 to 63 of CEA-708.
    Cea708(u8),
}

impl fmt::Display for CaptionChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cea608(number) => write!(f, "CC{number}"),
            Self::Cea708(number) => write!(f, "SERVICE{number}"),
        }
    }
}

/// A text that names no channel of closed captions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not CC1 to CC4 or SERVICE1 to SERVICE63")]
pub struct NoCaptionChannel;

impl FromStr for CaptionChannel {
    type Err = NoCaptionChannel;

    /// Reads the name that HLS gives a channel (`INSTREAM-ID`).
    fn from_str(text: &str) -> Result<Self, NoCaptionChannel> {
        let number = |digits: &str, highest: u8| {
            let number = digits.parse::<u8>().ok().filter(|n| (1..=highest).contains(n));
            number.filter(|n| n.to_string() == digits).ok_or(NoCaptionChannel)
        };
        match (text.strip_prefix("CC"), text.strip_prefix("SERVICE")) {
            (Some(digits), _) => number(digits, 4).map(Self::Cea608),
            (_, Some(digits)) => number(digits, 63).map(Self::Cea708),
            _ => Err(NoCaptionChannel),
        }
    }
}

/// A search for closed captions in the samples of one track.
#[derive(Debug, Clone, Default)]
pub struct CaptionScan {
    /// Channels with captions.
    pub channels: BTreeSet<CaptionChannel>,
    /// Number of SEI messages with caption data, even if it is only padding.
    pub messages: u64,
    /// The packet of CEA-708 that has been read in part.
    packet: Vec<u8>,
}

/// The start of user data: payload of ITU-T T.35 of the United States, provider 0x31, `GA94`, type
/// 3 (A/53 Part 4 Table 6.7, A/72 §7.2.1).
const CAPTION_DATA: [u8; 8] = [0xB5, 0x00, 0x31, b'G', b'A', b'9', b'4', 0x03];
/// `payloadType` of registered user data (ISO/IEC 14496-10 §D.1.1, 23008-2 §D.2.1).
const USER_DATA: u32 = 4;

impl CaptionScan {
    /// Adds a sample of AVC or HEVC. Samples come in the order of presentation, since captions do.
    pub fn add(&mut self, sample: &[u8], nal_length_size: u8, is_hevc: bool) {
        let mut rest = sample;
        while let Some((length, after)) = rest.split_at_checked(nal_length_size.into()) {
            let length = length.iter().fold(0, |number: usize, &byte| number << 8 | usize::from(byte));
            let Some((nal, after)) = after.split_at_checked(length) else { return };
            rest = after;
            let (header, is_sei) = match nal.first() {
                Some(&byte) if is_hevc => (2, byte >> 1 & 0x3F == 39),
                Some(&byte) => (1, byte & 0x1F == 6),
                None => continue,
            };
            if is_sei {
                self.add_messages(&without_emulation_prevention(nal.get(header..).unwrap_or_default()));
            }
        }
    }

    /// Reads sei_message() one after the other (ISO/IEC 14496-10 §7.3.2.3.1).
    fn add_messages(&mut self, mut rest: &[u8]) {
        while rest.len() > 2 {
            let Some((kind, after)) = coded_number(rest) else { return };
            let Some((size, after)) = coded_number(after) else { return };
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let Some((payload, after)) = after.split_at_checked(size) else { return };
            rest = after;
            if let (USER_DATA, Some(data)) = (kind, payload.strip_prefix(&CAPTION_DATA)) {
                self.add_data(data);
            }
        }
    }

    /// Reads cc_data(): flags and count, a reserved byte, and three bytes for each pair.
    fn add_data(&mut self, data: &[u8]) {
        let Some((&[flags, _reserved], pairs)) = data.split_first_chunk::<2>() else { return };
        self.messages += 1;
        let is_present = flags & 0x40 != 0;
        let count = if is_present { usize::from(flags & 0x1F) } else { 0 };
        for &[marker, first, second] in pairs.as_chunks::<3>().0.iter().take(count) {
            if marker & 0x04 == 0 {
                continue;
            }
            match marker & 0x03 {
                field @ (0 | 1) => self.add_608(field, first & 0x7F, second & 0x7F),
                kind => self.add_708(kind == 3, [first, second]),
            }
        }
    }

    /// Adds a pair of a field. Only control codes tell the channel (CEA-608 §8.4).
    fn add_608(&mut self, field: u8, first: u8, second: u8) {
        let is_control = (0x10..=0x1F).contains(&first) && second >= 0x20;
        // Text Restart and Resume Text Display begin other text than captions.
        let is_text = first & 0x76 == 0x14 && matches!(second, 0x2A | 0x2B);
        if is_control && !is_text {
            self.channels.insert(CaptionChannel::Cea608(1 + field * 2 + (first >> 3 & 1)));
        }
    }

    /// Adds a pair of a packet (CEA-708 §5), and the packet's services once it is whole.
    fn add_708(&mut self, is_start: bool, pair: [u8; 2]) {
        if is_start {
            self.packet.clear();
        } else if self.packet.is_empty() {
            return;
        }
        self.packet.extend_from_slice(&pair);
        // packet_size_code counts pairs, of which 0 stands for 64.
        let code = usize::from(self.packet.first().map_or(0, |header| header & 0x3F));
        let size = if code == 0 { 128 } else { code * 2 };
        if self.packet.len() >= size {
            let packet = std::mem::take(&mut self.packet);
            self.add_services(packet.get(1..size).unwrap_or_default());
        }
    }

    /// Reads the service blocks of a packet (CEA-708 §6).
    fn add_services(&mut self, mut blocks: &[u8]) {
        while let Some((&header, after)) = blocks.split_first() {
            let mut number = header >> 5;
            let size = usize::from(header & 0x1F);
            let mut after = after;
            if number == 7 && size > 0 {
                let Some((&extended, rest)) = after.split_first() else { return };
                (number, after) = (extended & 0x3F, rest);
            }
            let Some((_, rest)) = after.split_at_checked(size) else { return };
            // A null block ends the packet.
            if number == 0 {
                return;
            }
            if size > 0 {
                self.channels.insert(CaptionChannel::Cea708(number));
            }
            blocks = rest;
        }
    }
}

/// Reads a number that is coded as bytes of 255 and a last one.
fn coded_number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let full = bytes.iter().take_while(|&&byte| byte == 0xFF).count();
    let last = *bytes.get(full)?;
    let number = u32::try_from(full).ok()?.checked_mul(255)?.checked_add(last.into())?;
    Some((number, bytes.get(full + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::{CaptionChannel, CaptionScan};
    use proptest::prelude::*;

    /// Returns a sample of AVC with a slice and an SEI message of caption data.
    fn sample(pairs: &[[u8; 3]]) -> Vec<u8> {
        let mut payload = b"\xB5\x00\x31GA94\x03".to_vec();
        payload.extend([0xC0 | u8::try_from(pairs.len()).unwrap(), 0xFF]);
        payload.extend(pairs.as_flattened());
        payload.push(0xFF);
        // A message of another type comes first, in 300 bytes.
        let mut nal = vec![6, 5, 255, 45];
        nal.extend([0xAA; 300]);
        nal.extend([4, u8::try_from(payload.len()).unwrap()]);
        nal.extend(&payload);
        nal.push(0x80);
        let slice = [0x65, 1, 2, 3];
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length(&nal)[..], &nal, &length(&slice), &slice].concat()
    }

    fn channels(samples: &[&[[u8; 3]]]) -> (Vec<String>, u64) {
        let mut scan = CaptionScan::default();
        samples.iter().for_each(|pairs| scan.add(&sample(pairs), 4, false));
        (scan.channels.iter().map(CaptionChannel::to_string).collect(), scan.messages)
    }

    #[test]
    fn channels_of_608_are_told_by_control_codes() {
        // Resume Caption Loading with parity, in CC1 and CC2; then CC3 and CC4.
        assert_eq!(channels(&[&[[0xFC, 0x94, 0x20], [0xFC, 0x1C, 0x20]]]).0, ["CC1", "CC2"]);
        assert_eq!(channels(&[&[[0xFD, 0x15, 0x20]], &[[0xFD, 0x9D, 0x20]]]).0, ["CC3", "CC4"]);
        // Padding, characters, text mode, extended data services, and pairs that are not valid.
        let none = [
            [0xFC, 0x80, 0x80],
            [0xFC, 0xC1, 0xC2],
            [0xFC, 0x94, 0x2A],
            [0xFD, 0x01, 0x05],
            [0xF8, 0x94, 0x20],
        ];
        assert_eq!(channels(&[&none]), (vec![], 1));
    }

    #[test]
    fn services_of_708_are_told_by_packets_over_samples() {
        // A packet of 8 bytes: service 1 with 2 bytes, extended service 9 with 1 byte, null.
        let first = [[0xFF, 0x04, 0x22], [0xFE, 0x41, 0x42]];
        let second = [[0xFE, 0xE1, 0x09], [0xFE, 0x43, 0x00]];
        assert_eq!(channels(&[&first, &second]).0, ["SERVICE1", "SERVICE9"]);
        // Without its start, a packet is not read; and a block must fit.
        assert_eq!(channels(&[&second]).0, [""; 0]);
        assert_eq!(channels(&[&[[0xFF, 0x02, 0x3F], [0xFE, 0, 0]]]).0, [""; 0]);
    }

    #[test]
    fn names_are_those_of_hls() {
        for name in ["CC1", "CC4", "SERVICE1", "SERVICE63"] {
            assert_eq!(name.parse::<CaptionChannel>().unwrap().to_string(), name);
        }
        for name in ["CC0", "CC5", "CC01", "cc1", "SERVICE0", "SERVICE64", "SERVICE+1", "", "1"] {
            assert!(name.parse::<CaptionChannel>().is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_sample_causes_a_panic(bytes: Vec<u8>, pairs: Vec<[u8; 3]>, is_hevc: bool, size in 1_u8..=4) {
            let mut scan = CaptionScan::default();
            scan.add(&bytes, size, is_hevc);
            scan.add_data(&bytes);
            scan.add_messages(&bytes);
            scan.add(&sample(&pairs[..pairs.len().min(31)]), 4, false);
            prop_assert!(scan.packet.len() <= 128);
        }
    }
}
