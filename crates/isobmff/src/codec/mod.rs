//! Sample entries and codec configuration: a track's codec and its RFC 6381 codec string.

mod aac;
mod ac3;
mod ac4;
mod audio;
mod audio_coding;
mod av1;
mod av1_filters;
mod av1_frame;
mod av1_header;
mod av1_obu;
mod av1_references;
mod av1_sequence;
mod av1_tiles;
mod avc;
mod avc_slice;
pub mod captions;
mod children;
mod colour;
mod description;
mod dolby_vision;
mod dts;
mod esds;
mod flac;
mod hevc;
mod hevc_sets;
mod hevc_slice;
mod hevc_sps;
mod iso_entry;
mod opus;
mod other;
mod parameter_sets;
mod sample_entry;
mod sinf;
mod slices;
mod svc;
mod text;
mod usac;
mod video;
mod vp9;
mod vp9_frame;

#[cfg(test)]
mod tests;

use crate::{Error, FourCc, boxes::stsd};
use bytes::Bytes;
use sample_entry::EntryBody;

pub use av1_frame::Av1Frames;
pub use description::{
    Aac, Audio, Av1, Avc, Codec, Colour, Config, DeclaredBitrate, Hevc, Media, Svc, Video, VideoRange,
};
pub use esds::elementary_stream;
pub use iso_entry::iso_entry;
pub use sinf::Protection;
pub use slices::{SliceError, SliceReader};
pub use vp9_frame::{Vp9Frame, Vp9Frames};

/// Describes the codec of a sample entry of a track with the given handler.
///
/// # Errors
/// [`Error::Missing`], [`Error::Truncated`] or [`Error::BadValue`] if the configuration record is
/// absent, cut off or malformed; [`Error::Unsupported`] if the coding name or the record's version
/// is unknown.
pub fn describe(entry: &stsd::SampleEntry, handler: FourCc) -> Result<Codec, Error> {
    let entry = EntryBody::new(entry)?;
    let format = entry.format;
    // QuickTime calls both uncompressed video and unsigned 8-bit PCM `raw `. The handler decides.
    let is_raw_audio = format == b"raw " && handler == b"soun";
    if video::is_video(format) && !is_raw_audio {
        video::describe(&entry)
    } else if audio::is_audio(format) {
        audio::describe(&entry)
    } else if text::is_text(format) {
        text::describe(&entry)
    } else {
        Err(entry.at.unsupported("coding name"))
    }
}

/// Returns true for the coding names that [`describe`] reads.
pub fn is_known(format: FourCc) -> bool {
    video::is_video(format) || audio::is_audio(format) || text::is_text(format)
}

/// Returns the protection of a sample entry, if it is encrypted and `sinf` can be read.
pub fn protection(entry: &stsd::SampleEntry) -> Option<Protection> {
    if !sinf::is_protected(entry.format) {
        return None;
    }
    let entry = EntryBody::new(entry).ok()?;
    let boxes = if video::is_video(entry.format) {
        entry.video().ok()?.1
    } else if audio::is_audio(entry.format) {
        entry.audio().ok()?.1
    } else {
        return text::protection(&entry).ok();
    };
    sinf::protection(&boxes).ok()
}

/// Returns the coding name of a sample entry, before encryption.
pub fn coding_name(entry: &stsd::SampleEntry) -> FourCc {
    protection(entry).map_or(entry.format, |protection| protection.original)
}

/// Returns the payload, as stored, of a box inside a video or audio sample entry, or inside
/// QuickTime's `wave` in it: a codec's configuration record such as `avcC` or `dec3`. `None` if
/// there is no such box.
pub fn configuration_record(entry: &stsd::SampleEntry, kind: &[u8; 4]) -> Option<Bytes> {
    let entry = EntryBody::new(entry).ok()?;
    let boxes = if video::is_video(entry.format) { entry.video().ok()?.1 } else { entry.audio().ok()?.1 };
    boxes.first_or_in_wave(kind).map(|record| record.body)
}
