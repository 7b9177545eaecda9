//! Reads whatever comes as `moof`, `sidx` and `mfra`: no panic, no more samples than bytes stand for, and what is
//! read is written back to the same.
#![no_main]

use bytes::Bytes;
use latemux_isobmff::{
    boxes::trun::TrackRun,
    emit::{EmitSample, FragmentSpec, WriteBox, fragment, fragment_size},
    fragment::{Moof, TrackFragment},
    boxes::{mfra::{Mfra, mfro_size}, sidx::Sidx},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    let _ = mfro_size(&bytes);
    if let Ok(mfra) = Mfra::parse(&bytes, 0) {
        let entries: usize = mfra.tracks.iter().map(|track| track.entries.len()).sum();
        assert!(entries <= bytes.len() / 11);
    }
    if let Ok(sidx) = Sidx::parse(&bytes, 0) {
        let mut out = Vec::new();
        sidx.write(&mut out);
        assert_eq!(Sidx::parse(&out.into(), 0).as_ref(), Ok(&sidx));
    }
    if let Ok(moof) = Moof::parse(&bytes, u64::MAX) {
        let samples = moof.tracks.iter().flat_map(|track| &track.runs).map(|run| run.iter().count());
        assert!(samples.sum::<usize>() <= bytes.len() / 4 + TrackRun::MAX_BARE as usize);
        moof.tracks.iter().for_each(rewrite);
    }
});

/// The samples of a track fragment, written as a fragment of our own, read back the same.
fn rewrite(track: &TrackFragment) {
    let samples = |track: &TrackFragment| -> Vec<EmitSample> {
        let samples = track.runs.iter().flat_map(|run| run.iter());
        let samples = samples.map(|sample| EmitSample {
            size: sample.size.or(track.default_size).unwrap_or(0),
            duration: sample.duration.or(track.default_duration).unwrap_or(0),
            flags: sample.flags.or(track.default_flags).unwrap_or(0),
            composition_offset: sample.composition_offset,
        });
        samples.collect()
    };
    let samples_read = samples(track);
    // Without fields of their own, more samples than a reader takes are no longer told from a lie.
    if samples_read.len() > TrackRun::MAX_BARE as usize {
        return;
    }
    let spec = FragmentSpec {
        sequence: 1,
        track_id: track.track_id,
        sample_description_index: track.sample_description_index,
        decode_time: track.decode_time.unwrap_or(0),
        samples: &samples_read,
    };
    let mut out = Vec::new();
    fragment(&spec, &mut out).expect("few samples");
    assert_eq!(out.len() as u64, fragment_size(&spec).expect("few samples").head());
    let again = Moof::parse(&out.into(), 0).expect("what we write");
    assert_eq!(samples(&again.tracks[0]), samples_read);
}
