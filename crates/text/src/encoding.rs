//! Characters from bytes.

use crate::TextError;
use std::borrow::Cow;

/// Decodes UTF-8, with or without byte order mark, or UTF-16 with one. Any number of marks at the
/// start is removed. Other encodings are refused, because guessing would differ between files.
///
/// # Errors
/// [`TextError::Encoding`] for bytes that are neither.
pub fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, TextError> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, []) = bytes.as_chunks::<2>() else { return Err(TextError::Encoding) };
        let units = pairs.iter().map(|&pair| unit(pair));
        let text: Result<String, _> = char::decode_utf16(units).collect();
        text.map(|text| text.trim_start_matches('\u{FEFF}').to_owned()).map_err(|_| TextError::Encoding)
    };
    match bytes {
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes).map(Cow::Owned),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes).map(Cow::Owned),
        _ => {
            let text = std::str::from_utf8(bytes).map_err(|_| TextError::Encoding)?;
            Ok(Cow::Borrowed(text.trim_start_matches('\u{FEFF}')))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::decode;
    use crate::TextError;

    #[test]
    fn byte_order_marks_tell_the_encoding_and_are_removed() {
        assert_eq!(decode("\u{FEFF}\u{FEFF}é".as_bytes()).unwrap(), "é");
        assert_eq!(decode(b"\xFF\xFE\xE9\0=\xD8\x00\xDE").unwrap(), "é😀");
        assert_eq!(decode(b"\xFE\xFF\0\xE9").unwrap(), "é");
        assert_eq!(decode(b"caf\xE9"), Err(TextError::Encoding));
        assert_eq!(decode(b"\xFF\xFEa"), Err(TextError::Encoding), "half a unit");
        assert_eq!(decode(b"\xFF\xFE\x00\xD8"), Err(TextError::Encoding), "half a pair");
    }
}
