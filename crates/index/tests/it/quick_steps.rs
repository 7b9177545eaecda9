//! Steps of the locator that a thread may take which must not be busy for long.

use crate::moov::{Sparse, audio, interleave, sample_entries, video};
use bytes::Bytes;
use latemux_index::locate::{Locator, QUICK_SAMPLES, Step, limits::Limits, read_buffer::ObjectBytes};

/// Returns the number of samples if the index is made in quick steps.
fn index_quickly(seconds: u32) -> Option<u64> {
    let (avc, aac) = sample_entries("quick_steps");
    let mut tracks = vec![video(&avc, seconds), audio(&aac, seconds)];
    interleave(&mut tracks);
    let file = Sparse::new(tracks, 1 << 20);
    let mut locator = Locator::new(Limits::default());
    let mut wants: Vec<_> = std::iter::once(0..file.size.min(locator.first_reads(None).head)).collect();
    loop {
        let got = wants.iter().map(|range| ObjectBytes { offset: range.start, bytes: file.read(range) });
        match locator.quick_step(file.size, got.collect()).unwrap()? {
            Step::Read(more) | Step::Scan(more) => wants = more,
            Step::Done(index) => return Some(index.sample_count()),
        }
    }
}

#[test]
fn a_short_index_is_made_in_quick_steps_and_a_long_one_is_not() {
    let samples = index_quickly(120).unwrap();
    assert!(samples > 8000 && samples <= QUICK_SAMPLES, "{samples}");
    // More samples than a quick step takes, and then more bytes, too.
    assert_eq!(index_quickly(240), None);
    assert_eq!(index_quickly(7200), None);
}

/// Runs of equal samples take no bytes, so the number of samples counts as well.
#[test]
fn a_small_moov_of_many_samples_is_not_indexed_in_a_quick_step() {
    let (_, aac) = sample_entries("quick_steps_runs");
    let count = u32::try_from(QUICK_SAMPLES).unwrap() + 1;
    let mut track = audio(&aac, 1);
    track.stts = vec![(count, 1024)];
    track.sizes = vec![300; count as usize];
    let mut tracks = vec![track];
    interleave(&mut tracks);
    let file = Sparse::new(tracks, 0);
    let start = ObjectBytes { offset: 0, bytes: file.read(&(0..file.size.min(200 << 10))) };
    let mut locator = Locator::new(Limits { head: 200 << 10, ..Limits::default() });
    assert!(locator.quick_step(file.size, vec![start]).unwrap().is_none());
    let Step::Done(index) = locator.step(file.size, Vec::new()).unwrap() else { panic!("bytes are missing") };
    assert_eq!(index.sample_count(), u64::from(count));
}

#[test]
fn a_quick_step_fails_like_any_other() {
    let text = Bytes::from_static(b"<html>this is no film at all</html>");
    let error = |quick: bool| {
        let got = vec![ObjectBytes { offset: 0, bytes: text.clone() }];
        let mut locator = Locator::new(Limits::default());
        let size = text.len() as u64;
        if quick { locator.quick_step(size, got).map(drop) } else { locator.step(size, got).map(drop) }
    };
    assert_eq!(error(true).unwrap_err().to_string(), error(false).unwrap_err().to_string());
}
