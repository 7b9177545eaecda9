//! The sizes of the files of a title.

use crate::Error;
use std::{
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
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
        let mut sizes = Self { size, samples: 0, moov: 0, index: 0 };
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
                b"moov" => sizes.moov += length,
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
        let read = Files::read(folder.path()).unwrap();
        assert_eq!(
            read,
            Files {
                ism: 5,
                media: vec![
                    MediaFile { size: 38, samples: 28, moov: 10, index: 7 },
                    MediaFile { size: 19, samples: 10, moov: 9, index: 0 },
                ],
            }
        );
        write("video-2.mp4", b"\0\0\0\x02moov");
        assert!(Files::read(folder.path()).unwrap_err().to_string().ends_with("video-2.mp4: not an MP4"));
    }
}
