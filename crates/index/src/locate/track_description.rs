//! Describing a track from its `trak`, or the reason why it cannot be served.

use crate::{
    error::{TrackProblem, TrackProblemKind},
    locate::{edits::Edits, hidden_frames, moof_samples::every_sample_is_sync, moov_tables, placement},
    media::{Purpose, Samples, Track, TrackKind},
    table::{
        column::unpacked::UnpackedValues, fragment_table::FragmentTable, layout::ChunkPositions,
        presentation::Presentation, samples::SampleTable,
    },
};
use latemux_isobmff::{
    Error as BoxError, FourCc, Time, Timescale,
    boxes::{dref::DataReference, mdhd::Language, stsd::SampleEntry},
    codec::{self, Codec, Config, Media},
    matrix::Matrix,
    movie::{self, Movie},
};
use std::sync::Arc;

/// A track of `moov` without its samples.
#[derive(Debug, Clone)]
pub(crate) struct TrackDescription {
    pub(crate) id: u32,
    pub(crate) kind: TrackKind,
    handler: FourCc,
    enabled: bool,
    pub(crate) timescale: Timescale,
    language: Language,
    purpose: Purpose,
    label: Option<Arc<str>>,
    /// 1-based index of the sample entry in `stsd`.
    pub(crate) sample_description: u32,
    sample_entry: SampleEntry,
    codec: Codec,
    matrix: Matrix,
    display_size: (u32, u32),
    pub(crate) edits: Edits,
    /// Location of its media, if it is not in the object with the `moov`.
    location: Option<Arc<str>>,
}

impl TrackDescription {
    /// Reads everything that does not depend on samples.
    pub(crate) fn read(track: &movie::Track, movie: &Movie) -> Result<Self, TrackProblemKind> {
        let id = track.id;
        let Some(kind) = TrackKind::of_handler(track.handler) else {
            return Err(unserved(track));
        };
        let sample_description = match moov_tables::sample_description(&track.tables) {
            Ok(index) => index,
            // There are no samples in `moov`: `trex` states the default of fragments.
            Err(TrackProblemKind::Empty) => {
                let trex = movie.fragments.iter().flatten().find(|trex| trex.track_id == id);
                let index = trex.map_or(1, |trex| trex.sample_description_index);
                if track.sample_entries.len() > 1 { index } else { 1 }
            }
            Err(kind) => return Err(kind),
        };
        let entry = sample_description.checked_sub(1).map(|i| i as usize);
        let Some(entry) = entry.and_then(|i| track.sample_entries.get(i)) else {
            return Err(TrackProblemKind::malformed("its samples use a sample entry that does not exist"));
        };
        let location = location(track, entry, movie.fragments.is_some())?;
        let (sample_entry, codec) = read_entry(entry, track.handler, kind)?;
        let fragmented = movie.fragments.is_some();
        let edits = Edits::resolve(&track.edits, movie.timescale, track.timescale, fragmented)
            .map_err(|what| TrackProblemKind::Unsupported(what.into()))?;
        Ok(Self {
            id,
            kind,
            handler: track.handler,
            enabled: track.enabled,
            timescale: track.timescale,
            language: track.language.clone(),
            purpose: Purpose::of_track(kind, &sample_entry, &track.kinds),
            label: track.label.as_deref().map(Arc::from),
            sample_description,
            sample_entry,
            codec,
            matrix: if kind == TrackKind::Video { track.matrix } else { Matrix::UNITY },
            display_size: track.display_size,
            edits,
            location,
        })
    }

    /// Returns true if its samples are JPEG pictures.
    pub(crate) fn is_pictures(&self) -> bool {
        self.codec.config == Config::Jpeg
    }

    /// Returns the problem of a coding that no protocol carries.
    pub(crate) fn uncarried(&self) -> TrackProblemKind {
        TrackProblemKind::UnsupportedCodec(self.sample_entry.format)
    }

    /// Returns true if its media lies in another object than its `moov`.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.location.is_some()
    }

    /// Returns the problem of this track.
    pub(crate) fn problem(&self, kind: TrackProblemKind) -> TrackProblem {
        let handler = Some(self.handler);
        let coding = Some(self.sample_entry.format);
        TrackProblem { track: self.id, handler, coding, kind }
    }

    /// Calls [`every_sample_is_sync`] for this track.
    pub(crate) fn every_sample_is_sync(&self) -> bool {
        every_sample_is_sync(self.kind, &self.codec)
    }

    /// Reads the sample tables of `moov` with the positions of the samples.
    pub(crate) fn read_placed_tables(
        &self,
        track: &movie::Track,
        object_size: u64,
    ) -> Result<SampleTable, TrackProblemKind> {
        let mut table = self.read_tables(track, object_size, None)?;
        let (counts, positions) = placement::chunks_of(&track.tables, self.size_of_media(object_size))?;
        table.set_chunks(counts, ChunkPositions::Separate(positions));
        Ok(table)
    }

    /// Reads the sample tables of `moov`: all samples, on the source timeline. Their positions are
    /// left to [`placement::place`]. `unpacked` keeps the values of packed columns.
    pub(crate) fn read_tables(
        &self,
        track: &movie::Track,
        object_size: u64,
        unpacked: Option<&mut UnpackedValues>,
    ) -> Result<SampleTable, TrackProblemKind> {
        let media_size = self.size_of_media(object_size);
        moov_tables::read(&track.tables, media_size, self.kind != TrackKind::Video, unpacked)
    }

    /// Returns the number of samples in `moov`, unless [`Self::read_tables`] refuses it at once.
    pub(crate) fn sample_count(&self, track: &movie::Track, object_size: u64) -> Option<u32> {
        moov_tables::sample_count(&track.tables, self.size_of_media(object_size)).ok()
    }

    /// Returns the size of the object that holds the media, in bytes. That of another object is
    /// checked when that object is read, see `MediaIndex::of_media`.
    pub(crate) fn size_of_media(&self, object_size: u64) -> u64 {
        if self.is_elsewhere() { moov_tables::MAX_OBJECT_SIZE } else { object_size }
    }

    /// Makes the track from all its samples on the source timeline, and applies the edit list.
    pub(crate) fn with_table(mut self, mut table: SampleTable) -> Result<Track, TrackProblemKind> {
        if table.is_empty() {
            return Err(TrackProblemKind::Empty);
        }
        if table.sync_from(0).is_none() {
            return Err(TrackProblemKind::NoSyncSample);
        }
        let presentation = self.edits.presentation;
        table.shift(presentation.shift);
        let range = self.edits.samples(&table, self.kind, self.timescale);
        table.keep(range);
        // Negative composition offsets are raised; a later presentation start keeps all times.
        let presentation = &mut self.edits.presentation;
        presentation.media_time += i64::from(table.lift_compositions());
        if self.kind == TrackKind::Video
            && let Some(retimed) = hidden_frames::presented_from_zero(&table, *presentation, self.timescale)
        {
            (table, *presentation, self.timescale) = retimed;
        }
        // Players of HLS expect the decode times to begin at the start of the first segment. They
        // do not know the edit list, which players of MSE apply too.
        let hidden = table.decode_time(0).min(presentation.media_time);
        table.shift(-hidden);
        presentation.media_time -= hidden;
        presentation.shift -= hidden;
        let (first, end) = table.presented(presentation).ok_or(TrackProblemKind::Empty)?;
        let bytes = table.bytes_in(0..u32::MAX);
        self.finish(first, end, Samples::Table(table), |duration| rate(bytes, duration))
    }

    /// Makes the track from its fragments. `bitrate`, in bits per second, is declared by the file
    /// or measured from the first fragment.
    pub(crate) fn with_fragments(
        self,
        table: FragmentTable,
        bitrate: Option<u64>,
    ) -> Result<Track, TrackProblemKind> {
        let first = table.start(0).ok_or(TrackProblemKind::Empty)?;
        if self.kind == TrackKind::Video && table.sync_from(0) != Some(0) {
            return Err(TrackProblemKind::NoSyncSample);
        }
        let end = table.end();
        let bytes = table.bytes();
        self.finish(first, end, Samples::Fragments(table), |duration| {
            bitrate.unwrap_or_else(|| rate(bytes, duration))
        })
    }

    /// Returns the bit rate that the file declares, in bits per second.
    pub(crate) fn declared_bitrate(&self) -> Option<u64> {
        let declared = self.codec.declared_bitrate;
        declared.average.or(declared.max).map(u64::from)
    }

    /// Makes the track. `bitrate` receives the duration as (ticks, ticks per second).
    fn finish(
        self,
        first: i64,
        end: i64,
        samples: Samples,
        bitrate: impl FnOnce((u64, u32)) -> u64,
    ) -> Result<Track, TrackProblemKind> {
        let start = first.max(0);
        if end <= start {
            return Err(TrackProblemKind::Empty);
        }
        let Presentation { media_time, shift } = self.edits.presentation;
        if [-first, end, media_time, shift].iter().any(|&ticks| ticks > Time::MAX_TICKS) {
            return Err(TrackProblemKind::malformed("times beyond 2^61 ticks"));
        }
        let average_bitrate = bitrate((end.abs_diff(start), self.timescale.get()));
        Ok(Track {
            id: self.id,
            kind: self.kind,
            handler: self.handler,
            enabled: self.enabled,
            timescale: self.timescale,
            language: self.language,
            purpose: self.purpose,
            label: self.label,
            captions: None,
            sample_entry: self.sample_entry,
            codec: self.codec,
            matrix: self.matrix,
            display_size: self.display_size,
            presentation: self.edits.presentation,
            start,
            end,
            samples,
            average_bitrate,
            sample_description: self.sample_description,
            location: self.location,
        })
    }
}

/// Returns the problem of a track whose handler type is not served.
fn unserved(track: &movie::Track) -> TrackProblemKind {
    match track.sample_entries.first().map(codec::coding_name) {
        Some(coding) if is_carried(track) => {
            TrackProblemKind::Unsupported(format!("{coding} in a track of type {}", track.handler).into())
        }
        coding => TrackProblemKind::UnsupportedCodec(coding.unwrap_or(track.handler)),
    }
}

/// Returns true if the coding of a track could be served with another handler type.
fn is_carried(track: &movie::Track) -> bool {
    let described = |entry| codec::describe(entry, track.handler).ok();
    track.sample_entries.first().and_then(described).is_some_and(|codec| codec.config != Config::Other)
}

/// Reads the coding of a sample entry, and writes the entry anew. The result is no view, which
/// would keep the whole `moov` in memory.
fn read_entry(
    entry: &SampleEntry,
    handler: FourCc,
    kind: TrackKind,
) -> Result<(SampleEntry, Codec), TrackProblemKind> {
    if let Some(protection) = codec::protection(entry) {
        return Err(TrackProblemKind::Encrypted(protection.scheme));
    }
    let problem = |error: BoxError| match error {
        BoxError::Unsupported { .. } if !codec::is_known(entry.format) => {
            TrackProblemKind::UnsupportedCodec(entry.format)
        }
        BoxError::Unsupported { what, .. } => TrackProblemKind::Unsupported(what.into()),
        error => TrackProblemKind::of_box(&error),
    };
    let stored = codec::describe(entry, handler).map_err(problem)?;
    if stored.config == Config::Other {
        return Err(TrackProblemKind::UnsupportedCodec(stored.format));
    }
    let fits = match stored.media {
        Media::Video(_) => kind == TrackKind::Video,
        Media::Audio(_) => kind == TrackKind::Audio,
        Media::Text => kind == TrackKind::Text,
    };
    if !fits {
        let what = format!("{} in a track of type {handler}", stored.format);
        return Err(TrackProblemKind::Unsupported(what.into()));
    }
    let entry = codec::iso_entry(entry, &stored).map_err(problem)?;
    let codec = codec::describe(&entry, handler).map_err(problem)?;
    Ok((entry, codec))
}

/// Returns the location of a sample entry's media (ISO/IEC 14496-12 §8.7.2), or `None` for the
/// object itself.
fn location(
    track: &movie::Track,
    entry: &SampleEntry,
    fragmented: bool,
) -> Result<Option<Arc<str>>, TrackProblemKind> {
    let unsupported = |what: &'static str| Err(TrackProblemKind::Unsupported(what.into()));
    let number = usize::from(entry.data_reference_index).checked_sub(1);
    // An index out of range means the first entry, as other readers assume.
    let reference = number.and_then(|i| track.data_references.get(i)).or(track.data_references.first());
    match reference {
        None | Some(DataReference::SelfContained) => Ok(None),
        Some(DataReference::Url(_)) if fragmented => unsupported("a fragment with media in another file"),
        Some(DataReference::Url(location)) => Ok(Some(Arc::from(&**location))),
        Some(DataReference::Other(_)) => unsupported("media in another file without a location"),
    }
}

/// Returns the bit rate in bits per second of `bytes` that last `ticks`; 0 ticks count as 1.
pub(crate) fn rate(bytes: u64, (ticks, scale): (u64, u32)) -> u64 {
    let bits = u128::from(bytes) * 8 * u128::from(scale);
    u64::try_from(bits / u128::from(ticks.max(1))).unwrap_or(u64::MAX)
}
