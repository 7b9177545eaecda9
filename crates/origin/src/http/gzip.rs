//! Compressing manifests by compressors that are used again. A new one allocates and clears 300 kB,
//! which takes longer than compressing a short manifest.

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use latemux_storage::processors;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The header (RFC 1952 §2.3.1) has neither time nor name, and names no operating system, so that
/// every node sends the same bytes.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Compressors that are not in use: at most one for each processor.
#[derive(Debug)]
pub(crate) struct Compressors {
    spares: Mutex<Vec<Compress>>,
    most: usize,
}

impl Compressors {
    pub(crate) fn new() -> Self {
        Self { spares: Mutex::default(), most: processors() }
    }

    /// Returns text as a gzip member, or `None` if the compressor fails.
    pub(crate) fn gzip(&self, text: &[u8]) -> Option<Bytes> {
        let spare = self.lock().pop();
        let mut compressor = spare.unwrap_or_else(|| Compress::new(Compression::default(), false));
        compressor.reset();
        let gzip = gzip_with(&mut compressor, text);
        let mut spares = self.lock();
        if spares.len() < self.most {
            spares.push(compressor);
        }
        gzip
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Compress>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gzip_with(compressor: &mut Compress, text: &[u8]) -> Option<Bytes> {
    let mut gzip = Vec::with_capacity(text.len() / 4 + 64);
    gzip.extend_from_slice(&HEADER);
    loop {
        let taken = usize::try_from(compressor.total_in()).ok()?;
        let rest = text.get(taken..)?;
        match compressor.compress_vec(rest, &mut gzip, FlushCompress::Finish).ok()? {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError => gzip.reserve(gzip.capacity() / 2),
        }
    }
    let mut crc = Crc::new();
    crc.update(text);
    gzip.extend_from_slice(&crc.sum().to_le_bytes());
    // The size of the text modulo 2^32.
    gzip.extend_from_slice(&crc.amount().to_le_bytes());
    // Without the unused part of the buffer, which would be kept as well.
    Some(Bytes::from(gzip.into_boxed_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{read::GzDecoder, write::GzEncoder};
    use proptest::prelude::*;
    use std::io::{Read, Write};

    fn fresh(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns lines as a manifest has them, or bytes that hardly compress.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let lines = (0..4000_u32, 1..9_u32).prop_map(|(count, step)| {
            let line = |number| format!("#EXTINF:4.{:03},\nseg-{number}-v1.ts\n", number * step % 1000);
            (0..count).map(line).collect::<String>().into_bytes()
        });
        prop_oneof![lines, prop::collection::vec(any::<u8>(), 0..100_000)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn a_compressor_that_was_used_before_makes_the_same_bytes_as_a_new_one(
            texts in prop::collection::vec(text(), 1..6),
        ) {
            let compressors = Compressors { spares: Mutex::default(), most: 1 };
            for text in texts {
                let gzip = compressors.gzip(&text).unwrap();
                prop_assert!(*gzip == *fresh(&text), "{} bytes", text.len());
                let mut back = Vec::new();
                GzDecoder::new(&gzip[..]).read_to_end(&mut back).unwrap();
                prop_assert!(back == text);
                prop_assert_eq!(compressors.lock().len(), 1);
            }
        }
    }
}
