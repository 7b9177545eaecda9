//! Trees, chains and errors of `sidx` that ffmpeg does not write.

use crate::{
    generated::{check, encode, ffmpeg, folder},
    locating::{locate, samples_of},
};
use bytes::Bytes;
use latemux_index::{
    Sample,
    locate::limits::Limits,
    media::{IndexSource, Samples},
};
use latemux_isobmff::{
    Timescale,
    boxes::sidx::{Reference, Sidx},
    emit::WriteBox,
    header::BoxHeader,
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};

/// Returns top-level boxes: type and range.
pub(crate) fn boxes(object: &[u8]) -> Vec<([u8; 4], Range<usize>)> {
    let mut at = 0;
    let mut boxes = Vec::new();
    while at < object.len() {
        let header = BoxHeader::read(&object[at..], 0).unwrap().unwrap();
        let end = at + usize::try_from(header.size.unwrap()).unwrap();
        boxes.push((header.kind.0, at..end));
        at = end;
    }
    boxes
}

/// A title of ten fragments of 2 s: the bytes before the first one, and each fragment.
pub(crate) fn fragments(test: &str) -> (PathBuf, Vec<u8>, Vec<Vec<u8>>) {
    let folder = folder(test);
    let codecs = ["-map", "0:v", "-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "50"];
    let source = encode(&folder, "source.mp4", &codecs);
    let path = folder.join("plain.mp4");
    let from = source.to_str().unwrap();
    let to = path.to_str().unwrap();
    let flags = "+frag_keyframe+empty_moov+skip_trailer+default_base_moof+delay_moov";
    ffmpeg(&["-i", from, "-c", "copy", "-movflags", flags, to]);
    let object = std::fs::read(&path).unwrap();
    let boxes = boxes(&object);
    let moofs: Vec<usize> =
        boxes.iter().filter(|(kind, _)| kind == b"moof").map(|(_, at)| at.start).collect();
    let ends = moofs.iter().skip(1).copied().chain([object.len()]);
    let fragments: Vec<_> = moofs.iter().zip(ends).map(|(&start, end)| object[start..end].to_vec()).collect();
    assert_eq!(fragments.len(), 10);
    (folder, object[..moofs[0]].to_vec(), fragments)
}

fn media(fragment: &[u8]) -> Reference {
    media_of(fragment.len())
}

/// Returns a reference to a fragment of two seconds.
pub(crate) fn media_of(size: usize) -> Reference {
    Reference { is_index: false, ..index(size, 25_600) }
}

fn index(size: usize, duration: u32) -> Reference {
    let size = u32::try_from(size).unwrap();
    Reference { is_index: true, size, duration, starts_with_sap: true, sap_type: 1, sap_delta: 0 }
}

pub(crate) fn sidx(start: u64, references: Vec<Reference>) -> Vec<u8> {
    let mut out = Vec::new();
    let sidx = Sidx {
        reference_id: 1,
        timescale: Timescale::new(12_800).unwrap(),
        earliest_presentation_time: start,
        first_offset: 0,
        references,
    };
    sidx.write(&mut out);
    out
}

fn starts(object: &Bytes) -> Vec<i64> {
    let index = locate(object, Limits::default()).unwrap().index;
    let Samples::Fragments(table) = &index.tracks[0].samples else { panic!("{:?}", index.source) };
    (0..table.len()).map(|i| table.get(i).unwrap().start).collect()
}

/// Compares with the same fragments without any `sidx`, since ffprobe does not follow references
/// between `sidx`.
fn same_as_plain(folder: &Path, object: Vec<u8>) {
    let plain = check(&folder.join("plain.mp4"), IndexSource::Scan, 100);
    let object = Bytes::from(object);
    assert_eq!(starts(&object), (0..10).map(|i| i * 25_600).collect::<Vec<_>>());
    // The head, the indexes below, some fragments.
    let located = locate(&object, Limits::default()).unwrap();
    assert_eq!((located.index.source, located.round_trips), (IndexSource::SegmentIndex, 3));
    let small = Limits { head: 1000, tail: 1000, ..Limits::default() };
    assert_eq!(
        format!("{:?}", locate(&object, small).unwrap().index.tracks),
        format!("{:?}", located.index.tracks)
    );
    let everything = |object: &Bytes| -> Vec<_> {
        let index = locate(object, Limits::default()).unwrap().index;
        let bytes = |s: &Sample| {
            let at = usize::try_from(s.offset).unwrap();
            object.slice(at..at + s.size as usize)
        };
        let samples = samples_of(&index, object, 0);
        samples.iter().map(|s| (bytes(s), Sample { offset: 0, ..*s })).collect()
    };
    assert_eq!(everything(&object), everything(&plain));
}

#[test]
fn a_tree_of_indexes_is_followed() {
    let (folder, mut object, fragments) = fragments("sidx_tree");
    let mut parts = Vec::new();
    for (number, half) in fragments.chunks(5).enumerate() {
        let child = sidx(number as u64 * 5 * 25_600, half.iter().map(|f| media(f)).collect());
        parts.push([child, half.concat()].concat());
    }
    object.extend(sidx(0, parts.iter().map(|part| index(part.len(), 5 * 25_600)).collect()));
    object.extend(parts.concat());
    same_as_plain(&folder, object);
}

#[test]
fn a_chain_of_indexes_is_followed() {
    let (folder, mut object, fragments) = fragments("sidx_chain");
    let halves: Vec<&[Vec<u8>]> = fragments.chunks(5).collect();
    let last = sidx(5 * 25_600, halves[1].iter().map(|f| media(f)).collect());
    let mut references: Vec<_> = halves[0].iter().map(|f| media(f)).collect();
    references.push(index(last.len(), 5 * 25_600));
    object.extend(sidx(0, references));
    object.extend(halves[0].concat());
    object.extend(last);
    object.extend(halves[1].concat());
    same_as_plain(&folder, object);
}

#[test]
fn times_with_another_origin_are_moved() {
    let (folder, mut object, fragments) = fragments("sidx_moved");
    object.extend(sidx(900_000, fragments.iter().map(|f| media(f)).collect()));
    object.extend(fragments.concat());
    let path = folder.join("moved.mp4");
    std::fs::write(&path, &object).unwrap();
    let object = check(&path, IndexSource::SegmentIndex, 2);
    assert_eq!(starts(&object), (0..10).map(|i| i * 25_600).collect::<Vec<_>>());
}

#[test]
fn a_wrong_index_is_replaced_by_a_scan() {
    let (folder, init, fragments) = fragments("sidx_wrong");
    let good: Vec<Reference> = fragments.iter().map(|f| media(f)).collect();
    let wrong = |name: &str, change: &dyn Fn(&mut Vec<Reference>)| {
        let mut references = good.clone();
        change(&mut references);
        let object = [init.clone(), sidx(0, references), fragments.concat()].concat();
        let path = folder.join(name);
        std::fs::write(&path, &object).unwrap();
        path
    };
    check(&wrong("short.mp4", &|r| r.truncate(9)), IndexSource::Scan, 100);
    check(&wrong("size.mp4", &|r| r[4].size -= 8), IndexSource::Scan, 100);
    check(&wrong("duration.mp4", &|r| r[0].duration += 100), IndexSource::Scan, 100);
    check(&wrong("nothing.mp4", &|r| r[3].duration = 0), IndexSource::Scan, 100);
    // If no access point is stated at all, the samples determine which are sync samples.
    let silent =
        |r: &mut Vec<Reference>| r.iter_mut().for_each(|r| (r.starts_with_sap, r.sap_type) = (false, 0));
    check(&wrong("silent.mp4", &silent), IndexSource::SegmentIndex, 2);
    let beyond = Bytes::from(std::fs::read(wrong("beyond.mp4", &|r| r[9].size += 1)).unwrap());
    assert_eq!(locate(&beyond, Limits::default()).unwrap_err().reason(), "truncated");
}
