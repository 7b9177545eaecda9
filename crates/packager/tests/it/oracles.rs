//! Independent readers of fragmented MP4.

use crate::media::{avc_aac, fragmented, hevc, signed, with_mfra, with_sidx};
use latemux_index::media::TrackKind;
use latemux_testmedia::origin::Origin;
use latemux_testmedia::probe::Stream;
use mp4_atom::{Any, DecodeMaybe as _, Moov};
use std::{io::Cursor, path::PathBuf, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

fn sources() -> Vec<PathBuf> {
    vec![avc_aac(), hevc(), fragmented(), with_sidx(), with_mfra(), signed()]
}

/// Reads every box to its end.
fn boxes(bytes: &[u8]) -> Vec<Any> {
    let mut cursor = Cursor::new(bytes);
    let mut found = Vec::new();
    while let Some(any) = Any::decode_maybe(&mut cursor).unwrap() {
        found.push(any);
    }
    assert_eq!(cursor.position(), bytes.len() as u64);
    found
}

/// Reads the `moov` of an init segment, which consists of `ftyp` and `moov`.
pub(crate) fn moov(init: &[u8]) -> Moov {
    match boxes(init).as_slice() {
        [Any::Ftyp(ftyp), Any::Moov(moov)] => {
            assert_eq!(ftyp.major_brand.to_string(), "cmfc");
            moov.clone()
        }
        other => panic!("an init segment of {other:?}"),
    }
}

/// Contents of a media segment, which consists of `styp`, `moof` and `mdat`.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) sequence: u32,
    pub(crate) media: Vec<u8>,
    /// Size, and presentation time and duration in track ticks with the edit list applied.
    pub(crate) samples: Vec<(u32, i64, i64)>,
}

impl Fragment {
    /// Reads a media segment, and applies the init segment's edit list.
    pub(crate) fn read(moov: &Moov, segment: &[u8]) -> Self {
        let found = boxes(segment);
        let [Any::Styp(_), Any::Moof(moof), Any::Mdat(mdat)] = found.as_slice() else {
            panic!("a media segment of {found:?}")
        };
        let [traf] = moof.traf.as_slice() else { panic!("one track") };
        let [trun] = traf.trun.as_slice() else { panic!("one run") };
        // Offsets count from the moof, which follows the styp.
        let styp = usize::try_from(u32::from_be_bytes(segment[..4].try_into().unwrap())).unwrap();
        let head = segment.len() - mdat.data.len();
        assert_eq!(usize::try_from(trun.data_offset.unwrap()).unwrap(), head - styp);
        let mut at =
            i64::try_from(traf.tfdt.as_ref().unwrap().base_media_decode_time).unwrap() - media_time(moov);
        let samples = trun
            .samples
            .iter()
            .map(|sample| {
                let duration = i64::from(sample.duration.or(traf.tfhd.default_sample_duration).unwrap());
                let presented = at + sample.cts.unwrap_or(0);
                at += duration;
                (sample.size.or(traf.tfhd.default_sample_size).unwrap(), presented, duration)
            })
            .collect();
        Self { sequence: moof.mfhd.sequence_number, media: mdat.data.clone(), samples }
    }

    /// Returns the presentation time of the first sample in presentation order.
    pub(crate) fn start(&self) -> i64 {
        self.samples.iter().map(|&(_, at, _)| at).min().unwrap()
    }

    /// Returns the end of the last sample in presentation order.
    pub(crate) fn end(&self) -> i64 {
        self.samples.iter().map(|&(_, at, duration)| at + duration).max().unwrap()
    }
}

/// Returns the time from the decoding of each sample of a fragment to its presentation, in track
/// ticks. ffprobe does not show it: it makes all of them later if one is negative.
pub(crate) fn composition_offsets(fragment: &[u8]) -> Vec<i64> {
    let mut offsets = Vec::new();
    for found in boxes(fragment) {
        let Any::Moof(moof) = found else { continue };
        for trun in moof.traf.iter().flat_map(|traf| &traf.trun) {
            offsets.extend(trun.samples.iter().map(|sample| sample.cts.unwrap_or(0)));
        }
    }
    offsets
}

/// Returns the duration of each sample of a file's track (by its number in the file), in track
/// ticks, from `stts`, `trun`, `tfhd` and `trex`. `None` for files that this reader refuses, or
/// reads with another number of samples than ffprobe.
pub(crate) fn durations(file: &[u8], number: usize, stream: &Stream) -> Option<Vec<i64>> {
    let mut cursor = Cursor::new(file);
    let mut found = None;
    let mut durations: Vec<u32> = Vec::new();
    while let Some(any) = Any::decode_maybe(&mut cursor).ok()? {
        match any {
            Any::Moov(moov) => {
                let trak = moov.trak.get(number)?;
                let runs = &trak.mdia.minf.stbl.stts.entries;
                durations
                    .extend(runs.iter().flat_map(|run| vec![run.sample_delta; run.sample_count as usize]));
                let id = trak.tkhd.track_id;
                let trex = moov.mvex.iter().flat_map(|mvex| &mvex.trex).find(|trex| trex.track_id == id);
                found = Some((id, trex.map_or(0, |trex| trex.default_sample_duration)));
            }
            Any::Moof(moof) => {
                let (id, track_default) = found?;
                for traf in moof.traf.iter().filter(|traf| traf.tfhd.track_id == id) {
                    let default = traf.tfhd.default_sample_duration.unwrap_or(track_default);
                    let samples = traf.trun.iter().flat_map(|trun| &trun.samples);
                    durations.extend(samples.map(|sample| sample.duration.unwrap_or(default)));
                }
            }
            _ => {}
        }
    }
    (durations.len() == stream.packets.len()).then(|| durations.into_iter().map(i64::from).collect())
}

/// Returns the media time at which the edit list starts.
fn media_time(moov: &Moov) -> i64 {
    let edits = moov.trak[0].edts.as_ref().and_then(|edts| edts.elst.as_ref());
    edits.map_or(0, |elst| i64::try_from(elst.entries[0].media_time.unwrap()).unwrap())
}

#[test]
fn mp4_atom_reads_the_planned_segments() {
    for file in sources() {
        let mut origin = Origin::open(&[&file], TARGET);
        for name in [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat() {
            let (init, segments) = origin.cmaf(&name);
            let moov = moov(&init);
            let index = origin.title.find(&name).unwrap();
            let track = origin.title.track(&origin.title.tracks()[index]);
            let [trak] = moov.trak.as_slice() else { panic!("one track") };
            assert_eq!(trak.mdia.mdhd.timescale, track.timescale.get());
            assert_eq!(media_time(&moov), track.presentation.media_time);
            for (n, segment) in (1..).zip(&segments) {
                let fragment = Fragment::read(&moov, segment);
                assert_eq!(fragment.sequence, n);
                let size: u32 = fragment.samples.iter().map(|&(size, _, _)| size).sum();
                assert_eq!(usize::try_from(size).unwrap(), fragment.media.len());
            }
        }
    }
}
