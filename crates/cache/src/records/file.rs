//! The format of a value's file. All numbers are little-endian.
//!
//! ```text
//! file = "LMXVALUE", format: u32, length of name: u32, length of value: u64, sum: u64, name, value
//! ```
//!
//! The sum is the 64-bit XXH3 of everything else. Files are named by the 128-bit XXH3 of the name.

use crate::memory::gauge::to_u64;
use bytes::Bytes;
use std::io::{self, Read};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The only format that this program writes and reads.
const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"LMXVALUE";
/// Longest name that is read by itself. Names of objects are shorter.
const MAX_NAME: u32 = 64 << 10;
/// Bytes before the sum.
const SUMMED: usize = 24;
const HEAD: usize = SUMMED + 8;

/// The bytes are not those that were written, are incomplete, or have another format or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

/// Returns the identifier that file names are made of.
pub(super) fn id(name: &[u8]) -> u128 {
    xxh3_128(name)
}

/// Encodes a file. Returns `None` if the name is too long.
pub(super) fn bytes(name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let head = summed(name, value)?;
    let sum = sum(&head, name, value).to_le_bytes();
    Some([&head[..], &sum, name, value].concat())
}

/// Decodes the value from a file of that name.
pub(super) fn value(file: Vec<u8>, name: &[u8]) -> Result<Bytes, Damaged> {
    let (head, rest) = file.split_at_checked(HEAD).ok_or(Damaged)?;
    let (head, stated) = head.split_at_checked(SUMMED).ok_or(Damaged)?;
    let (found, value) = rest.split_at_checked(name.len()).ok_or(Damaged)?;
    let expected = summed(name, value).ok_or(Damaged)?;
    if head != expected || found != name || stated != sum(head, found, value).to_le_bytes() {
        return Err(Damaged);
    }
    let at = HEAD + name.len();
    Ok(Bytes::from(file).slice(at..))
}

/// Reads the name from the start of a file. Returns `None` if this is no file of this format.
pub(super) fn read_name(mut file: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    file.read_exact(&mut head)?;
    let is_known = head.starts_with(&[&MAGIC[..], &FORMAT.to_le_bytes()].concat());
    let length = head.get(12..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes));
    let Some(length) = length.filter(|length| is_known && *length <= MAX_NAME) else { return Ok(None) };
    let mut name = Vec::new();
    file.take(length.into()).read_to_end(&mut name)?;
    Ok(Some(name))
}

/// Encodes the head up to the sum.
fn summed(name: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let format = FORMAT.to_le_bytes();
    let name = u32::try_from(name.len()).ok()?.to_le_bytes();
    Some([&MAGIC[..], &format, &name, &to_u64(value.len()).to_le_bytes()].concat())
}

fn sum(head: &[u8], name: &[u8], value: &[u8]) -> u64 {
    let mut digest = Xxh3::new();
    [head, name, value].into_iter().for_each(|part| digest.update(part));
    digest.digest()
}
