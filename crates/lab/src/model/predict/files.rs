//! The sizes of the files of a title.

use super::{
    overlap,
    sent::audio_packets,
    tables::{MAX_MOOV, boxes, handler, sizes, table},
};
use crate::Error;
use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// The bytes of the head of a box with a 64-bit size (ISO/IEC 14496-12, 4.2).
const LARGE_HEAD: usize = 16;

/// The sizes of the files of a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The bytes of the server manifest.
    pub ism: u64,
    /// The media files, in the order of their names.
    pub media: Vec<MediaFile>,
}

/// The sizes of a media file and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaFile {
    /// The bytes of the file.
    pub size: u64,
    /// The bytes of all `mdat` boxes.
    pub samples: u64,
    /// The bytes of the `moov` box.
    pub moov: u64,
    /// The bytes of the index MP4; 0 if there is none.
    pub index: u64,
    /// The mean number of bytes that two neighbouring segments with video and audio both read; 0 if
    /// `moov` lists no samples.
    pub overlap: u64,
    /// The samples of the video and of the audio that `moov` lists. Fragmented files list
    /// none.
    pub tracks: Tracks,
}

/// The samples of the tracks of a media file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tracks {
    /// The samples of the video.
    pub video: Samples,
    /// The samples of the audio.
    pub audio: Samples,
    /// The TS packets of the audio.
    pub audio_packets: u64,
}

/// The samples of a track.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Samples {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Files {
    /// Reads the sizes of the files in the folder of a title.
    ///
    /// # Errors
    /// If a file cannot be read, or is no MP4.
    pub fn read(place: &Path) -> Result<Self, Error> {
        let failed = |error| Error::file(place, &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(place).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().to_str().map(str::to_owned));
        }
        names.retain(|name| name.ends_with(".mp4") && !name.ends_with(".index.mp4"));
        names.sort();
        let media = names.iter().map(|name| MediaFile::read(&place.join(name))).collect::<Result<_, _>>()?;
        Ok(Self { ism: fs::metadata(place.join("film.ism")).map_err(failed)?.len(), media })
    }
}

impl MediaFile {
    fn read(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::file(path, &error);
        let mut file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut sizes = Self { size, samples: 0, moov: 0, index: 0, overlap: 0, tracks: Tracks::default() };
        let mut at = 0;
        while at < size {
            let mut head = [0; LARGE_HEAD];
            file.seek(SeekFrom::Start(at)).map_err(failed)?;
            let read = head.len().min(usize::try_from(size - at).unwrap_or(usize::MAX));
            file.read_exact(&mut head[..read]).map_err(failed)?;
            let [a, b, c, d, name @ .., e, f, g, h, i, j, k, l] = head;
            let length = match u32::from_be_bytes([a, b, c, d]) {
                0 => size - at,
                1 => u64::from_be_bytes([e, f, g, h, i, j, k, l]),
                short => u64::from(short),
            };
            match &name {
                b"mdat" => sizes.samples += length,
                b"moov" => {
                    sizes.moov += length;
                    let content = content(&mut file, at, length).map_err(failed)?;
                    sizes.tracks = Tracks::of(&content);
                    sizes.overlap = overlap::mean(&content).unwrap_or(0);
                }
                _ => {}
            }
            if length < 8 {
                return Err(Error::invalid(format!("{}: not an MP4", path.display())));
            }
            at += length;
        }
        sizes.index = fs::metadata(path.with_extension("index.mp4")).map_or(0, |index| index.len());
        Ok(sizes)
    }
}

/// Reads a box with a head of 8 bytes, without the head.
fn content(file: &mut File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at + 8))?;
    file.take(length.saturating_sub(8).min(MAX_MOOV)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Tracks {
    /// Finds the samples in a `moov`. What is missing counts as no samples.
    fn of(moov: &[u8]) -> Self {
        let mut tracks = Self::default();
        for track in boxes(moov, *b"trak") {
            let sizes = table(track, *b"stsz").and_then(sizes).unwrap_or_default();
            let samples = Samples { count: sizes.len() as u64, bytes: sizes.iter().sum() };
            match handler(track) {
                Some(b"vide") => tracks.video = samples,
                Some(b"soun") => (tracks.audio, tracks.audio_packets) = (samples, audio_packets(&sizes)),
                _ => {}
            }
        }
        tracks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_boxes() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("film.ism", b"12345");
        let large = [&b"\0\0\0\x01mdat"[..], &[0, 0, 0, 0, 0, 0, 0, 20], &[0; 4]].concat();
        write("video-0.mp4", &[&large[..], b"\0\0\0\x0amoov\0\0", b"\0\0\0\x08mdat"].concat());
        write("video-0.index.mp4", &[0; 7]);
        write("video-1.mp4", b"\0\0\0\x09moov\0\0\0\0\0mdat\0\0");
        let file = |size, samples, moov, index| MediaFile {
            size,
            samples,
            moov,
            index,
            overlap: 0,
            tracks: Tracks::default(),
        };
        let read = Files::read(folder.path()).unwrap();
        assert_eq!(read, Files { ism: 5, media: vec![file(38, 28, 10, 7), file(19, 10, 9, 0)] });
        // Two tracks: of samples of 5 and 6 bytes, and of three with 7 bytes each.
        let within = |name: &[u8], content: &[u8]| {
            let length = u32::try_from(content.len() + 8).unwrap();
            [&length.to_be_bytes()[..], name, content].concat()
        };
        let track = |handler: &[u8], sizes: &[u32]| {
            let sizes: Vec<u8> = [0].iter().chain(sizes).flat_map(|size| size.to_be_bytes()).collect();
            let table = within(b"minf", &within(b"stbl", &within(b"stsz", &sizes)));
            let handler = within(b"hdlr", &[&[0; 8], handler].concat());
            within(b"trak", &within(b"mdia", &[handler, table].concat()))
        };
        let tracks = [track(b"soun", &[7, 3]), track(b"text", &[1, 1]), track(b"vide", &[0, 2, 5, 6])];
        write("video-1.mp4", &within(b"moov", &tracks.concat()));
        let samples = |count, bytes| Samples { count, bytes };
        let found = Files::read(folder.path()).unwrap().media[1].tracks;
        assert_eq!(found, Tracks { video: samples(2, 11), audio: samples(3, 21), audio_packets: 1 });
        write("video-2.mp4", b"\0\0\0\x02moov");
        assert!(Files::read(folder.path()).unwrap_err().to_string().ends_with("video-2.mp4: not an MP4"));
    }
}
