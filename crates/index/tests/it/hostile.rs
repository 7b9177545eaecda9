//! Contradictory, truncated and damaged files give an error or a consistent title. They never
//! panic, and never need much more memory than the file has bytes.

use crate::{
    generated::{encode, folder, store},
    locating::{locate, read_fragment},
};
use bytes::Bytes;
use latemux_index::{
    IndexError, Sample, Title, locate::limits::Limits, media::Samples, media::fragment_samples::NoFragments,
    title::SegmentSamples,
};
use proptest::{prelude::*, sample::Index};
use std::{sync::LazyLock, time::Duration};

/// Indexes, cuts and reads everything, and asserts what must hold for all bytes. Returns the number
/// of samples.
fn exercise(object: &Bytes, head: u64) -> Result<usize, IndexError> {
    let limits = Limits { head, tail: head, ahead: head, max_index: 16 << 20 };
    let located = locate(object, limits)?;
    let size = object.len() as u64;
    let inside = |samples: &[Sample]| samples.iter().all(|s| s.offset + u64::from(s.size) <= size);
    assert!(located.bytes_read <= 8 * size + 64 * limits.tail, "{} of {size} bytes", located.bytes_read);
    let heap = located.index.heap_bytes();
    assert!(heap <= 8 * object.len() + (1 << 16), "{heap} bytes of index from {size}");
    let title = Title::new(vec![located.index.clone()], Duration::from_secs(1))?;
    let mut count = 0;
    for (number, track) in title.tracks().iter().enumerate() {
        let source = title.track(track);
        assert!((0..source.end).contains(&source.start), "{} to {}", source.start, source.end);
        if let Samples::Fragments(table) = &source.samples {
            for i in 0..table.len().min(1000) {
                let fragment = table.get(i).unwrap();
                assert!(fragment.bytes().end <= size);
                if let Ok(read) = read_fragment(&located.index, object, fragment.bytes(), 500) {
                    count += read.tracks.iter().map(|samples| samples.len()).sum::<usize>();
                    assert!(read.tracks.iter().all(|samples| inside(samples)));
                }
            }
            continue;
        }
        let mut of_track = 0;
        for segment in (0..track.segment_count()).map(|n| track.segment(n).unwrap()) {
            match title.samples(number, &segment, &NoFragments) {
                SegmentSamples::Known(samples) => {
                    assert!(!samples.is_empty() && inside(&samples) && samples[0].sync);
                    of_track += samples.len();
                }
                SegmentSamples::Needs(_) => unreachable!("a table is known"),
            }
        }
        assert!(of_track <= object.len(), "{of_track} samples in {size} bytes");
        count += of_track;
    }
    Ok(count)
}

/// Returns a small title stored in all ways an index is found by.
static FILES: LazyLock<Vec<(&'static str, Bytes)>> = LazyLock::new(|| {
    // Each test is a process of its own.
    let folder = folder(&format!("hostile_{}", std::process::id()));
    let codecs =
        ["-t", "3", "-s", "64x36", "-c:v", "libx264", "-bf", "2", "-g", "25", "-c:a", "aac", "-b:a", "16k"];
    let source = encode(&folder, "source.mp4", &codecs);
    let video_sidx = ["-map", "0:v", "-movflags", "+dash+global_sidx+frag_keyframe+empty_moov"];
    let stored: [(&str, &[&str]); 6] = [
        ("first.mp4", &["-movflags", "+faststart"]),
        ("sidx.mp4", &video_sidx),
        ("mfra.mp4", &["-movflags", "+frag_keyframe+empty_moov"]),
        ("neither.mp4", &["-movflags", "+frag_keyframe+empty_moov+skip_trailer"]),
        ("hybrid.mp4", &["-movflags", "+frag_keyframe"]),
        ("smooth.ismv", &["-movflags", "+frag_keyframe"]),
    ];
    let mut files: Vec<_> = stored
        .iter()
        .map(|(name, args)| (*name, Bytes::from(std::fs::read(store(&source, name, args)).unwrap())))
        .collect();
    files.push(("last.mp4", Bytes::from(std::fs::read(&source).unwrap())));
    std::fs::remove_dir_all(&folder).unwrap();
    files
});

#[test]
fn whole_files_are_accepted() {
    for (name, object) in FILES.iter() {
        let count = exercise(object, 4096).unwrap();
        // 75 video frames, and with audio some 140 frames.
        assert!(count >= 75, "{name}: {count} samples");
    }
}

#[test]
fn files_cut_off_anywhere_do_no_harm() {
    for (name, object) in FILES.iter() {
        let whole = exercise(object, 4096).unwrap();
        let mut refused = 0;
        for len in (0..object.len()).step_by(100) {
            match exercise(&object.slice(..len), 1024) {
                Ok(count) => assert!(count <= whole, "{name} cut off at {len}"),
                Err(error) => {
                    let known =
                        ["not_mp4", "truncated", "malformed", "empty_track", "no_media", "no_sync_sample"];
                    assert!(known.contains(&error.reason()), "{name} cut off at {len}: {error}");
                    refused += 1;
                }
            }
        }
        println!("{name}: {refused} of {} refused", object.len() / 100);
        // Half a progressive file cannot be played; of a fragmented file, the part before the cut
        // could.
        assert!(refused > object.len() / 1000, "{name}");
    }
}

#[test]
fn missing_bytes_and_wrong_bytes_have_different_reasons() {
    let (_, first) = &FILES[0];
    let reason = |object: &Bytes| exercise(object, 1024).unwrap_err().reason();
    assert_eq!(reason(&Bytes::new()), "not_mp4");
    assert_eq!(reason(&Bytes::from_static(b"<html><body>404</body></html>")), "not_mp4");
    assert_eq!(reason(&first.slice(..200)), "truncated");
    // All of `moov`, half of the media.
    assert_eq!(reason(&first.slice(..first.len() / 2)), "truncated");
    let (_, neither) = &FILES[3];
    assert_eq!(reason(&neither.slice(..neither.len() - 1)), "truncated");
    let small = Limits { max_index: 500, ..Limits::default() };
    assert_eq!(locate(first, small).unwrap_err().reason(), "index_too_large");
}

proptest! {
    // A failure prints the input it was found with, and the seed goes to a file beside this one.
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn files_damaged_anywhere_do_no_harm(
        file in any::<Index>(),
        flips in prop::collection::vec((any::<Index>(), any::<bool>(), prop_oneof![any::<u8>(), Just(0), Just(255), Just(1)]), 1..6),
        head in 16..5000_u64,
    ) {
        let (_, object) = file.get(&FILES);
        let mut bytes = object.to_vec();
        // Half of the damage is in the structure.
        let structure = 6000.min(bytes.len());
        for (at, early, value) in flips {
            let place = at.index(if early { structure } else { bytes.len() });
            bytes[place] = value;
        }
        let _ = exercise(&bytes.into(), head);
    }
}
