//! The tags of Flash video (Adobe Flash Video File Format Specification 10.1 §E.4), which HDS
//! fragments hold in an `mdat`.

/// The tag type of audio.
pub const AUDIO: u8 = 8;

/// The tag type of video.
pub const VIDEO: u8 = 9;

/// The tag type of script data.
pub const SCRIPT: u8 = 18;

/// The bytes of a tag's header.
pub const TAG_HEADER: usize = 11;

/// The bytes after a tag, which repeat its size.
pub const TAG_TRAILER: usize = 4;

/// The header of a tag (§E.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagHeader {
    /// The tag type.
    pub kind: u8,
    /// The bytes of data after the header.
    pub size: u32,
    /// The decode time in milliseconds.
    pub time: i64,
}

impl TagHeader {
    /// Reads a header; `None` if the bytes are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let &[kind, s0, s1, s2, t0, t1, t2, extension, _, _, _] = bytes.first_chunk::<TAG_HEADER>()?;
        Some(Self {
            kind,
            size: u32::from_be_bytes([0, s0, s1, s2]),
            time: i32::from_be_bytes([extension, t0, t1, t2]).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_byte_of_the_time_comes_last() {
        let header = TagHeader::read(&[9, 0, 1, 2, 3, 4, 5, 0xff, 0, 0, 0]).unwrap();
        assert_eq!((header.kind, header.size), (VIDEO, 258));
        assert_eq!(header.time, i64::from(i32::from_be_bytes([0xff, 3, 4, 5])));
        assert!(header.time < 0, "times have a sign");
        assert_eq!(TagHeader::read(&[9; 10]), None);
    }
}
