//! Every sample equals the packet ffprobe shows for it.

use crate::{
    locating::{Located, samples_of},
    oracle::{self, Packet},
};
use bytes::Bytes;
use latemux_index::media::{IndexSource, TrackKind};
use std::path::Path;

/// Compares all served tracks with ffprobe, and returns the differences as text.
pub(crate) fn compare(path: &Path, object: &Bytes, located: &Located) -> Vec<String> {
    let Some(streams) = oracle::streams(path) else { return vec!["ffprobe cannot read it".to_owned()] };
    let index = &located.index;
    let mut differences = Vec::new();
    for (number, track) in index.tracks.iter().enumerate() {
        let Some(stream) = streams.iter().find(|stream| stream.id == track.id) else {
            differences.push(format!("track {}: no stream", track.id));
            continue;
        };
        let ours: Vec<Packet> = samples_of(index, object, number)
            .iter()
            .map(|s| Packet {
                offset: s.offset,
                size: s.size,
                dts: s.decode_time - track.presentation.media_time,
                pts: track.presentation.time(s.decode_time, s.composition_offset),
                sync: s.sync,
                discard: false,
            })
            .collect();
        let mut theirs = stream.packets.clone();
        // With negative composition offsets, ffmpeg moves all decode times so that none is later
        // than its presentation.
        let shift = ours.iter().map(|p| p.dts - p.pts).max().unwrap_or(0).max(0);
        theirs.iter_mut().for_each(|p| p.dts += shift);
        // Readers may keep different hidden packets: packets that both have must be equal, and
        // packets that only one has must be hidden.
        let first = ours.first().map_or(0, |p| p.offset);
        let skipped = theirs.iter().position(|p| p.offset == first).unwrap_or(0);
        if theirs.iter().take(skipped).any(|p| !p.discard) {
            differences.push(format!("track {}: {skipped} packets are missing at the start", track.id));
        }
        theirs.drain(..skipped);
        while theirs.len() > ours.len() && theirs.last().is_some_and(|p| p.discard) {
            theirs.pop();
        }
        theirs.iter_mut().for_each(|p| p.discard = false);
        // In fragmented files ffmpeg learns of negative offsets late, and then moves everything it
        // has read so far: not by the amount in the file, but always by the same amount.
        let fragmented = index.source != IndexSource::SampleTables;
        let moved = theirs.first().map_or(0, |p| p.pts) - ours.first().map_or(0, |p| p.pts);
        let moved_decoding = theirs.first().map_or(0, |p| p.dts) - ours.first().map_or(0, |p| p.dts);
        // Offsets in the sample tables of scanned files are raised to 0 and above, and the
        // presentation's start with them.
        let raised = moved > 0 && moved == moved_decoding && moved == track.presentation.media_time;
        if fragmented && (raised || ours.iter().any(|p| p.pts < p.dts)) {
            theirs.iter_mut().for_each(|p| (p.pts, p.dts) = (p.pts - moved, p.dts - moved_decoding));
        }
        if track.kind == TrackKind::Video {
            present_hidden(&mut theirs, &ours, i64::from(track.timescale.get()));
        }
        if ours != theirs {
            let at =
                ours.iter().zip(&theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
            differences.push(format!(
                "track {} ({:?}): {} samples, {} packets (after {skipped}); at {at}: {:?}, ffprobe {:?}",
                track.id,
                track.presentation,
                ours.len(),
                theirs.len(),
                ours.get(at),
                theirs.get(at)
            ));
        }
    }
    differences
}

/// Hidden frames are presented within the first 20 ms, and frames that are due meanwhile just
/// after. Gives these packets the index's times, if they are of this kind.
fn present_hidden(theirs: &mut [Packet], ours: &[Packet], second: i64) {
    if theirs.iter().all(|p| p.pts >= 0) {
        return;
    }
    for (theirs, ours) in theirs.iter_mut().zip(ours) {
        let from = theirs.pts.max(0);
        if from < second / 50 && (from..from + second / 50).contains(&ours.pts) {
            theirs.pts = ours.pts;
        }
        if theirs.dts < second / 2 && ours.dts <= ours.pts {
            theirs.dts = ours.dts;
        }
    }
}
