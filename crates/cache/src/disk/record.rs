//! The format of log files. All numbers are little-endian.
//!
//! ```text
//! file    = head, record*, footer?
//! head    = "LMXCACHE", format: u32, 0: u32, sum of these: u64
//! record  = "LMRC", length of names: u32, id: u128, offset in the object: u64,
//!           length of data: u32, 0: u32, sum of data: u64, sum of the head so far and names: u64,
//!           names, data
//! footer  = entry*, "LMXINDEX", number of entries: u64, position of the first: u64,
//!           sum of entries: u64
//! entry   = id: u128, offset in the object: u64, length of data: u32, length of names: u32,
//!           position of the record in the file: u64
//! ```
//!
//! A sum is a 64-bit XXH3. *Names* identify an object permanently (storage, key, version), and `id`
//! is their 128-bit XXH3. A file gets its footer when it is full or closed; the records of a file
//! without a footer are walked. A record without data (offset 0) purges its object: all earlier
//! records of the object are void, in this file and in those of lower numbers.

use super::device::Log;
use crate::memory::gauge::{Buffer, Gauge, to_u64, to_usize};
use std::io;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The only format that this program writes and reads.
pub(crate) const FORMAT: u32 = 2;
const FILE_MAGIC: &[u8; 8] = b"LMXCACHE";
const RECORD_MAGIC: &[u8; 4] = b"LMRC";
const FOOTER_MAGIC: &[u8; 8] = b"LMXINDEX";
pub(crate) const FILE_HEAD: u64 = 24;
pub(crate) const RECORD_HEAD: u64 = 56;
pub(crate) const ENTRY: u64 = 40;
pub(crate) const TRAILER: u64 = 32;
/// Maximum length of names. A key of 4 KiB, in URL and bucket, is more than stores allow.
pub(crate) const NAMES: u64 = 16 << 10;

/// Position of a unit's record in a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordEntry {
    pub(crate) id: u128,
    /// Start of the unit in its object.
    pub(crate) offset: u64,
    /// Length of the unit in bytes.
    pub(crate) len: u32,
    pub(crate) names_len: u32,
    /// Start of the record in its file.
    pub(crate) at: u64,
}

impl RecordEntry {
    pub(crate) fn record_len(&self) -> u64 {
        RECORD_HEAD + u64::from(self.names_len) + u64::from(self.len)
    }
}

/// Reads numbers from the front of a slice.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }
}

pub(crate) fn file_head() -> Vec<u8> {
    let mut head = FILE_MAGIC.to_vec();
    head.extend(FORMAT.to_le_bytes());
    head.extend([0; 4]);
    head.extend(xxh3_64(&head).to_le_bytes());
    head
}

/// Encodes the head and the names of a record. Returns `None` if data or names are too long.
pub(crate) fn encode_head(id: u128, names: &[u8], offset: u64, data: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(data.len()).ok()?;
    let names_len = u32::try_from(names.len()).ok().filter(|len| u64::from(*len) <= NAMES)?;
    let mut head = RECORD_MAGIC.to_vec();
    head.extend(names_len.to_le_bytes());
    head.extend(id.to_le_bytes());
    head.extend(offset.to_le_bytes());
    head.extend(len.to_le_bytes());
    head.extend([0; 4]);
    head.extend(xxh3_64(data).to_le_bytes());
    head.extend(head_sum(&head, names).to_le_bytes());
    head.extend_from_slice(names);
    Some(head)
}

fn head_sum(head: &[u8], names: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(head);
    sum.update(names);
    sum.digest()
}

/// The checked head of a record, with its names.
#[derive(Debug)]
pub(crate) struct RecordHead {
    pub(crate) entry: RecordEntry,
    pub(crate) names: Vec<u8>,
    data_sum: u64,
}

impl RecordHead {
    /// Reads the head of the record at `at`, or `None` if there is none that ends by `end`.
    pub(crate) fn read(log: &dyn Log, at: u64, end: u64) -> io::Result<Option<Self>> {
        let mut fixed = [0; 56];
        if end.saturating_sub(at) < RECORD_HEAD {
            return Ok(None);
        }
        log.read_at(&mut fixed, at)?;
        let Some((entry, data_sum, sum)) = decode_head(&fixed, at) else { return Ok(None) };
        let fits = at.checked_add(entry.record_len()).is_some_and(|past| past <= end);
        if u64::from(entry.names_len) > NAMES || !fits {
            return Ok(None);
        }
        let mut names = vec![0; to_usize(entry.names_len.into())];
        log.read_at(&mut names, at + RECORD_HEAD)?;
        let right = fixed.get(..48).is_some_and(|head| head_sum(head, &names) == sum);
        Ok(right.then_some(Self { entry, names, data_sum }))
    }

    /// Reads the data. Returns `Ok(None)` if its sum is wrong.
    pub(crate) fn data(&self, log: &dyn Log, gauge: &Gauge) -> io::Result<Option<Buffer>> {
        let mut data = gauge.buffer(to_usize(self.entry.len.into()));
        log.read_at(&mut data, self.entry.at + RECORD_HEAD + u64::from(self.entry.names_len))?;
        Ok((xxh3_64(&data) == self.data_sum).then_some(data))
    }
}

fn decode_head(fixed: &[u8; 56], at: u64) -> Option<(RecordEntry, u64, u64)> {
    let mut numbers = Numbers(fixed);
    if &numbers.take::<4>()? != RECORD_MAGIC {
        return None;
    }
    let names_len = numbers.u32()?;
    let id = numbers.u128()?;
    let offset = numbers.u64()?;
    let len = numbers.u32()?;
    numbers.u32()?;
    let data_sum = numbers.u64()?;
    let sum = numbers.u64()?;
    Some((RecordEntry { id, offset, len, names_len, at }, data_sum, sum))
}

pub(crate) fn footer(entries: &[RecordEntry], start: u64) -> Vec<u8> {
    let mut footer = Vec::with_capacity(entries.len() * to_usize(ENTRY) + to_usize(TRAILER));
    for entry in entries {
        footer.extend(entry.id.to_le_bytes());
        footer.extend(entry.offset.to_le_bytes());
        footer.extend(entry.len.to_le_bytes());
        footer.extend(entry.names_len.to_le_bytes());
        footer.extend(entry.at.to_le_bytes());
    }
    let sum = xxh3_64(&footer);
    footer.extend(FOOTER_MAGIC);
    footer.extend(to_u64(entries.len()).to_le_bytes());
    footer.extend(start.to_le_bytes());
    footer.extend(sum.to_le_bytes());
    footer
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<RecordEntry>,
    /// Position of the next record: the start of the footer or of a torn record.
    pub(crate) end: u64,
    pub(crate) sealed: bool,
}

/// Reads the contents of a log file. Returns `Ok(None)` for any other format.
pub(crate) fn read_contents(log: &dyn Log) -> io::Result<Option<Contents>> {
    let len = log.len()?;
    let mut head = [0; 24];
    if len < FILE_HEAD {
        return Ok(None);
    }
    log.read_at(&mut head, 0)?;
    if head[..] != file_head()[..] {
        return Ok(None);
    }
    if let Some(sealed) = read_footer(log, len)? {
        return Ok(Some(sealed));
    }
    let mut entries = Vec::new();
    let mut at = FILE_HEAD;
    while let Some(RecordHead { entry, .. }) = RecordHead::read(log, at, len)? {
        at += entry.record_len();
        entries.push(entry);
    }
    Ok(Some(Contents { entries, end: at, sealed: false }))
}

/// Reads the footer if there is a complete one.
fn read_footer(log: &dyn Log, len: u64) -> io::Result<Option<Contents>> {
    let mut trailer = [0; 32];
    let Some(trailer_at) = len.checked_sub(TRAILER).filter(|at| *at >= FILE_HEAD) else { return Ok(None) };
    log.read_at(&mut trailer, trailer_at)?;
    let Some((count, start, sum)) = decode_trailer(&trailer) else { return Ok(None) };
    let size = count.checked_mul(ENTRY);
    if start < FILE_HEAD || size.and_then(|size| size.checked_add(start)) != Some(trailer_at) {
        return Ok(None);
    }
    let mut bytes = vec![0; to_usize(trailer_at - start)];
    log.read_at(&mut bytes, start)?;
    if xxh3_64(&bytes) != sum {
        return Ok(None);
    }
    let mut numbers = Numbers(&bytes);
    let mut entries = Vec::with_capacity(to_usize(count));
    while let Some(id) = numbers.u128() {
        let fields = (numbers.u64(), numbers.u32(), numbers.u32(), numbers.u64());
        let (Some(offset), Some(len), Some(names_len), Some(at)) = fields else { break };
        entries.push(RecordEntry { id, offset, len, names_len, at });
    }
    Ok(Some(Contents { entries, end: start, sealed: true }))
}

fn decode_trailer(trailer: &[u8; 32]) -> Option<(u64, u64, u64)> {
    let mut numbers = Numbers(trailer);
    if &numbers.take::<8>()? != FOOTER_MAGIC {
        return None;
    }
    Some((numbers.u64()?, numbers.u64()?, numbers.u64()?))
}
