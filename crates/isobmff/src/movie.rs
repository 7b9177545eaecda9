//! The `moov` box (ISO/IEC 14496-12 §8.2): everything about a file's tracks except the sample
//! bytes.

use crate::{
    Error, Timescale,
    boxes::{
        ctts::CompositionOffsets,
        dref::{self, DataReference},
        elst::Edit,
        hdlr::Hdlr,
        kind::Kind,
        labl,
        mdhd::{Language, Mdhd},
        mvhd::Mvhd,
        stco::ChunkOffsets,
        stsc::SamplesToChunks,
        stsd::SampleEntry,
        stss::SyncSamples,
        stsz::SampleSizes,
        stts::TimeToSamples,
        tkhd::Tkhd,
        trex::Trex,
    },
    codec::coding_name,
    cursor::Cursor,
    fourcc::FourCc,
    header,
    matrix::Matrix,
};
use bytes::Bytes;

/// A parsed `moov`. Its tables are views into the bytes it was parsed from.
#[derive(Debug, Clone)]
pub struct Movie {
    /// Scale of edit durations (`mvhd`).
    pub timescale: Timescale,
    /// Tracks in file order. A track that cannot be read has its own error, so the others still
    /// play.
    pub tracks: Vec<Result<Track, TrackError>>,
    /// Fragment defaults; `Some` (possibly empty) exactly if there is an `mvex`, that is, if the
    /// file is fragmented.
    pub fragments: Option<Vec<Trex>>,
}

/// One `trak`.
#[derive(Debug, Clone)]
pub struct Track {
    /// `track_ID`, never 0.
    pub id: u32,
    /// `track_enabled` of the `tkhd` flags.
    pub enabled: bool,
    /// `alternate_group` of `tkhd`, 0 for none.
    pub alternate_group: i16,
    /// Handler type of `hdlr`: `vide`, `soun`, `text`, `subt`, …
    pub handler: FourCc,
    /// Timescale of all the track's sample times (`mdhd`).
    pub timescale: Timescale,
    /// Language of `elng`, else of `mdhd`.
    pub language: Language,
    /// Edit list in order; empty if there is none (§8.6.6).
    pub edits: Vec<Edit>,
    /// Transformation by which the picture is shown: that of `tkhd`, then that of `mvhd`.
    pub matrix: Matrix,
    /// Display width and height of `tkhd`, before the transformation, 16.16 fixed point.
    pub display_size: (u32, u32),
    /// Roles of `udta`, at most [`Track::MAX_KINDS`]. Unreadable ones are left out.
    pub kinds: Vec<Kind>,
    /// Label of `udta`: that of `labl`, else that of `name`.
    pub label: Option<Box<str>>,
    /// Sample entries in `stsd` order.
    pub sample_entries: Vec<SampleEntry>,
    /// Data references in order; `data_reference_index` of a sample entry counts them from 1.
    pub data_references: Vec<DataReference>,
    /// Sample tables; all empty in a fragmented file's `moov`.
    pub tables: SampleTables,
}

/// Sample tables of `stbl` (§8.5), as views.
#[derive(Debug, Clone)]
pub struct SampleTables {
    /// Durations.
    pub stts: TimeToSamples,
    /// Composition offsets; `None` if all are 0.
    pub ctts: Option<CompositionOffsets>,
    /// Sizes (`stsz` or `stz2`).
    pub stsz: SampleSizes,
    /// Number of samples in each chunk.
    pub stsc: SamplesToChunks,
    /// Chunk offsets (`stco` or `co64`).
    pub stco: ChunkOffsets,
    /// Sync samples; `None` if every sample is one.
    pub stss: Option<SyncSamples>,
}

/// A track that cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("track {}: {error}", id.map_or_else(|| "?".to_owned(), |id| id.to_string()))]
pub struct TrackError {
    /// The track's ID, if it could be read.
    pub id: Option<u32>,
    /// The handler type, if it could be read.
    pub handler: Option<FourCc>,
    /// The coding name of the first sample entry, before encryption, if it could be read.
    pub coding: Option<FourCc>,
    /// The reason.
    pub error: Error,
}

impl TrackError {
    /// Adds to an error as much about its track as can be read.
    fn of(trak: &Cursor<'_>, id: Option<u32>, error: Error) -> Self {
        let mdia = trak.find(b"mdia");
        let handler = mdia.as_ref().ok().and_then(|mdia| mdia.payload.find(b"hdlr").ok());
        let handler = handler.and_then(|hdlr| Hdlr::parse(hdlr.payload).ok());
        let entries = || {
            let minf = mdia.ok()?.payload.find(b"minf").ok()?;
            let stsd = minf.payload.find(b"stbl").ok()?.payload.find(b"stsd").ok()?;
            SampleEntry::parse_list(stsd.payload).ok()
        };
        let coding = entries().and_then(|entries| entries.first().map(coding_name));
        Self { id, handler: handler.map(|handler| handler.0), coding, error }
    }
}

impl Movie {
    /// Maximum number of tracks that are read.
    pub const MAX_TRACKS: usize = 1024;

    /// Parses a whole `moov` box, header included. `offset` is its offset in the file, for error
    /// messages.
    ///
    /// # Errors
    /// Any error in the box itself, its `mvhd` or its `mvex`. Errors within a `trak` are kept with
    /// that track.
    pub fn parse(moov: &Bytes, offset: u64) -> Result<Self, Error> {
        let moov = header::expect(moov, offset, b"moov")?.payload;
        let mut mvhd = None;
        let mut traks = Vec::new();
        let mut mvex = None;
        for child in moov.boxes() {
            let child = child?;
            match &child.kind().0 {
                b"mvhd" if mvhd.is_none() => mvhd = Some(Mvhd::parse(child.payload)?),
                b"mvex" if mvex.is_none() => mvex = Some(parse_mvex(&child.payload)?),
                b"cmov" => return Err(moov.unsupported("compressed movie header")),
                b"trak" => {
                    traks.push(child.payload);
                    moov.check_limit("number of trak", traks.len() as u64, Self::MAX_TRACKS as u64)?;
                }
                _ => {}
            }
        }
        let mvhd = mvhd.ok_or_else(|| moov.missing(b"mvhd"))?;
        let mut tracks: Vec<Result<Track, TrackError>> = Vec::with_capacity(traks.len());
        for trak in &traks {
            let track = Track::parse(trak, mvex.is_some());
            tracks.push(track.and_then(|mut track| {
                track.matrix = track.matrix.then(&mvhd.matrix);
                // §8.3.2: IDs are unique. Of two tracks with one ID, the second is dropped.
                let taken = tracks.iter().flatten().any(|other| other.id == track.id);
                if !taken {
                    return Ok(track);
                }
                Err(TrackError::of(trak, Some(track.id), trak.bad("track_ID is not unique")))
            }));
        }
        Ok(Self { timescale: mvhd.timescale, tracks, fragments: mvex })
    }
}

/// Reads the fragment defaults in an `mvex`.
fn parse_mvex(mvex: &Cursor<'_>) -> Result<Vec<Trex>, Error> {
    let mut defaults = Vec::new();
    for child in mvex.boxes() {
        let child = child?;
        if child.kind() == b"trex" {
            defaults.push(Trex::parse(child.payload)?);
            mvex.check_limit("number of trex", defaults.len() as u64, Movie::MAX_TRACKS as u64)?;
        }
    }
    Ok(defaults)
}

impl Track {
    /// Maximum number of roles that are read.
    pub const MAX_KINDS: usize = 64;

    fn parse(trak: &Cursor<'_>, fragmented: bool) -> Result<Self, TrackError> {
        let mut id = None;
        Self::parse_with_id(trak, fragmented, &mut id).map_err(|error| TrackError::of(trak, id, error))
    }

    /// Parses a `trak` and stores its ID in `id` as soon as it is known, for error messages.
    fn parse_with_id(trak: &Cursor<'_>, fragmented: bool, id: &mut Option<u32>) -> Result<Self, Error> {
        let tkhd = Tkhd::parse(trak.find(b"tkhd")?.payload)?;
        *id = Some(tkhd.id);
        let mut edits = Vec::new();
        let mut kinds = Vec::new();
        let mut label = None;
        let mut name = None;
        let mut media = None;
        for child in trak.boxes() {
            let child = child?;
            match &child.kind().0 {
                b"edts" => {
                    if let Some(elst) = optional(child.payload.find(b"elst"))? {
                        edits = Edit::parse_list(elst.payload)?;
                    }
                }
                b"udta" => {
                    // Data of the user is no reason to refuse a track.
                    for found in child.payload.boxes().map_while(Result::ok) {
                        match &found.kind().0 {
                            b"kind" if kinds.len() < Self::MAX_KINDS => {
                                kinds.extend(Kind::parse(found.payload).ok());
                            }
                            b"labl" if label.is_none() => {
                                label = labl::parse_label(found.payload).ok().flatten();
                            }
                            b"name" if name.is_none() => name = labl::parse_name(found.payload),
                            _ => {}
                        }
                    }
                }
                b"mdia" if media.is_none() => media = Some(MediaBoxes::parse(&child.payload, fragmented)?),
                _ => {}
            }
        }
        let media = media.ok_or_else(|| trak.missing(b"mdia"))?;
        Ok(Self {
            id: tkhd.id,
            enabled: tkhd.enabled,
            alternate_group: tkhd.alternate_group,
            handler: media.handler,
            timescale: media.header.timescale,
            language: media.language.unwrap_or(media.header.language),
            edits,
            matrix: tkhd.matrix,
            display_size: tkhd.display_size,
            kinds,
            label: label.or(name),
            sample_entries: media.sample_entries,
            data_references: media.data_references,
            tables: media.tables,
        })
    }
}

/// Turns the error for an absent box into `None`.
fn optional<T>(found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Contents of `mdia`.
struct MediaBoxes {
    header: Mdhd,
    language: Option<Language>,
    handler: FourCc,
    data_references: Vec<DataReference>,
    sample_entries: Vec<SampleEntry>,
    tables: SampleTables,
}

impl MediaBoxes {
    fn parse(mdia: &Cursor<'_>, fragmented: bool) -> Result<Self, Error> {
        let header = Mdhd::parse(mdia.find(b"mdhd")?.payload)?;
        let language = match optional(mdia.find(b"elng"))? {
            Some(elng) => Language::parse_elng(elng.payload)?,
            None => None,
        };
        let handler = Hdlr::parse(mdia.find(b"hdlr")?.payload)?.0;
        let minf = mdia.find(b"minf")?.payload;
        // §8.7.1 requires both boxes. Some writers leave them out, which means the same file.
        let dref = match optional(minf.find(b"dinf"))? {
            Some(dinf) => optional(dinf.payload.find(b"dref"))?,
            None => None,
        };
        let self_contained = || Ok(vec![DataReference::SelfContained]);
        let data_references = dref.map_or_else(self_contained, |dref| dref::parse(dref.payload))?;
        let stbl = minf.find(b"stbl")?.payload;
        let sample_entries = SampleEntry::parse_list(stbl.find(b"stsd")?.payload)?;
        let tables = SampleTables::parse(&stbl, fragmented)?;
        Ok(Self { header, language, handler, data_references, sample_entries, tables })
    }
}

impl SampleTables {
    /// Parses the tables. §8.5 requires four of them. In a fragmented file they are empty, and some
    /// writers leave them out.
    fn parse(stbl: &Cursor<'_>, fragmented: bool) -> Result<Self, Error> {
        let mut stts = None;
        let mut ctts = None;
        let mut stsz = None;
        let mut stsc = None;
        let mut stco = None;
        let mut stss = None;
        for child in stbl.boxes() {
            let child = child?;
            let payload = child.payload.clone();
            match &child.kind().0 {
                b"stts" if stts.is_none() => stts = Some(TimeToSamples::parse(payload)?),
                b"ctts" if ctts.is_none() => ctts = Some(CompositionOffsets::parse(payload)?),
                b"stsz" if stsz.is_none() => stsz = Some(SampleSizes::parse_stsz(payload)?),
                b"stz2" if stsz.is_none() => stsz = Some(SampleSizes::parse_stz2(payload)?),
                b"stsc" if stsc.is_none() => stsc = Some(SamplesToChunks::parse(payload)?),
                b"stco" if stco.is_none() => stco = Some(ChunkOffsets::parse(payload, false)?),
                b"co64" if stco.is_none() => stco = Some(ChunkOffsets::parse(payload, true)?),
                b"stss" if stss.is_none() => stss = Some(SyncSamples::parse(payload)?),
                _ => {}
            }
        }
        Ok(Self {
            stts: or_empty(stts, stbl, b"stts", fragmented)?,
            ctts,
            stsz: or_empty(stsz, stbl, b"stsz", fragmented)?,
            stsc: or_empty(stsc, stbl, b"stsc", fragmented)?,
            stco: or_empty(stco, stbl, b"stco", fragmented)?,
            stss,
        })
    }
}

fn or_empty<T: Default>(
    table: Option<T>,
    stbl: &Cursor<'_>,
    kind: &'static [u8; 4],
    fragmented: bool,
) -> Result<T, Error> {
    match table {
        Some(table) => Ok(table),
        None if fragmented => Ok(T::default()),
        None => Err(stbl.missing(kind)),
    }
}
