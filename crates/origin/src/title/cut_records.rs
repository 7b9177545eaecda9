//! Cuts of objects on disk, beside the indexes: where the slices of video begin, so that a restart
//! does not read the media again to find them.
//!
//! A record holds the cuts of all segments that begin in the same 64 MiB of an object. Its name
//! contains the version of the object and the digest of its index, so it is used for no other
//! version or index.

use crate::title::indexed::IndexedObject;
use latemux_cache::Records;
use latemux_packager::plan::CutSamples;
use latemux_protect::{CutCheck, FoundCuts, PackedCuts};
use latemux_storage::Version;
use std::{collections::BTreeMap, sync::Arc};

/// Changes whenever [`latemux_protect::CutReader`] finds other cuts in the same media, and with the
/// layout of records.
const FORMAT: u32 = 1;
/// Bytes of an object whose segments share a record: those segments that begin in them. A record
/// for each segment would take a whole block of the disk, and one for the whole object would be
/// written anew with each segment.
const RECORD_SPAN: u64 = 64 << 20;
/// Most records of an object on disk: those of its first TiB. A purge removes each of them, and
/// storage may state any size.
const MOST_RECORDS: u64 = 1 << 14;

/// The cuts of one record.
#[derive(Debug, Clone, Default)]
pub(crate) struct CutRecord(BTreeMap<u128, FoundCuts>);

/// Returns the number of the record with the cuts of samples.
pub(crate) fn record_number(samples: &CutSamples) -> u64 {
    samples.offset / RECORD_SPAN
}

impl CutRecord {
    /// Returns the cuts of samples.
    pub(crate) fn get(&self, samples: &CutSamples) -> Option<&FoundCuts> {
        self.0.get(&samples.digest)
    }

    /// Returns the same record with the cuts of further samples.
    pub(crate) fn with(&self, samples: &CutSamples, cuts: FoundCuts) -> Self {
        let mut all = self.0.clone();
        all.insert(samples.digest, cuts);
        Self(all)
    }

    /// Returns the same record with the cuts of another one. Checked cuts are not replaced.
    pub(crate) fn joined(mut self, other: &Self) -> Self {
        for (digest, cuts) in &other.0 {
            if !self.0.get(digest).is_some_and(FoundCuts::is_checked) {
                self.0.insert(*digest, cuts.clone());
            }
        }
        self
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn heap_bytes(&self) -> usize {
        const ENTRY: usize = size_of::<(u128, FoundCuts)>() + size_of::<PackedCuts>() + 16;
        let check = |found: &FoundCuts| found.check.as_ref().map_or(0, |_| size_of::<CutCheck>() + 16);
        self.0.values().map(|found| ENTRY + found.cuts.heap_bytes() + check(found)).sum()
    }

    /// Encodes the cuts that are those of the media.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (digest, found) in self.0.iter().filter(|(_, found)| found.is_checked()) {
            let cuts = found.cuts.as_bytes();
            out.extend_from_slice(&digest.to_le_bytes());
            out.extend_from_slice(&(cuts.len() as u64).to_le_bytes());
            out.extend_from_slice(cuts);
        }
        out
    }

    /// Decodes a record. Records have a checksum, so bytes that cannot be decoded are a mistake of
    /// this program.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut all = BTreeMap::new();
        while !bytes.is_empty() {
            let (digest, rest) = bytes.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let (cuts, rest) = rest.split_at_checked(length)?;
            let cuts = Arc::new(PackedCuts::from_bytes(cuts.to_vec()));
            all.insert(u128::from_le_bytes(*digest), FoundCuts::in_media(cuts));
            bytes = rest;
        }
        Some(Self(all))
    }
}

/// Reads a record from disk.
pub(crate) async fn read(records: &Records, object: &IndexedObject, number: u64) -> Option<CutRecord> {
    let name = name(object, number)?;
    let bytes = records.find(&name).await?;
    let found = CutRecord::from_bytes(&bytes);
    if found.is_none() {
        records.discard(&name);
    }
    found
}

/// Writes a record to disk in the background, in place of the one before.
pub(crate) fn write(records: &Records, object: &IndexedObject, number: u64, record: Arc<CutRecord>) {
    if let Some(name) = name(object, number) {
        records.put(name, record.heap_bytes() as u64, move || record.to_bytes());
    }
}

/// Removes all cuts of an object from disk.
pub(crate) fn remove(records: &Records, object: &IndexedObject) {
    for number in 0..(object.version().size / RECORD_SPAN + 1).min(MOST_RECORDS) {
        if let Some(name) = name(object, number) {
            records.forget(&name);
        }
    }
}

/// Returns the name of a record. `None` for an object whose version has neither ETag nor
/// modification time, because a later process could not detect a change, and for records beyond the
/// first TiB.
fn name(object: &IndexedObject, number: u64) -> Option<Vec<u8>> {
    let Version { etag, size, modified } = object.version();
    if !object.version().is_reliable() || number >= MOST_RECORDS {
        return None;
    }
    let storage = object.source().storage.describe();
    let etag = etag.as_deref().unwrap_or_default();
    let mut name = b"cuts".to_vec();
    name.extend(FORMAT.to_le_bytes());
    for text in [&*storage, object.key().as_str(), etag] {
        name.extend((text.len() as u64).to_le_bytes());
        name.extend(text.as_bytes());
    }
    name.extend(size.to_le_bytes());
    name.extend(modified.unwrap_or_default().to_le_bytes());
    // The index holds the parameter sets, and those of an index MP4 may differ from the media's.
    name.extend(object.index.fingerprint.to_le_bytes());
    name.extend(number.to_le_bytes());
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_protect::cuts::Cut;

    fn cuts(clear: u32) -> Arc<PackedCuts> {
        let mut cuts = PackedCuts::default();
        cuts.push(&[Cut { clear, data: 1000 }]);
        Arc::new(cuts)
    }

    fn samples(digest: u128) -> CutSamples {
        CutSamples { object: 0, digest, offset: 3 * RECORD_SPAN - 1 }
    }

    fn packed(record: &CutRecord) -> Vec<(u128, Arc<PackedCuts>)> {
        record.0.iter().map(|(digest, found)| (*digest, found.cuts.clone())).collect()
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        assert_eq!(record_number(&samples(1)), 2);
        let one = CutRecord::default().with(&samples(1), FoundCuts::in_media(cuts(5)));
        let both = one.with(&samples(2), FoundCuts::in_media(cuts(70_000)));
        let bytes = both.to_bytes();
        assert_eq!(CutRecord::from_bytes(&bytes).map(|read| packed(&read)), Some(packed(&both)));
        assert_eq!(packed(&one.clone().joined(&both)), packed(&both));
        assert_eq!(packed(&one), [(1, cuts(5))]);
        assert!(one.get(&samples(1)).is_some() && one.get(&samples(2)).is_none());
        assert!(both.heap_bytes() > one.heap_bytes() && one.heap_bytes() > 24);
        for end in 1..bytes.len() {
            let read = CutRecord::from_bytes(&bytes[..end]);
            assert!(read.is_none_or(|read| packed(&read) == packed(&one)), "{end}");
        }
    }

    #[test]
    fn cuts_that_were_not_compared_with_the_media_are_not_written() {
        let stated = FoundCuts { cuts: cuts(5), check: Some(Arc::default()) };
        let record = CutRecord::default().with(&samples(1), stated.clone());
        assert!(record.to_bytes().is_empty());
        // They do not replace cuts of the media, but are replaced by them.
        let found = CutRecord::default().with(&samples(1), FoundCuts::in_media(cuts(6)));
        assert_eq!(packed(&found.clone().joined(&record)), [(1, cuts(6))]);
        assert_eq!(packed(&record.clone().joined(&found)), [(1, cuts(6))]);
        let both = record.with(&samples(2), FoundCuts::in_media(cuts(7)));
        let read = CutRecord::from_bytes(&both.to_bytes());
        assert_eq!(read.map(|read| packed(&read)), Some(vec![(2, cuts(7))]));
    }
}
