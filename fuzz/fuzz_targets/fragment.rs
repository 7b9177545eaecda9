//! Reads arbitrary bytes as `moof`, `sidx` and `mfra`. No input may panic, there are no more
//! samples than the bytes can hold, and boxes that are read are written back to equal ones.
#![no_main]

use bytes::Bytes;
use latemux_isobmff::{
    boxes::{
        mfra::{Mfra, mfro_size},
        sidx::Sidx,
        trun::TrackRun,
    },
    emit::{EmitSample, FragmentSpec, WriteBox, fragment, fragment_size},
    fragment::{Moof, TrackFragment},
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

/// Writes the samples of a track fragment as a fragment and asserts that they read back equal.
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
    // A reader refuses more samples than this if they have no fields of their own.
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
    let again = Moof::parse(&out.into(), 0).expect("a valid fragment");
    assert_eq!(samples(&again.tracks[0]), samples_read);
}
