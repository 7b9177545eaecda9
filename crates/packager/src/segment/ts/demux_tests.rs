//! A demultiplexer for tests, written from the standard. It shares no code with the muxer.

use std::collections::BTreeMap;

/// A reassembled PES packet.
#[derive(Debug, Clone, Default)]
pub(super) struct Pes {
    pub(super) pts: u64,
    pub(super) dts: u64,
    /// `PES_packet_length`.
    pub(super) stated: usize,
    pub(super) random_access: bool,
    /// Elementary stream bytes.
    pub(super) data: Vec<u8>,
    raw: Vec<u8>,
}

/// A stream in a PMT: its `stream_type`, PID and descriptors.
pub(super) type Listed = (u8, u16, Vec<u8>);

/// A demultiplexed transport stream.
#[derive(Debug, Default)]
pub(super) struct Demuxed {
    /// PES packets by PID.
    pub(super) pes: BTreeMap<u16, Vec<Pes>>,
    /// PCRs with their PID, in 90 kHz, in order.
    pub(super) pcr: Vec<(u16, u64)>,
    /// Number of packets whose continuity counter does not follow.
    pub(super) jumps: usize,
    /// Number of PES packets with a time stamp earlier than the clock.
    pub(super) late: usize,
    pub(super) pat: usize,
    /// Streams of each PMT, with its PCR PID.
    pub(super) pmt: Vec<(u16, Vec<Listed>)>,
}

impl Demuxed {
    pub(super) fn of(stream: &[u8]) -> Self {
        assert_eq!(stream.len() % 188, 0);
        let mut out = Self::default();
        let mut counters: BTreeMap<u16, u8> = BTreeMap::new();
        for packet in stream.chunks(188) {
            assert_eq!(packet[0], 0x47);
            assert_eq!(packet[1] & 0xA0, 0, "error or priority");
            let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
            let start = packet[1] & 0x40 != 0;
            assert_eq!(packet[3] & 0xC0, 0, "scrambled");
            let field = packet[3] & 0x20 != 0;
            let payload = packet[3] & 0x10 != 0;
            let counter = packet[3] & 0x0F;
            let follows = |last: u8| if payload { (last + 1) & 0x0F == counter } else { last == counter };
            if counters.insert(pid, counter).is_some_and(|last| !follows(last)) {
                out.jumps += 1;
            }
            let mut at = 4;
            let mut random_access = false;
            if field {
                let len = usize::from(packet[4]);
                assert!(if payload { len <= 182 + 1 } else { len == 183 });
                if len > 0 {
                    let flags = packet[5];
                    assert_eq!(flags & !0x50, 0);
                    random_access = flags & 0x40 != 0;
                    let mut stuffing = 6;
                    if flags & 0x10 != 0 {
                        let clock = packet[6..12].iter().fold(0_u64, |n, &b| (n << 8) | u64::from(b));
                        assert_eq!(clock & 0x7E00, 0x7E00);
                        assert_eq!(clock & 0x1FF, 0);
                        out.pcr.push((pid, clock >> 15));
                        stuffing = 12;
                    }
                    assert!(packet[stuffing..5 + len].iter().all(|&b| b == 0xFF));
                }
                at = 5 + len;
            }
            if !payload {
                continue;
            }
            let payload = &packet[at..];
            match pid {
                0 => {
                    out.pat += 1;
                    assert!(start);
                    assert_eq!(payload[..13], [0, 0, 0xB0, 13, 0, 1, 0xC1, 0, 0, 0, 1, 0xF0, 0]);
                }
                0x1000 => {
                    assert!(start);
                    out.pmt.push(pmt(&payload[1..]));
                }
                _ => {
                    let list = out.pes.entry(pid).or_default();
                    if start {
                        list.push(Pes { random_access, ..Pes::default() });
                    }
                    list.last_mut().expect("payload before a PES packet").raw.extend_from_slice(payload);
                    if start {
                        // The header is within the first packet.
                        let pes = list.last_mut().unwrap();
                        let header = 9 + usize::from(payload[8]);
                        assert!(payload.len() >= header);
                        let raw = pes.raw.clone();
                        pes.read_header(&raw);
                        if let Some(&(_, clock)) = out.pcr.last() {
                            // 33-bit distance, taken as signed.
                            let ahead = pes.dts.wrapping_sub(clock) & 0x1_FFFF_FFFF;
                            out.late += usize::from(ahead > 1 << 32);
                        }
                    }
                }
            }
        }
        for pes in out.pes.values_mut().flatten() {
            let header = 9 + usize::from(pes.raw[8]);
            pes.data = pes.raw.split_off(header);
            if pes.stated > 0 {
                assert_eq!(pes.stated + 6, header + pes.data.len());
            }
        }
        out
    }

    /// Returns the longest time between two neighbouring PCRs, in 90 kHz; `None` if they run
    /// backwards.
    pub(super) fn longest_pcr_gap(&self) -> Option<u64> {
        let mut longest = 0;
        for pair in self.pcr.windows(2) {
            let gap = pair[1].1.wrapping_sub(pair[0].1) & 0x1_FFFF_FFFF;
            if gap > 1 << 32 {
                return None;
            }
            longest = longest.max(gap);
        }
        Some(longest)
    }
}

impl Pes {
    fn read_header(&mut self, raw: &[u8]) {
        assert_eq!(raw[..3], [0, 0, 1]);
        self.stated = usize::from(u16::from_be_bytes([raw[4], raw[5]]));
        assert_eq!(raw[6], 0x84);
        let header = 9 + usize::from(raw[8]);
        self.pts = stamp(&raw[9..14]);
        let mut end = 14;
        self.dts = self.pts;
        match raw[7] {
            0x80 => assert_eq!(raw[9] >> 4, 2),
            0xC0 => {
                assert_eq!((raw[9] >> 4, raw[14] >> 4), (3, 1));
                self.dts = stamp(&raw[14..19]);
                end = 19;
            }
            other => panic!("flags {other:x}"),
        }
        assert!(raw[end..header].iter().all(|&b| b == 0xFF));
    }
}

fn stamp(b: &[u8]) -> u64 {
    assert!(b[0] & 1 == 1 && b[2] & 1 == 1 && b[4] & 1 == 1);
    let part = |hi: u8, lo: u8| u64::from(u16::from_be_bytes([hi, lo]) >> 1);
    (u64::from(b[0] >> 1 & 7) << 30) | (part(b[1], b[2]) << 15) | part(b[3], b[4])
}

fn pmt(section: &[u8]) -> (u16, Vec<Listed>) {
    assert_eq!(section[0], 2);
    let len = usize::from(u16::from_be_bytes([section[1] & 0x0F, section[2]]));
    let body = &section[3..3 + len - 4];
    let pcr = u16::from_be_bytes([body[5] & 0x1F, body[6]]);
    let mut streams = Vec::new();
    let mut rest = &body[9..];
    while let [kind, hi, lo, ihi, ilo, tail @ ..] = rest {
        let info = usize::from(u16::from_be_bytes([ihi & 0x0F, *ilo]));
        streams.push((*kind, u16::from_be_bytes([hi & 0x1F, *lo]), tail[..info].to_vec()));
        rest = &tail[info..];
    }
    (pcr, streams)
}
