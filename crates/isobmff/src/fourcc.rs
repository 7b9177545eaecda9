//! Four-character codes (ISO/IEC 14496-12 §4.2).

use std::fmt;

/// A four-character code: the type of a box, a handler, a brand or a sample entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FourCc(pub [u8; 4]);

impl From<&[u8; 4]> for FourCc {
    fn from(code: &[u8; 4]) -> Self {
        Self(*code)
    }
}

impl PartialEq<&[u8; 4]> for FourCc {
    fn eq(&self, other: &&[u8; 4]) -> bool {
        self.0 == **other
    }
}

impl fmt::Display for FourCc {
    /// Writes printable ASCII unchanged and every other byte as `\xNN`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&b| {
            if (0x20..0x7f).contains(&b) { write!(f, "{}", b as char) } else { write!(f, "\\x{b:02x}") }
        })
    }
}

impl fmt::Debug for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{self}'")
    }
}
