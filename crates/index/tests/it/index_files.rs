//! Index MP4s are written, read back equal, and read by ffprobe like the media itself.

use crate::{
    generated::{AVC_AAC, encode, folder, store},
    locating::{locate, run, slice},
    oracle::{Packet, streams, streams_with},
    shared_media,
};
use bytes::Bytes;
use latemux_index::{
    IndexError, MediaIndex, Sample, Track,
    locate::{Locator, limits::Limits},
    media::Samples,
    media::stamp::MEDIA_HEAD,
};
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Reads all tables of an object, and returns the number of bytes read too.
pub(crate) fn full(object: &Bytes, limits: Limits) -> Result<(Locator, MediaIndex, u64), IndexError> {
    let mut locator = Locator::for_full_tables(limits);
    let located = run(&mut locator, None, object.len() as u64, |range| slice(object, range))?;
    Ok((locator, Arc::unwrap_or_clone(located.index), located.bytes_read))
}

fn head(object: &Bytes) -> Bytes {
    object.slice(..object.len().min(usize::try_from(MEDIA_HEAD).unwrap()))
}

fn samples(track: &Track) -> Vec<Sample> {
    match &track.samples {
        Samples::Table(table) => table.range(0..u32::MAX).collect(),
        Samples::Fragments(_) => panic!("a table of fragments"),
    }
}

/// Compares everything that output is made from.
fn same_output(media: &MediaIndex, index: &MediaIndex) -> Result<(), String> {
    if media.tracks.len() != index.tracks.len() {
        return Err(format!("{} tracks and {}", media.tracks.len(), index.tracks.len()));
    }
    for (m, i) in media.tracks.iter().zip(&index.tracks) {
        let facts = |t: &Track| {
            let entry = (t.sample_entry.raw.clone(), t.codec.rfc6381.clone(), t.display_size);
            (t.id, t.kind, t.handler, t.enabled, t.timescale, t.language.clone(), entry)
        };
        let times = |t: &Track| (t.presentation.media_time, t.start, t.end, t.average_bitrate);
        if facts(m) != facts(i) || times(m) != times(i) {
            return Err(format!("{:?} {:?}, {:?} {:?}", facts(m), times(m), facts(i), times(i)));
        }
        let ms = samples(m);
        let is = samples(i);
        if let Some(at) = (0..ms.len().max(is.len())).find(|&n| ms.get(n) != is.get(n)) {
            return Err(format!("track {} sample {at}: {:?}, {:?}", m.id, ms.get(at), is.get(at)));
        }
    }
    Ok(())
}

/// Writes the index MP4 of a file beside a link to it.
fn write(media: &Path, test: &str) -> (PathBuf, Bytes, MediaIndex, Bytes) {
    let object = Bytes::from(std::fs::read(media).unwrap());
    let (locator, index, _) = full(&object, Limits::default()).unwrap();
    let folder = folder(test).join(media.file_stem().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    let name = media.file_name().unwrap().to_str().unwrap();
    let link = folder.join(name);
    let _ = std::fs::remove_file(&link);
    symlink(media, &link).unwrap();
    let file = locator.full_tables().unwrap().index_file(name, Some(name)).unwrap();
    let path = folder.join(format!("{name}.index.mp4"));
    std::fs::write(&path, &file).unwrap();
    (path, object, index, file)
}

/// Returns the index of an index MP4, paired with its media.
fn paired(file: &Bytes, object: &Bytes, name: &str) -> MediaIndex {
    let located = locate(file, Limits::default()).unwrap();
    let index = MediaIndex::clone(&located.index);
    assert!(index.tracks.iter().all(|t| t.location.as_deref() == Some(name)), "{:?}", index.locations());
    let mut parts = index.by_location();
    assert_eq!(parts.len(), 1);
    parts.remove(0).1.of_media(object.len() as u64, &head(object)).unwrap()
}

/// Compares what ffprobe shows of the index MP4 and of the media.
fn same_packets(index: &Path, media: &Path, fragmented: bool) -> Result<(), String> {
    let ours = streams_with(index, &["-enable_drefs", "1"]).ok_or("ffprobe cannot read the index")?;
    let theirs = streams(media).ok_or("ffprobe cannot read the media")?;
    for stream in &ours {
        let other = theirs.iter().find(|s| s.id == stream.id).ok_or("no such stream")?;
        let packets = |packets: &[Packet]| -> Vec<Packet> {
            // ffmpeg applies the edit list to packets only with sample tables, so times are
            // compared relative to the first packet.
            let first = packets.first().filter(|_| fragmented).map_or((0, 0), |p| (p.pts, p.dts));
            let moved = |p: &Packet| Packet { pts: p.pts - first.0, dts: p.dts - first.1, ..*p };
            packets.iter().map(moved).map(|p| Packet { discard: p.discard && !fragmented, ..p }).collect()
        };
        let a = packets(&stream.packets);
        let b = packets(&other.packets);
        if a != b {
            let at = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
            let a = (a.len(), a.get(at));
            let b = (b.len(), b.get(at));
            return Err(format!("stream {} packet {at}: {a:?}, media {b:?}", stream.id));
        }
    }
    Ok(())
}

#[test]
fn index_files_of_generated_files_equal_their_media() {
    let folder = folder("index-sources");
    let plain = encode(&folder, "plain.mp4", &AVC_AAC);
    let fragments = "frag_keyframe+empty_moov+default_base_moof";
    let sources = [
        (store(&plain, "first.mp4", &["-movflags", "+faststart"]), false),
        (store(&plain, "fragmented.mp4", &["-movflags", fragments]), true),
        (store(&plain, "sidx.mp4", &["-movflags", &format!("{fragments}+global_sidx")]), true),
        (store(&plain, "no-edits.mp4", &["-movflags", fragments, "-use_editlist", "0"]), true),
        (store(&plain, "long.mp4", &["-movflags", "frag_keyframe+default_base_moof"]), true),
        (store(&plain, "quick.mov", &[]), false),
        (plain, false),
    ];
    for (media, fragmented) in sources {
        let (path, object, index, file) = write(&media, "generated-index");
        let name = media.file_name().unwrap().to_str().unwrap();
        same_output(&index, &paired(&file, &object, name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        same_packets(&path, &media, fragmented).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(file.len() < object.len() / 10, "{name}: {} of {}", file.len(), object.len());
        // No 32-bit offsets, no fragments, no media.
        for (kind, there) in [(b"co64", true), (b"stco", false), (b"mvex", false), (b"mdat", false)] {
            assert_eq!(file.windows(4).any(|w| w == kind), there, "{name}");
        }
    }
}

#[test]
fn index_files_of_shared_media_equal_their_media() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for media in shared_media::files() {
        let object = Bytes::from(std::fs::read(&media).unwrap());
        let Ok((_, index, _)) = full(&object, Limits::default()) else { continue };
        if index.tracks.is_empty() {
            continue;
        }
        let name = media.file_name().unwrap().to_str().unwrap().to_owned();
        let (path, object, index, file) = write(&media, "others-index");
        let read = paired(&file, &object, &name);
        if let Err(error) = same_output(&index, &read) {
            wrong.push(format!("{name}: {error}"));
        }
        let fragmented = object.windows(4).any(|w| w == b"moof");
        // ffprobe shows no packet of one of them, because a key is missing.
        if streams(&media).is_some()
            && let Err(error) = same_packets(&path, &media, fragmented)
        {
            wrong.push(format!("{name}: {error}"));
        }
        seen += 1;
    }
    println!("{seen} files");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn changed_media_makes_the_index_stale() {
    let media = encode(&folder("stale"), "plain.mp4", &AVC_AAC);
    let (_, object, _, file) = write(&media, "stale-index");
    let read = |size: u64, head: &[u8]| {
        let index = MediaIndex::clone(&locate(&file, Limits::default()).unwrap().index);
        index.of_media(size, head).map(|index| index.fingerprint).map_err(|e| (e.reason(), e.to_string()))
    };
    let size = object.len() as u64;
    let head = head(&object);
    let fingerprint = read(size, &head).unwrap();
    assert_eq!(read(size + 1, &head).unwrap_err().0, "index_stale");
    assert_eq!(read(size - 1, &head).unwrap_err().0, "index_stale");
    let mut other = head.to_vec();
    other[5000] ^= 1;
    assert_eq!(read(size, &other).unwrap_err().0, "index_stale");

    // Without the stamp, the end of the samples decides, and other media has another fingerprint.
    let mut unstamped = file.to_vec();
    let uuid = unstamped.windows(4).position(|w| w == b"uuid").unwrap();
    unstamped[uuid..uuid + 4].copy_from_slice(b"free");
    let index = locate(&unstamped.into(), Limits::default()).unwrap().index;
    let of = |size: u64, head: &[u8]| MediaIndex::clone(&index).of_media(size, head);
    let fingerprints =
        [of(size, &head), of(size + 1, &head), of(size, &other)].map(|i| i.unwrap().fingerprint);
    let distinct = std::collections::BTreeSet::from(
        [&fingerprints[..], &[fingerprint]].concat().try_into().unwrap_or([0; 4]),
    );
    assert_eq!(distinct.len(), 4);
    let error = of(size / 2, &head).unwrap_err();
    assert_eq!(error.reason(), "index_stale");
    assert!(error.to_string().contains("samples of track"), "{error}");
}

#[test]
fn tracks_are_split_by_location() {
    let media = encode(&folder("places"), "plain.mp4", &AVC_AAC);
    let object = Bytes::from(std::fs::read(&media).unwrap());
    let (locator, _, _) = full(&object, Limits::default()).unwrap();
    let file = locator.full_tables().unwrap().index_file("one.mp4", None).unwrap();
    // The second track gets another location, and the first one an absolute one.
    let mut file = file.to_vec();
    let at: Vec<usize> =
        file.windows(7).enumerate().filter(|(_, w)| w == b"one.mp4").map(|(i, _)| i).collect();
    assert_eq!(at.len(), 2);
    file[at[0]..at[0] + 7].copy_from_slice(b"/ne.mp4");
    file[at[1]..at[1] + 7].copy_from_slice(b"two.mp4");
    let index = MediaIndex::clone(&locate(&file.into(), Limits::default()).unwrap().index);
    let parts = index.by_location();
    let shown: Vec<_> = parts
        .iter()
        .map(|(location, part)| (location.as_deref(), part.tracks.iter().map(|t| t.id).collect::<Vec<_>>()))
        .collect();
    assert_eq!(shown, [(Some("/ne.mp4"), vec![1]), (Some("two.mp4"), vec![2])]);
}

#[test]
fn an_index_of_an_index_is_rejected() {
    let media = encode(&folder("twice"), "plain.mp4", &AVC_AAC);
    let (_, _, _, file) = write(&media, "twice-index");
    let (locator, _, _) = full(&file, Limits::default()).unwrap();
    let error = locator.full_tables().unwrap().index_file("x.mp4", None).unwrap_err();
    assert_eq!(error.reason(), "malformed");
}
