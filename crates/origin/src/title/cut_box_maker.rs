//! Makes the cut box of an index MP4: reads the video of the media once, and finds its slices.

use crate::{Error, title::index_reader::read_whole};
use bytes::Bytes;
use latemux_index::{
    IndexError, MediaIndex, Sample, Track,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::{Samples, TrackKind, cut_box::CutBoxPlace, stamp::MEDIA_HEAD},
};
use latemux_isobmff::codec::Codec;
use latemux_protect::{CutReader, cut_box::CutBoxWriter, cuts::Cut};
use latemux_storage::{Key, ObjectMeta, ReadRequest, Storage, Version};
use std::iter::Peekable;

/// Bytes of media in one read. A larger sample takes one larger read.
const READ: u64 = 8 << 20;

/// A cut box, to be appended to the index MP4 that it was made for.
#[derive(Debug)]
pub struct CutBoxMade {
    /// The box. Empty for media without video that can be cut.
    pub bytes: Vec<u8>,
    /// Number of samples with cuts.
    pub samples: usize,
    /// Number of video samples whose slices were not found.
    pub unknown: u64,
    /// Number of bytes of media that were read.
    pub bytes_read: u64,
}

/// The media object of an index MP4 that was just made.
#[derive(Debug, Clone, Copy)]
pub struct MediaOfIndex<'a> {
    /// Storage of the media.
    pub storage: &'a dyn Storage,
    /// Key of the media.
    pub key: &'a Key,
    /// Version of the media from which the index MP4 was made.
    pub version: &'a Version,
    /// Name of the media in errors.
    pub name: &'a str,
}

/// Makes the cut box for all video of an index MP4. `progress` is called with the number of bytes
/// read so far.
///
/// The search starts anew at each sync sample, because segments start there. If the slices of a
/// sample are not found, neither that sample nor those after it, up to the next sync sample, get
/// cuts. A server then reads the segment itself.
///
/// # Errors
/// - [`Error::Storage`] for a failed read, or media that has another version
/// - [`Error::Index`] for an index MP4 that cannot be read, or a cut box of 4 GiB or more
pub async fn make_cut_box(
    media: MediaOfIndex<'_>,
    index_file: &Bytes,
    mut progress: impl FnMut(u64),
) -> Result<CutBoxMade, Error> {
    let failed = |error| Error::index(media.name, error);
    let (_, head) = media.read(ReadRequest::head(media.key, MEDIA_HEAD)).await?;
    let index = locate(index_file).and_then(|index| index.of_media(media.version.size, &head.bytes));
    let index = index.map_err(failed)?;
    let place = CutBoxPlace::at_end_of(index_file);
    let place = place.ok_or_else(|| failed(IndexError::Malformed("no moov at its end".to_owned())))?;
    let mut writer = CutBoxWriter::new(place.moov);
    let mut tracks: Vec<VideoTrack<'_>> = index.tracks.iter().filter_map(VideoTrack::new).collect();
    let mut unknown = 0;
    let mut window = ObjectBytes { offset: 0, bytes: Bytes::new() };
    let mut bytes_read = 0;
    let mut cuts = Vec::new();
    // The samples of all tracks are cut in the order in which they lie in the file.
    while let Some((track, sample)) = next_sample(&mut tracks) {
        if writer.has(sample.offset) {
            continue;
        }
        let end = sample.offset + u64::from(sample.size);
        if sample.offset < window.offset || end > window.offset + window.bytes.len() as u64 {
            let until = end.max((sample.offset + READ).min(media.version.size));
            (_, window) = media.read(ReadRequest::range(media.key, sample.offset..until)).await?;
            bytes_read += window.bytes.len() as u64;
            progress(bytes_read);
        }
        cuts.clear();
        if slice(&window, &sample).is_some_and(|bytes| track.cut(&sample, bytes, &mut cuts)) {
            writer.add(sample.offset, &cuts);
        } else {
            unknown += 1;
        }
    }
    let samples = writer.len();
    let too_many = || failed(IndexError::Malformed("too many cuts".to_owned()));
    let bytes = if samples == 0 { Vec::new() } else { writer.finish().ok_or_else(too_many)? };
    Ok(CutBoxMade { bytes, samples, unknown, bytes_read })
}

impl MediaOfIndex<'_> {
    async fn read(&self, request: ReadRequest<'_>) -> Result<(ObjectMeta, ObjectBytes), Error> {
        Ok(read_whole(self.storage, request.pinned(self.version), self.name).await?)
    }
}

/// A track of video whose samples are being cut.
struct VideoTrack<'a> {
    codec: &'a Codec,
    samples: Peekable<Box<dyn Iterator<Item = Sample> + Send + 'a>>,
    /// Reader that started at the last sync sample, or `None` if a sample since then could not be
    /// cut.
    reader: Option<CutReader>,
}

impl<'a> VideoTrack<'a> {
    /// Returns `None` for tracks that are not video, have no sample table, or whose codec has no
    /// slices.
    fn new(track: &'a Track) -> Option<Self> {
        let Samples::Table(table) = &track.samples else { return None };
        CutReader::new(&track.codec).filter(|_| track.kind == TrackKind::Video)?;
        let samples = table.range(0..u32::MAX).filter(|sample| sample.size > 0);
        let samples: Box<dyn Iterator<Item = Sample> + Send> = Box::new(samples);
        Some(Self { codec: &track.codec, samples: samples.peekable(), reader: None })
    }

    /// Finds the cuts of the next sample. Returns false if they cannot be found.
    fn cut(&mut self, sample: &Sample, bytes: &[u8], cuts: &mut Vec<Cut>) -> bool {
        if sample.sync {
            self.reader = CutReader::new(self.codec);
        }
        let is_found = self.reader.as_mut().is_some_and(|reader| reader.cut(bytes, cuts).is_ok());
        if !is_found {
            self.reader = None;
        }
        is_found
    }
}

/// Takes the next sample of the track whose next sample comes first in the file.
fn next_sample<'t, 'a>(tracks: &'t mut [VideoTrack<'a>]) -> Option<(&'t mut VideoTrack<'a>, Sample)> {
    let of = |(number, track): (usize, &mut VideoTrack<'a>)| Some((track.samples.peek()?.offset, number));
    let (_, number) = tracks.iter_mut().enumerate().filter_map(of).min()?;
    let track = tracks.get_mut(number)?;
    let sample = track.samples.next()?;
    Some((track, sample))
}

/// Returns the bytes of a sample within the bytes that were read.
fn slice<'a>(window: &'a ObjectBytes, sample: &Sample) -> Option<&'a [u8]> {
    let start = usize::try_from(sample.offset.checked_sub(window.offset)?).ok()?;
    window.bytes.get(start..start.checked_add(sample.size as usize)?)
}

/// Reads the index of an index MP4 in memory.
fn locate(file: &Bytes) -> Result<MediaIndex, IndexError> {
    let size = file.len() as u64;
    let mut locator = Locator::new(Limits::default());
    let whole = || vec![ObjectBytes { offset: 0, bytes: file.clone() }];
    match locator.step(size, whole())? {
        Step::Done(index) => Ok(*index),
        Step::Read(_) | Step::Scan(_) => Err(IndexError::Malformed("it is not complete".to_owned())),
    }
}
