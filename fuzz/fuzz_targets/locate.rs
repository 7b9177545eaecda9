//! Treats arbitrary bytes as an object: finds its index, cuts it into segments and reads every
//! fragment. No input may panic, no read and no sample may lie outside of the object, and no index
//! may be much larger than its source. The first byte sets how much is read at a time.
#![no_main]

use bytes::Bytes;
use latemux_index::{
    MediaIndex, Sample, Title,
    locate::fragment_reader::{FragmentReader, FragmentStep},
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::Samples,
    media::fragment_samples::{FragmentSamples, NoFragments},
    title::SegmentSamples,
};
use libfuzzer_sys::fuzz_target;
use std::{ops::Range, sync::Arc, time::Duration};

fuzz_target!(|data: &[u8]| {
    let Some((&head, object)) = data.split_first() else { return };
    let object = Bytes::copy_from_slice(object);
    let Some(index) = locate(&object, u64::from(head) * 16 + 16) else { return };
    assert!(index.heap_bytes() <= 8 * object.len() + (1 << 16), "{} bytes", index.heap_bytes());
    let Ok(title) = Title::new(vec![Arc::clone(&index)], Duration::from_millis(500)) else { return };
    let inside = |samples: &[Sample]| {
        assert!(samples.iter().all(|s| s.offset + u64::from(s.size) <= object.len() as u64));
    };
    for (number, track) in title.tracks().iter().enumerate() {
        if let Samples::Fragments(table) = &title.track(track).samples {
            for fragment in (0..table.len()).filter_map(|i| table.get(i)) {
                if let Some(samples) = read_fragment(&index, &object, fragment.bytes()) {
                    samples.tracks.iter().for_each(|samples| inside(samples));
                }
            }
            continue;
        }
        let mut count = 0;
        for segment in (0..track.segment_count()).filter_map(|n| track.segment(n)) {
            if let SegmentSamples::Known(samples) = title.samples(number, &segment, &NoFragments) {
                assert!(samples.first().is_some_and(|first| first.sync));
                inside(&samples);
                count += samples.len();
            }
        }
        // Frames that are shown for long are repeated up to 65,536 times.
        assert!(count <= 8 * object.len() + (1 << 16));
    }
});

fn slice(object: &Bytes, range: &Range<u64>) -> Bytes {
    object.slice(usize::try_from(range.start).expect("inside")..usize::try_from(range.end).expect("inside"))
}

fn locate(object: &Bytes, head: u64) -> Option<Arc<MediaIndex>> {
    let size = object.len() as u64;
    let mut locator = Locator::new(Limits { head, tail: head, ahead: head, max_index: 1 << 20 });
    let mut wants: Vec<_> = std::iter::once(0..size.min(locator.first_reads(None).head)).collect();
    // Each round trip brings at least one new byte.
    for _ in 0..=object.len() + 1 {
        let read = |range: &Range<u64>| ObjectBytes { offset: range.start, bytes: slice(object, range) };
        wants = match locator.step(size, wants.iter().map(read).collect()).ok()? {
            Step::Read(wants) | Step::Scan(wants) => wants,
            Step::Done(index) => return Some(Arc::new(*index)),
        };
    }
    panic!("the locator does not finish");
}

fn read_fragment(index: &Arc<MediaIndex>, object: &Bytes, range: Range<u64>) -> Option<FragmentSamples> {
    let mut reader = FragmentReader::new(Arc::clone(index), range.clone());
    let mut step = reader.feed(range.start, &Bytes::new()).ok()?;
    loop {
        match step {
            FragmentStep::Done(samples) => return Some(samples),
            FragmentStep::Need { from, len } => {
                assert!(len > 0 && from >= range.start && from + len <= range.end);
                step = reader.feed(from, &slice(object, &(from..from + len))).ok()?;
            }
        }
    }
}
