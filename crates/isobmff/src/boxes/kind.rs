//! `kind`: the role of a track (ISO/IEC 14496-12 §8.10.4).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{Container, WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// A role of a track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// The scheme of the role, a URI.
    pub scheme: Box<str>,
    /// The role, empty if the scheme alone states it.
    pub value: Box<str>,
}

/// Longest text that is read, in bytes.
const MAX_TEXT: usize = 1024;

impl Kind {
    /// Reads the payload of a `kind`. Bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// [`Error::Truncated`] without a version, [`Error::BadValue`] for text without an end.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let at = payload.clone();
        payload.version_and_flags()?;
        let bytes = payload.rest();
        let mut texts = bytes.split(|&byte| byte == 0);
        let scheme = texts.next().unwrap_or_default();
        let value = texts.next().ok_or_else(|| at.bad("a scheme without an end"))?;
        let text = |bytes: &[u8]| Box::from(&*String::from_utf8_lossy(bytes));
        if scheme.len().max(value.len()) > MAX_TEXT {
            return Err(at.bad("text of more than 1 KiB"));
        }
        Ok(Self { scheme: text(scheme), value: text(value) })
    }
}

impl Kind {
    /// Returns a `udta` box that holds only this role.
    pub fn in_udta(&self) -> Vec<u8> {
        let mut out = Vec::new();
        Container(b"udta", &[self]).write(&mut out);
        out
    }
}

impl WriteBox for Kind {
    fn kind(&self) -> FourCc {
        FourCc(*b"kind")
    }

    fn payload_size(&self) -> u64 {
        4 + self.scheme.len() as u64 + 1 + self.value.len() as u64 + 1
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        for text in [&self.scheme, &self.value] {
            out.put_slice(text.as_bytes());
            out.put_u8(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;
    use crate::{cursor::Cursor, write::WriteBox};
    use bytes::Bytes;

    #[test]
    fn roles_are_read_as_they_were_written() {
        let read = |bytes: Vec<u8>| Kind::parse(Cursor::new(&Bytes::from(bytes), 0));
        let kind = Kind { scheme: "urn:mpeg:dash:role:2011".into(), value: "forced-subtitle".into() };
        let mut payload = Vec::new();
        kind.write_payload(&mut payload);
        assert_eq!(payload.len() as u64, kind.payload_size());
        assert_eq!(read(payload).unwrap(), kind);
        // A value without an end, and a scheme alone.
        assert_eq!(&*read(b"\0\0\0\0a\0b".to_vec()).unwrap().value, "b");
        assert_eq!(&*read(b"\0\0\0\0a\0".to_vec()).unwrap().value, "");
        for wrong in [&b"\0\0\0"[..], b"\0\0\0\0", b"\0\0\0\0abc"] {
            assert!(read(wrong.to_vec()).is_err(), "{wrong:?}");
        }
        assert!(read([&[0; 4][..], &[b'a'; 2000], b"\0"].concat()).is_err());
    }
}
