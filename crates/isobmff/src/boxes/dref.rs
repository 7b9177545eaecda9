//! `dref`: the location of a track's media (ISO/IEC 14496-12 §8.7.2).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_header, put_version_and_flags},
};
use bytes::BufMut;

/// Flag of an entry whose media is in the same file.
const SELF_CONTAINED: u32 = 1;

/// One entry: the location of media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataReference {
    /// In the same file.
    SelfContained,
    /// At a URL (`url `), as stored: relative to the file, or absolute.
    Url(Box<str>),
    /// In a form that only its writer's system understands (`urn `, `alis`, …), or unreadable.
    Other(FourCc),
}

/// Maximum length of a location that is read, in bytes.
pub const MAX_LOCATION: usize = 4096;

/// Reads the payload of a `dref`: its entries in order.
pub fn parse(mut payload: Cursor<'_>) -> Result<Vec<DataReference>, Error> {
    payload.version_and_flags()?;
    let count = payload.u32()?;
    payload.check_count("entry_count", u64::from(count), 12)?;
    let mut references = Vec::new();
    let mut entries = payload.boxes();
    for _ in 0..count {
        let mut entry = entries.next().transpose()?.ok_or_else(|| payload.truncated())?;
        let (_, flags) = entry.payload.version_and_flags()?;
        references.push(match &entry.kind().0 {
            _ if flags & SELF_CONTAINED != 0 => DataReference::SelfContained,
            b"url " => url(entry.payload.peek()).unwrap_or(DataReference::Other(entry.kind())),
            _ => DataReference::Other(entry.kind()),
        });
    }
    Ok(references)
}

/// Reads a location: UTF-8 up to a NUL, which some writers leave out.
fn url(bytes: &[u8]) -> Option<DataReference> {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text).ok()?;
    (!text.is_empty() && text.len() <= MAX_LOCATION).then(|| DataReference::Url(text.into()))
}

/// A `dref` to write, with one entry for media in the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelfContained;

impl WriteBox for SelfContained {
    fn kind(&self) -> FourCc {
        FourCc(*b"dref")
    }

    fn payload_size(&self) -> u64 {
        4 + 4 + 12
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_u32(1);
        put_header(out, FourCc(*b"url "), 4);
        put_version_and_flags(out, 0, SELF_CONTAINED);
    }
}

/// A `dref` to write, with `entries` entries that all name the same other file.
///
/// After all `url ` entries, one Macintosh alias record (`alis`) of the same file follows for each
/// of them. No sample entry refers to an alias record. They are for ffmpeg, which understands and
/// counts no other kind of reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct External<'a> {
    /// The location as a URL, relative to the file or absolute; at most [`MAX_LOCATION`] bytes.
    pub location: &'a str,
    /// The location as a path below the file's own folder, not percent-encoded; `None` if it lies
    /// elsewhere.
    pub path: Option<&'a str>,
    /// Number of entries that sample entries may refer to.
    pub entries: u16,
}

impl External<'_> {
    /// Returns the alias record of the file, if its path fits the record's 16-bit sizes.
    fn alias(&self) -> Option<Vec<u8>> {
        self.path.filter(|path| path.len() < 32_768).map(alias)
    }
}

impl WriteBox for External<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"dref")
    }

    fn payload_size(&self) -> u64 {
        let url = 12 + self.location.len() as u64 + 1;
        let alias = self.alias().map_or(0, |record| 12 + record.len() as u64);
        8 + u64::from(self.entries) * (url + alias)
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let alias = self.alias();
        put_version_and_flags(out, 0, 0);
        out.put_u32(u32::from(self.entries) * if alias.is_some() { 2 } else { 1 });
        for _ in 0..self.entries {
            put_header(out, FourCc(*b"url "), 4 + self.location.len() as u64 + 1);
            put_version_and_flags(out, 0, 0);
            out.put_slice(self.location.as_bytes());
            out.put_u8(0);
        }
        if let Some(record) = alias {
            for _ in 0..self.entries {
                put_header(out, FourCc(*b"alis"), 4 + record.len() as u64);
                put_version_and_flags(out, 0, 0);
                out.put_slice(&record);
            }
        }
    }
}

/// Builds an alias record (Inside Macintosh: Files, "The Alias Manager"), version 2, relative to
/// the folder of the file that holds it. All fields except the path are empty.
fn alias(path: &str) -> Vec<u8> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let short = name.get(..name.len().min(63)).unwrap_or_default();
    let levels = u16::try_from(path.split('/').count()).unwrap_or(u16::MAX);
    let mut record = Vec::new();
    record.put_bytes(0, 4 + 2); // creator, size of the record
    record.put_u16(2); // version
    record.put_u16(0); // a file
    record.put_bytes(0, 28 + 4 + 2 + 2 + 4); // volume name, its date, signature and type, folder
    record.put_u8(u8::try_from(short.len()).unwrap_or(0));
    record.put_slice(short.as_bytes());
    record.put_bytes(0, 63 - short.len());
    record.put_bytes(0, 16); // file number, date, type, creator
    record.put_u16(1); // levels up to the common folder
    record.put_u16(levels); // levels down to the file
    record.put_bytes(0, 16); // volume attributes, file system, reserved
    let text = path.replace('/', ":");
    record.put_u16(2); // the path, padded to an even length
    record.put_u16(u16::try_from(text.len()).unwrap_or(0));
    record.put_slice(text.as_bytes());
    record.put_bytes(0, text.len() % 2);
    record.put_u16(u16::MAX); // the end
    record.put_u16(0);
    let size = u16::try_from(record.len()).unwrap_or(u16::MAX).to_be_bytes();
    record[4..6].copy_from_slice(&size);
    record
}
