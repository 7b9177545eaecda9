//! `labl`: the label of a track (ISO/IEC 14496-12 §8.10.5), and `name` of QuickTime, as which
//! ffmpeg writes the title of a stream.

use crate::{Error, cursor::Cursor};

/// Longest label that is read, in bytes.
const MAX_LABEL: usize = 512;
/// Flag of a label that names a group of tracks.
const IS_GROUP_LABEL: u32 = 1;

/// Reads the payload of a `labl`. Returns `None` for the label of a group, and for one that is
/// empty or longer than 512 bytes.
///
/// # Errors
/// [`Error::Truncated`] without a number, [`Error::BadValue`] for text without an end.
pub fn parse_label(mut payload: Cursor<'_>) -> Result<Option<Box<str>>, Error> {
    let at = payload.clone();
    let (_, flags) = payload.version_and_flags()?;
    let _label_id = payload.u16()?;
    let bytes = payload.rest();
    let mut texts = bytes.split(|&byte| byte == 0);
    let _language = texts.next();
    let label = texts.next().ok_or_else(|| at.bad("a language without an end"))?;
    Ok(if flags & IS_GROUP_LABEL == 0 { read(label) } else { None })
}

/// Reads the payload of a `name`, which is text up to the end of the box. Returns `None` for one
/// that is empty or longer than 512 bytes.
pub fn parse_name(mut payload: Cursor<'_>) -> Option<Box<str>> {
    read(&payload.rest())
}

/// Returns a label without white space around it. Bytes that are not UTF-8, and control characters,
/// are replaced.
fn read(bytes: &[u8]) -> Option<Box<str>> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let text = bytes.get(..end.min(MAX_LABEL + 1)).filter(|text| text.len() <= MAX_LABEL)?;
    let text = String::from_utf8_lossy(text);
    let plain = text.trim().replace(char::is_control, " ");
    (!plain.is_empty()).then(|| plain.into())
}

#[cfg(test)]
mod tests {
    use super::{parse_label, parse_name};
    use crate::cursor::Cursor;
    use bytes::Bytes;

    #[test]
    fn labels_are_read_and_bounded() {
        let label = |bytes: &[u8]| parse_label(Cursor::new(&Bytes::copy_from_slice(bytes), 0));
        let of_track = label(b"\0\0\0\0\0\x07en\0Director's cut\0").unwrap();
        assert_eq!(of_track.as_deref(), Some("Director's cut"));
        assert_eq!(label(b"\0\0\0\x01\0\x07en\0Group\0").unwrap(), None);
        assert_eq!(label(b"\0\0\0\0\0\x07en\0\0").unwrap(), None);
        assert!(label(b"\0\0\0\0\0\x07en").is_err());
        assert!(label(b"\0\0\0\0\0").is_err());
        let name = |bytes: &[u8]| parse_name(Cursor::new(&Bytes::copy_from_slice(bytes), 0));
        assert_eq!(name(b" Main \"A\"\n\0").as_deref(), Some("Main \"A\""));
        assert_eq!(name(b"a\nb\xFF").as_deref(), Some("a b\u{fffd}"));
        assert_eq!((name(b""), name(b" \0")), (None, None));
        assert_eq!((name(&[b'a'; 512]).map(|name| name.len()), name(&[b'a'; 513])), (Some(512), None));
    }
}
