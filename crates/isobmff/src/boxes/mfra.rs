//! `mfra`, `tfra`, `mfro`: movie fragment random access (ISO/IEC 14496-12 §8.8.9 to §8.8.11).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    header,
    write::{WriteBox, put_count, put_header, put_time, put_version_and_flags, version_for},
};
use bytes::{BufMut, Bytes};

/// A random access index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mfra {
    /// Tables, one for each track.
    pub tracks: Vec<Tfra>,
}

/// Sync samples of one track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tfra {
    /// Track of the entries.
    pub track_id: u32,
    /// Entries in file order.
    pub entries: Vec<TfraEntry>,
}

/// Position of one sync sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TfraEntry {
    /// Presentation time of the sync sample in track ticks, before the edit list.
    pub time: u64,
    /// Offset of its `moof` from the start of the file, in bytes.
    pub moof_offset: u64,
    /// 1-based number of the `traf` in the `moof`.
    pub traf: u32,
    /// 1-based number of the `trun` in the `traf`.
    pub trun: u32,
    /// 1-based number of the sample in the `trun`.
    pub sample: u32,
}

impl Mfra {
    /// Maximum number of tracks that are read.
    pub const MAX_TRACKS: usize = 1024;

    /// Parses a whole `mfra` box, header included.
    ///
    /// # Errors
    /// [`Error::OverLimit`] for more than [`Self::MAX_TRACKS`] tracks.
    pub fn parse(mfra: &Bytes, offset: u64) -> Result<Self, Error> {
        let mfra = header::expect(mfra, offset, b"mfra")?;
        let mut tracks = Vec::new();
        for child in mfra.payload.boxes() {
            let child = child?;
            if child.kind() == b"tfra" {
                let count = tracks.len() as u64 + 1;
                mfra.payload.check_limit("number of tfra", count, Self::MAX_TRACKS as u64)?;
                tracks.push(Tfra::parse(child.payload)?);
            }
        }
        Ok(Self { tracks })
    }
}

impl Tfra {
    fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (version, _) = payload.version_up_to(1)?;
        let track_id = payload.u32()?;
        let lengths = payload.u32()?;
        // Two bits each: the length in bytes, minus 1.
        let [traf, trun, sample] = [4, 2, 0].map(|shift| (lengths >> shift & 3) as usize + 1);
        let count = payload.u32()?;
        let fixed = if version == 0 { 8 } else { 16 };
        payload.check_count("number_of_entry", u64::from(count), fixed + traf + trun + sample)?;
        let entry = |payload: &mut Cursor<'_>| {
            Ok(TfraEntry {
                time: payload.u32_or_u64(version)?,
                moof_offset: payload.u32_or_u64(version)?,
                traf: number(payload, traf)?,
                trun: number(payload, trun)?,
                sample: number(payload, sample)?,
            })
        };
        let entries = (0..count).map(|_| entry(&mut payload)).collect::<Result<_, _>>()?;
        Ok(Self { track_id, entries })
    }
}

impl WriteBox for Tfra {
    fn kind(&self) -> FourCc {
        FourCc(*b"tfra")
    }

    fn payload_size(&self) -> u64 {
        let (version, lengths) = self.fields();
        let times = if version == 0 { 8 } else { 16 };
        let entry = lengths.iter().fold(times, |sum, &length| sum + u64::from(length));
        16 + entry * self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let (version, lengths) = self.fields();
        put_version_and_flags(out, version, 0);
        out.put_u32(self.track_id);
        out.put_u32(lengths.iter().fold(0, |bits, &length| bits << 2 | u32::from(length - 1)));
        put_count(out, self.entries.len());
        for entry in &self.entries {
            put_time(out, version, entry.time);
            put_time(out, version, entry.moof_offset);
            for (number, length) in [entry.traf, entry.trun, entry.sample].into_iter().zip(lengths) {
                out.put_uint(number.into(), length.into());
            }
        }
    }
}

impl Tfra {
    /// Returns the version, and the lengths in bytes of the `traf`, `trun` and sample numbers.
    fn fields(&self) -> (u8, [u8; 3]) {
        let mut highest = [0_u32; 3];
        let mut wide = 0;
        for entry in &self.entries {
            wide = wide.max(entry.time).max(entry.moof_offset);
            for (highest, number) in highest.iter_mut().zip([entry.traf, entry.trun, entry.sample]) {
                *highest = (*highest).max(number);
            }
        }
        let length = |number: u32| match number {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            0x1_0000..=0xff_ffff => 3,
            _ => 4,
        };
        (version_for(&[wide]), highest.map(length))
    }
}

/// Size of an `mfro` in bytes.
const MFRO_SIZE: u64 = 16;

/// Writes the `mfra` together with the `mfro` that ends it and states its size (§8.8.11).
impl WriteBox for Mfra {
    fn kind(&self) -> FourCc {
        FourCc(*b"mfra")
    }

    fn payload_size(&self) -> u64 {
        self.tracks.iter().map(WriteBox::size).sum::<u64>() + MFRO_SIZE
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        for tfra in &self.tracks {
            tfra.write(out);
        }
        put_header(out, FourCc(*b"mfro"), MFRO_SIZE - 8);
        put_version_and_flags(out, 0, 0);
        // A size beyond 32 bits cannot be stated. With size 0, readers treat the `mfra` as absent.
        out.put_u32(u32::try_from(self.size()).unwrap_or(0));
    }
}

/// Reads a big-endian number of 1 to 4 bytes.
fn number(payload: &mut Cursor<'_>, len: usize) -> Result<u32, Error> {
    (0..len).try_fold(0, |number, _| Ok(number << 8 | u32::from(payload.u8()?)))
}

/// Returns the size of the whole `mfra` in bytes, from the `mfro` in the last 16 bytes of a file.
/// `None` if `tail` does not end with one.
pub fn mfro_size(tail: &[u8]) -> Option<u32> {
    let &[0, 0, 0, 16, b'm', b'f', b'r', b'o', _, _, _, _, size @ ..] = tail.last_chunk::<16>()? else {
        return None;
    };
    // An `mfra` holds at least its own header and the `mfro`.
    Some(u32::from_be_bytes(size)).filter(|&size| size >= 24)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;
    use proptest::prelude::*;

    /// Builds an `mfra` with one `tfra` whose numbers have the given lengths in bytes.
    fn mfra(version: u8, lengths: [u8; 3], entries: &[TfraEntry]) -> Bytes {
        let mut tfra = vec![version, 0, 0, 0];
        tfra.put_u32(7);
        tfra.put_u32(lengths.iter().fold(0, |bits, len| bits << 2 | u32::from(len - 1)));
        tfra.put_u32(u32::try_from(entries.len()).unwrap());
        for entry in entries {
            for wide in [entry.time, entry.moof_offset] {
                tfra.extend(&wide.to_be_bytes()[if version == 0 { 4 } else { 0 }..]);
            }
            for (number, len) in [entry.traf, entry.trun, entry.sample].into_iter().zip(lengths) {
                tfra.extend(&number.to_be_bytes()[4 - usize::from(len)..]);
            }
        }
        let tfra_size = u32::try_from(8 + tfra.len()).unwrap();
        let mut out = Vec::new();
        out.put_u32(8 + tfra_size + 16);
        out.put_slice(b"mfra");
        out.put_u32(tfra_size);
        out.put_slice(b"tfra");
        out.extend(tfra);
        out.put_slice(b"\0\0\0\x10mfro\0\0\0\0");
        out.put_u32(8 + tfra_size + 16);
        out.into()
    }

    proptest! {
        #[test]
        fn entries_with_numbers_of_any_length_round_trip(
            version in 0..2u8,
            lengths in prop::array::uniform3(1..=4u8),
            seeds in prop::collection::vec(prop::array::uniform5(any::<u64>()), 0..20),
        ) {
            let wide = |n: u64| if version == 0 { n & 0xffff_ffff } else { n };
            let small = |n: u64, len: u8| u32::try_from(n & ((1 << (8 * u32::from(len))) - 1)).unwrap();
            let entries: Vec<_> = seeds.iter().map(|s| TfraEntry {
                time: wide(s[0]), moof_offset: wide(s[1]),
                traf: small(s[2], lengths[0]), trun: small(s[3], lengths[1]), sample: small(s[4], lengths[2]),
            }).collect();
            let bytes = mfra(version, lengths, &entries);
            let read = Mfra::parse(&bytes, 0).unwrap();
            prop_assert_eq!(&read.tracks, &[Tfra { track_id: 7, entries }]);
            prop_assert_eq!(mfro_size(&bytes), u32::try_from(bytes.len()).ok());

            let mut written = Vec::new();
            read.write(&mut written);
            prop_assert_eq!(written.len() as u64, read.size());
            prop_assert_eq!(mfro_size(&written), u32::try_from(written.len()).ok());
            prop_assert!(written.len() <= bytes.len(), "numbers take no more bytes than they need");
            prop_assert_eq!(Mfra::parse(&written.into(), 0).unwrap(), read);
        }
    }

    #[test]
    fn a_tail_without_a_valid_mfro_has_no_size() {
        assert_eq!(mfro_size(b""), None);
        assert_eq!(mfro_size(b"\0\0\0\x10mfro\0\0\0\0\0\0\0"), None);
        assert_eq!(mfro_size(b"\0\0\0\x10mfrx\0\0\0\0\0\0\0\xff"), None);
        assert_eq!(mfro_size(b"\0\0\0\x10mfro\0\0\0\0\0\0\0\x17"), None, "smaller than its own two boxes");
        assert_eq!(mfro_size(b"...\0\0\0\x10mfro\0\0\0\0\0\0\0\xff"), Some(255));
    }

    #[test]
    fn a_count_beyond_the_bytes_is_an_error() {
        let entry = TfraEntry { time: 1, moof_offset: 2, traf: 1, trun: 1, sample: 1 };
        let mut bytes = mfra(0, [1, 1, 1], &[entry]).to_vec();
        bytes[28..32].fill(0xff);
        let error = Mfra::parse(&bytes.into(), 0).unwrap_err();
        assert!(matches!(error, Error::TooLarge { value: 0xffff_ffff, limit: 1, .. }), "{error}");
    }
}
