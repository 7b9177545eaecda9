//! Real progressive files, rewritten as init segment and fragments: ffprobe finds the same packets
//! in both.

use crate::sample::{media, top_level};
use bytes::Bytes;
use latemux_isobmff::{
    boxes::{ctts::CompositionOffsets, stsz::SampleSizes, trex::Trex},
    emit::{EmitSample, FragmentSpec, InitSegment, InitTrack, fragment, fragment_size},
    movie::{Movie, Track},
    sample_flags::{NON_SYNC, SYNC},
};
use std::{fs, iter, ops::Range, path::Path, process::Command};

/// Number of samples in a fragment; odd, so that fragments and chunks differ.
const FRAGMENT: usize = 7;

#[test]
fn ffprobe_finds_the_same_packets_in_a_remuxed_file() {
    if Command::new("ffprobe").arg("-version").output().is_err() {
        println!("skipped: no ffprobe");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut same = 0;
    let mut packets = 0;
    let mut skipped = Vec::new();
    for (name, file) in media() {
        let boxes = top_level(&file);
        let Some((_, offset, moov)) = boxes.iter().find(|(kind, ..)| *kind == b"moov") else { continue };
        let movie = Movie::parse(moov, *offset).unwrap();
        if movie.fragments.is_some() {
            continue;
        }
        let source = folder.join("source.mp4");
        fs::write(&source, &file).unwrap();
        for track in movie.tracks.iter().flatten() {
            let Some(samples) = samples(track, &file) else {
                skipped.push(format!("{name} track {}: samples beyond the file", track.id));
                continue;
            };
            if matches!(track.tables.stsz, SampleSizes::Constant { size: ..64, .. }) {
                skipped.push(format!("{name} track {}: ffprobe reads PCM by chunk, not by sample", track.id));
                continue;
            }
            let written = folder.join("written.mp4");
            fs::write(&written, remux(track, &samples, &file)).unwrap();
            let mut ours = probe(&written, track.id);
            let mut theirs = probe(&source, track.id);
            if track.handler != b"vide" {
                // AC-4 has sync samples, which ffprobe 5.1 reads from `stss` but not from a
                // fragment's flags.
                ours.iter_mut().chain(&mut theirs).for_each(|packet| packet.2 = packet.2.replace("K_", "__"));
            }
            if theirs.is_empty() && !samples.is_empty() {
                skipped.push(format!("{name} track {}: not read by ffprobe", track.id));
                continue;
            }
            let differ = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            assert_eq!(differ, None, "{name} track {}", track.id);
            assert_eq!(ours.len(), samples.len(), "{name} track {}", track.id);
            same += 1;
            packets += ours.len();
        }
    }
    println!("{same} tracks with {packets} packets are the same, {} skipped", skipped.len());
    println!("{}", skipped.join("\n"));
    assert!(same > 40 || (same == 0 && skipped.is_empty()));
}

/// Returns ffprobe's packets of a track: presentation and decode time, then size, key frame flag
/// and hash as text. Times are in ticks from the first decode time on, so that edit lists do not
/// matter.
fn probe(path: &Path, track: u32) -> Vec<(i64, i64, String)> {
    let output = Command::new("ffprobe")
        .args(["-v", "quiet", "-ignore_editlist", "1", "-show_data_hash", "crc32", "-of", "csv=p=0"])
        .args(["-show_entries", "packet=pts,dts,size,flags,data_hash", "-select_streams"])
        .arg(format!("i:{track}"))
        .arg(path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let packets = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ',');
        let mut time = || fields.next()?.parse::<i64>().ok();
        let pts = time()?;
        let dts = time()?;
        Some((pts, dts, fields.next()?.to_owned()))
    });
    let packets: Vec<_> = packets.collect();
    let start = packets.first().map_or(0, |packet| packet.1);
    packets.into_iter().map(|(pts, dts, rest)| (pts - start, dts - start, rest)).collect()
}

/// A sample, its bytes in the file, and the index of its sample entry.
struct Placed {
    sample: EmitSample,
    bytes: Range<usize>,
    description: u32,
}

/// Returns all samples of a track; `None` if one lies beyond the file.
fn samples(track: &Track, file: &Bytes) -> Option<Vec<Placed>> {
    let tables = &track.tables;
    let runs: Vec<_> = tables.stsc.iter().collect();
    let mut durations = tables.stts.iter().flat_map(|run| iter::repeat_n(run.delta, run.count as usize));
    let offsets = tables.ctts.iter().flat_map(CompositionOffsets::iter);
    let mut offsets = offsets.flat_map(|run| iter::repeat_n(run.offset, run.count as usize));
    let mut sizes = tables.stsz.iter();
    let mut samples = Vec::new();
    for (chunk, offset) in (1..).zip(tables.stco.iter()) {
        let run = runs.iter().rev().find(|run| run.first_chunk <= chunk)?;
        let mut at = usize::try_from(offset).ok()?;
        for _ in 0..run.samples_per_chunk {
            let Some(size) = sizes.next() else { break };
            let number = samples.len() as u32 + 1;
            let sync = tables.stss.as_ref().is_none_or(|table| table.iter().any(|sync| sync == number));
            let sample = EmitSample {
                size,
                duration: durations.next()?,
                flags: if sync { SYNC } else { NON_SYNC },
                composition_offset: offsets.next().unwrap_or(0),
            };
            let bytes = at..at + size as usize;
            at = bytes.end;
            file.get(bytes.clone())?;
            samples.push(Placed { sample, bytes, description: run.sample_description_index });
        }
    }
    Some(samples)
}

fn remux(track: &Track, samples: &[Placed], file: &Bytes) -> Vec<u8> {
    let init = InitSegment::cmaf(
        InitTrack {
            track_id: track.id,
            handler: track.handler,
            timescale: track.timescale,
            language: track.language.clone(),
            enabled: true,
            alternate_group: track.alternate_group,
            matrix: track.matrix,
            display_size: track.display_size,
            sample_entries: track.sample_entries.clone(),
            edit_media_time: track.edits.first().and_then(|edit| edit.media_time).unwrap_or(0),
            trex: Trex::plain(track.id),
        },
        None,
    );
    let mut out = init.to_bytes().to_vec();
    let mut decode_time = 0;
    for (sequence, placed) in (1..).zip(samples.chunks(FRAGMENT)) {
        // A fragment has one sample entry. If it changes in the middle, the fragment ends there.
        for placed in placed.chunk_by(|a, b| a.description == b.description) {
            let samples: Vec<_> = placed.iter().map(|placed| placed.sample).collect();
            let spec = FragmentSpec {
                sequence,
                track_id: track.id,
                sample_description_index: Some(placed[0].description).filter(|&index| index != 1),
                decode_time,
                samples: &samples,
            };
            let start = out.len() as u64;
            fragment(&spec, &mut out).unwrap();
            for placed in placed {
                out.extend(&file[placed.bytes.clone()]);
            }
            assert_eq!(out.len() as u64 - start, fragment_size(&spec).unwrap().total());
            decode_time += samples.iter().map(|sample| u64::from(sample.duration)).sum::<u64>();
        }
    }
    out
}
