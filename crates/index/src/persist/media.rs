//! Objects, tracks and fragments as bytes.

use crate::{
    error::{TrackProblem, TrackProblemKind},
    media::{
        IndexSource, MediaIndex, Purpose, Samples, Track, TrackKind, cut_box::CutBoxPlace,
        fragment_samples::FragmentSamples, stamp::MediaStamp, thumbnails::ThumbnailTrack,
    },
    persist::{
        cursor::{ByteReader, ByteWriter},
        error::PersistError,
        packed::{self, DECODE_TIMES, TIMES},
    },
    table::{column::unpacked::UnpackedValues, layout::Layout, presentation::Presentation, samples::Sample},
};
use bytes::Bytes;
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{mdhd::Language, stsd::SampleEntry, trex::Trex},
    codec,
    matrix::Matrix,
};
use std::sync::Arc;

const SOURCES: [IndexSource; 4] =
    [IndexSource::SampleTables, IndexSource::SegmentIndex, IndexSource::RandomAccess, IndexSource::Scan];
const KINDS: [TrackKind; 3] = [TrackKind::Video, TrackKind::Audio, TrackKind::Text];

/// Writes the index of a value in the list of all values.
fn put_one<T: PartialEq>(value: &T, all: &[T], out: &mut ByteWriter) {
    let number = all.iter().position(|one| one == value);
    out.u8(number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX));
}

fn take_one<T: Copy>(all: &[T], bytes: &mut ByteReader<'_>) -> Result<T, PersistError> {
    all.get(usize::from(bytes.u8()?)).copied().ok_or(PersistError::Damaged("an unknown enumeration value"))
}

pub(super) fn put_index(index: &MediaIndex, out: &mut ByteWriter) {
    out.u64(index.object_size);
    out.u128(index.fingerprint);
    put_one(&index.source, &SOURCES, out);
    out.u64(index.source_bytes);
    out.option(index.stamp, |out, stamp| {
        out.u64(stamp.size);
        out.u32(stamp.head);
        out.u128(stamp.digest);
    });
    out.option(index.cut_box.as_deref(), |out, place| {
        out.u64(place.offset);
        out.u64(place.size);
        out.u128(place.moov);
    });
    out.list(&index.fragment_defaults, |out, trex| {
        [trex.track_id, trex.sample_description_index, trex.duration, trex.size, trex.flags]
            .into_iter()
            .for_each(|number| out.u32(number));
    });
    out.list(&index.left_out, |out, problem| put_problem(problem, out));
    let mut layouts = Vec::new();
    out.count(index.tracks.len());
    for track in &index.tracks {
        put_track(track, &mut layouts, out);
    }
    out.count(index.thumbnails.len());
    for thumbnails in &index.thumbnails {
        put_track(&thumbnails.track, &mut layouts, out);
        out.option(thumbnails.stated_tiles.as_deref(), ByteWriter::text);
    }
}

pub(super) fn take_index(bytes: &mut ByteReader<'_>) -> Result<MediaIndex, PersistError> {
    let mut layouts = Vec::new();
    Ok(MediaIndex {
        unpacked: UnpackedValues::default(),
        object_size: bytes.u64()?,
        fingerprint: bytes.u128()?,
        source: take_one(&SOURCES, bytes)?,
        source_bytes: bytes.u64()?,
        stamp: bytes.option(|bytes| {
            Ok(MediaStamp { size: bytes.u64()?, head: bytes.u32()?, digest: bytes.u128()? })
        })?,
        cut_box: bytes.option(|bytes| {
            let (offset, size, moov) = (bytes.u64()?, bytes.u64()?, bytes.u128()?);
            Ok(Box::new(CutBoxPlace { offset, size, moov }))
        })?,
        fragment_defaults: bytes
            .list(20, |bytes| {
                Ok(Trex {
                    track_id: bytes.u32()?,
                    sample_description_index: bytes.u32()?,
                    duration: bytes.u32()?,
                    size: bytes.u32()?,
                    flags: bytes.u32()?,
                })
            })?
            .into(),
        left_out: bytes.list(7, take_problem)?,
        tracks: bytes.list(TRACK, |bytes| take_track(&mut layouts, bytes))?,
        thumbnails: bytes.list(TRACK, |bytes| {
            let track = take_track(&mut layouts, bytes)?;
            let stated_tiles = bytes.option(|bytes| Ok(bytes.text()?.into()))?;
            Ok(ThumbnailTrack { track, stated_tiles })
        })?,
        inline: None,
    })
}

/// A lower bound of the bytes of a track, with its sample entry and samples.
const TRACK: usize = 100;

fn put_track<'a>(track: &'a Track, layouts: &mut Vec<&'a Arc<Layout>>, out: &mut ByteWriter) {
    out.u32(track.id);
    put_one(&track.kind, &KINDS, out);
    out.bytes(&track.handler.0);
    out.bool(track.enabled);
    out.u32(track.timescale.get());
    out.text(track.language.as_str());
    out.u8(track.purpose.bits());
    out.option(track.label.as_deref(), ByteWriter::text);
    out.bytes(&track.sample_entry.format.0);
    out.u16(track.sample_entry.data_reference_index);
    out.blob(&track.sample_entry.raw);
    track.matrix.0.iter().for_each(|&number| out.i32(number));
    out.u32(track.display_size.0);
    out.u32(track.display_size.1);
    out.i64(track.presentation.media_time);
    out.i64(track.presentation.shift);
    out.i64(track.start);
    out.i64(track.end);
    out.u64(track.average_bitrate);
    out.u32(track.sample_description);
    out.option(track.location.as_deref(), ByteWriter::text);
    match &track.samples {
        Samples::Table(table) => {
            out.u8(0);
            packed::put_table(table, layouts, out);
        }
        Samples::Fragments(table) => {
            out.u8(1);
            packed::put_fragments(table, out);
        }
    }
}

fn take_track(layouts: &mut Vec<Arc<Layout>>, bytes: &mut ByteReader<'_>) -> Result<Track, PersistError> {
    let id = bytes.u32()?;
    let kind = take_one(&KINDS, bytes)?;
    let handler = four(bytes)?;
    let enabled = bytes.bool()?;
    let timescale = Timescale::new(bytes.u32()?).ok_or(PersistError::Damaged("a time scale of 0"))?;
    let language = Language::new(bytes.text()?).ok_or(PersistError::Damaged("an invalid language"))?;
    let purpose = Purpose::of_bits(bytes.u8()?).ok_or(PersistError::Damaged("an unknown purpose"))?;
    let label = bytes.option(|bytes| Ok(Arc::from(bytes.text()?)))?;
    let sample_entry = SampleEntry {
        format: four(bytes)?,
        data_reference_index: bytes.u16()?,
        raw: Bytes::copy_from_slice(bytes.blob()?),
    };
    // The codec is not stored, since it consists of views of the sample entry.
    let codec = codec::describe(&sample_entry, handler)
        .map_err(|_| PersistError::Damaged("an invalid sample entry"))?;
    Ok(Track {
        id,
        kind,
        purpose,
        label,
        // Only a server manifest declares them.
        captions: None,
        handler,
        enabled,
        timescale,
        language,
        sample_entry,
        codec,
        matrix: matrix(bytes)?,
        display_size: (bytes.u32()?, bytes.u32()?),
        presentation: Presentation { media_time: bytes.within(TIMES)?, shift: bytes.within(TIMES)? },
        start: bytes.within(TIMES)?,
        end: bytes.within(TIMES)?,
        average_bitrate: bytes.u64()?,
        sample_description: bytes.u32()?,
        location: bytes.option(|bytes| Ok(Arc::from(bytes.text()?)))?,
        samples: match bytes.u8()? {
            0 => Samples::Table(packed::take_table(layouts, bytes)?),
            1 => Samples::Fragments(packed::take_fragments(bytes)?),
            _ => return Err(PersistError::Damaged("samples of an unknown form")),
        },
    })
}

fn matrix(bytes: &mut ByteReader<'_>) -> Result<Matrix, PersistError> {
    let mut numbers = [0; 9];
    for number in &mut numbers {
        *number = bytes.i32()?;
    }
    Ok(Matrix(numbers))
}

fn four(bytes: &mut ByteReader<'_>) -> Result<FourCc, PersistError> {
    Ok(FourCc(bytes.u32()?.to_le_bytes()))
}

fn put_problem(problem: &TrackProblem, out: &mut ByteWriter) {
    let mut start = |number: u8| {
        out.u8(number);
        out.u32(problem.track);
        out.option(problem.handler, |out, handler| out.bytes(&handler.0));
        out.option(problem.coding, |out, coding| out.bytes(&coding.0));
    };
    match &problem.kind {
        TrackProblemKind::Encrypted(scheme) => {
            start(0);
            out.bytes(&scheme.0);
        }
        TrackProblemKind::UnsupportedCodec(format) => {
            start(1);
            out.bytes(&format.0);
        }
        TrackProblemKind::Empty => start(2),
        TrackProblemKind::NoSyncSample => start(3),
        TrackProblemKind::Malformed(what) => {
            start(4);
            out.text(what);
        }
        TrackProblemKind::Truncated { sample, end, object_size } => {
            start(5);
            out.u32(*sample);
            out.u64(*end);
            out.u64(*object_size);
        }
        TrackProblemKind::Unsupported(what) => {
            start(6);
            out.text(what);
        }
        TrackProblemKind::TooLarge(what) => {
            start(7);
            out.text(what);
        }
        TrackProblemKind::Thumbnails(what) => {
            start(8);
            out.text(what);
        }
    }
}

fn take_problem(bytes: &mut ByteReader<'_>) -> Result<TrackProblem, PersistError> {
    let number = bytes.u8()?;
    let track = bytes.u32()?;
    let handler = bytes.option(four)?;
    let coding = bytes.option(four)?;
    let kind = match number {
        0 => TrackProblemKind::Encrypted(four(bytes)?),
        1 => TrackProblemKind::UnsupportedCodec(four(bytes)?),
        2 => TrackProblemKind::Empty,
        3 => TrackProblemKind::NoSyncSample,
        4 => TrackProblemKind::Malformed(bytes.text()?.to_owned()),
        5 => {
            TrackProblemKind::Truncated { sample: bytes.u32()?, end: bytes.u64()?, object_size: bytes.u64()? }
        }
        6 => TrackProblemKind::Unsupported(bytes.text()?.to_owned().into()),
        7 => TrackProblemKind::TooLarge(bytes.text()?.to_owned()),
        8 => TrackProblemKind::Thumbnails(bytes.text()?.to_owned()),
        _ => return Err(PersistError::Damaged("a problem of an unknown kind")),
    };
    Ok(TrackProblem { track, handler, coding, kind })
}

const SAMPLE: usize = 8 + 4 + 8 + 4 + 4 + 1;

pub(super) fn put_fragment(fragment: &FragmentSamples, out: &mut ByteWriter) {
    out.list(&fragment.tracks, |out, samples| {
        out.list(samples, |out, sample| {
            out.u64(sample.offset);
            out.u32(sample.size);
            out.i64(sample.decode_time);
            out.u32(sample.duration);
            out.i32(sample.composition_offset);
            out.bool(sample.sync);
        });
    });
}

pub(super) fn take_fragment(bytes: &mut ByteReader<'_>) -> Result<FragmentSamples, PersistError> {
    let sample = |bytes: &mut ByteReader<'_>| {
        Ok(Sample {
            offset: bytes.within(0..=i64::MAX)?.unsigned_abs(),
            size: bytes.u32()?,
            decode_time: bytes.within(DECODE_TIMES)?,
            duration: bytes.u32()?,
            composition_offset: bytes.i32()?,
            sync: bytes.bool()?,
        })
    };
    let tracks = bytes.list(4, |bytes| Ok(bytes.list(SAMPLE, sample)?.into()))?;
    Ok(FragmentSamples { tracks })
}
