//! Init segments: `ftyp` and a `moov` with empty sample tables, as in a CMAF header (ISO/IEC
//! 23000-19 §7.3.2.1).

use crate::{
    FourCc, Timescale,
    boxes::{
        dref::SelfContained,
        elst::{Edit, EditList},
        ftyp::FileType,
        hdlr::Hdlr,
        mdhd::{Elng, Language, Mdhd},
        mehd::Mehd,
        minf::MediaHeader,
        mvhd::Mvhd,
        stco::ChunkOffsets,
        stsc::SamplesToChunks,
        stsd::{SampleEntry, Stsd},
        stsz::SampleSizes,
        stts::TimeToSamples,
        tkhd::Tkhd,
        trex::Trex,
    },
    matrix::Matrix,
    write::{Container, WriteBox},
};
use bytes::Bytes;

/// An init segment to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitSegment {
    /// Brands of the `ftyp`; see [`cmaf_brands`].
    pub brands: FileType,
    /// Timescale of [`Self::duration`].
    pub timescale: Timescale,
    /// Duration of the presentation in [`Self::timescale`] ticks, for `mehd`; `None` leaves the box
    /// out.
    pub duration: Option<u64>,
    /// Tracks; exactly one in CMAF.
    pub tracks: Vec<InitTrack>,
    /// Whole `pssh` boxes (ISO/IEC 23001-7 §8.1): what DRM systems need to request licences.
    pub pssh: Vec<Bytes>,
}

/// A track of an init segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitTrack {
    /// `track_ID`, never 0; the same as in the fragments.
    pub track_id: u32,
    /// Handler type: `vide`, `soun`, `text`, `subt`, …
    pub handler: FourCc,
    /// Timescale of all times in the fragments.
    pub timescale: Timescale,
    /// Language; written to `elng` if it does not fit `mdhd`.
    pub language: Language,
    /// `track_enabled` of `tkhd`. Among alternatives, players start with the enabled track.
    pub enabled: bool,
    /// `alternate_group` of `tkhd`, 0 for none.
    pub alternate_group: i16,
    /// Transformation by which the picture is shown.
    pub matrix: Matrix,
    /// Width and height as shown before the transformation, 16.16 fixed point; 0 for tracks without
    /// a picture.
    pub display_size: (u32, u32),
    /// Sample entries, repeated from the source.
    pub sample_entries: Vec<SampleEntry>,
    /// Composition time in track ticks at which the presentation starts, for an edit list with an
    /// offset (ISO/IEC 23000-19 §7.5.13); 0 for none.
    pub edit_media_time: u64,
    /// Fragment defaults; [`Trex::plain`] matches the fragments of [`super::fragment()`].
    pub trex: Trex,
}

impl InitSegment {
    /// Creates a CMAF header: one track, whose timescale is also that of the movie.
    pub fn cmaf(track: InitTrack, duration: Option<u64>) -> Self {
        let brands = cmaf_brands(track.handler);
        Self { brands, timescale: track.timescale, duration, tracks: vec![track], pssh: Vec::new() }
    }

    /// Returns the size of the whole segment in bytes.
    pub fn size(&self) -> u64 {
        self.with_moov(|moov| moov.size()) + self.brands.size()
    }

    /// Writes the whole segment.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(usize::try_from(self.size()).unwrap_or(0));
        self.brands.write(&mut out);
        self.with_moov(|moov| moov.write(&mut out));
        out.into()
    }

    /// Builds the `moov` and passes it to `use_moov`.
    fn with_moov<T>(&self, use_moov: impl FnOnce(&Container<'_>) -> T) -> T {
        let highest = self.tracks.iter().map(|track| track.track_id).max().unwrap_or(0);
        // §8.2.2.3: all ones mean that a free ID must be searched for.
        let mvhd = Mvhd {
            timescale: self.timescale,
            duration: 0,
            matrix: Matrix::UNITY,
            next_track_id: highest.saturating_add(1),
        };
        let mehd = self.duration.map(Mehd);
        let traks: Vec<Trak<'_>> = self.tracks.iter().map(Trak).collect();

        let mehd = mehd.iter().map(|mehd| mehd as &dyn WriteBox);
        let trexes = self.tracks.iter().map(|track| &track.trex as &dyn WriteBox);
        let defaults: Vec<&dyn WriteBox> = mehd.chain(trexes).collect();
        let mvex = Container(b"mvex", &defaults);

        let mut children: Vec<&dyn WriteBox> = vec![&mvhd];
        children.extend(traks.iter().map(|trak| trak as &dyn WriteBox));
        children.push(&mvex);
        let pssh: Vec<WholeBox<'_>> = self.pssh.iter().map(|whole| WholeBox(whole)).collect();
        children.extend(pssh.iter().map(|whole| whole as &dyn WriteBox));
        use_moov(&Container(b"moov", &children))
    }
}

/// A box that is repeated from bytes that hold its header, too.
struct WholeBox<'a>(&'a [u8]);

impl WriteBox for WholeBox<'_> {
    fn kind(&self) -> FourCc {
        FourCc(self.0.get(4..8).and_then(|kind| kind.try_into().ok()).unwrap_or(*b"free"))
    }

    fn payload_size(&self) -> u64 {
        (self.0.len() as u64).saturating_sub(8)
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.get(8..).unwrap_or_default());
    }
}

/// Returns the brands of a CMAF header (ISO/IEC 23000-19 §7.2): `cmfc`, and `cmf2` if its stricter
/// rules (§7.7.2) hold for any samples. They do not hold for video: its init segment keeps the
/// source's edit list, and its composition offsets may need either `trun` version.
pub fn cmaf_brands(handler: FourCc) -> FileType {
    let mut compatible = vec![FourCc(*b"iso6"), FourCc(*b"cmfc")];
    if handler != b"vide" {
        compatible.push(FourCc(*b"cmf2"));
    }
    FileType { major: FourCc(*b"cmfc"), minor_version: 0, compatible, is_segment: false }
}

/// A `trak` to write.
struct Trak<'a>(&'a InitTrack);

impl Trak<'_> {
    /// Builds the `trak` and passes it to `use_trak`.
    fn with_boxes<T>(&self, use_trak: impl FnOnce(&Container<'_>) -> T) -> T {
        let track = self.0;
        let tkhd = Tkhd {
            id: track.track_id,
            enabled: track.enabled,
            duration: 0,
            alternate_group: track.alternate_group,
            volume: if track.handler == b"soun" { 0x100 } else { 0 },
            matrix: track.matrix,
            display_size: track.display_size,
        };
        let edits = [Edit { duration: 0, media_time: Some(track.edit_media_time), rate: Edit::NORMAL_RATE }];
        let edts = Container(b"edts", &[&EditList(&edits)]);

        let mdhd = Mdhd { timescale: track.timescale, duration: 0, language: track.language.clone() };
        let elng = Elng(&track.language);
        let hdlr = Hdlr(track.handler);
        let header = MediaHeader { handler: track.handler };
        let stsd = Stsd(&track.sample_entries);
        let stts = TimeToSamples::default();
        let stsc = SamplesToChunks::default();
        let stsz = SampleSizes::default();
        let stco = ChunkOffsets::default();
        let stbl = Container(b"stbl", &[&stsd, &stts, &stsc, &stsz, &stco]);
        let minf = Container(b"minf", &[&header, &Container(b"dinf", &[&SelfContained]), &stbl]);
        let mut mdia: Vec<&dyn WriteBox> = vec![&mdhd, &hdlr];
        if track.language.packed().is_none() {
            mdia.push(&elng);
        }
        mdia.push(&minf);
        let mdia = Container(b"mdia", &mdia);

        let mut trak: Vec<&dyn WriteBox> = vec![&tkhd];
        if track.edit_media_time != 0 {
            trak.push(&edts);
        }
        trak.push(&mdia);
        use_trak(&Container(b"trak", &trak))
    }
}

impl WriteBox for Trak<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"trak")
    }

    fn payload_size(&self) -> u64 {
        self.with_boxes(|trak| trak.payload_size())
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        self.with_boxes(|trak| trak.write_payload(out));
    }
}
