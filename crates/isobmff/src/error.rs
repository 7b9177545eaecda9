//! The errors of reading a box.

use crate::FourCc;

/// A box that cannot be read. `offset` is in bytes from the start of the file if the caller stated
/// the position of its bytes, else from the start of those bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The box is longer than the bytes that hold it, or a field lies beyond its end.
    #[error("{path} at byte {offset}: truncated")]
    Truncated {
        /// Path of the box, e.g. `moov/trak/mdia`.
        path: BoxPath,
        /// Position of the error.
        offset: u64,
    },
    /// A count or size exceeds a limit of this crate, though the bytes may hold it.
    #[error("{path} at byte {offset}: {what} is {value}, and the limit is {limit}")]
    OverLimit {
        /// Path of the box.
        path: BoxPath,
        /// Position of the error.
        offset: u64,
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: u64,
        /// Limit of this crate.
        limit: u64,
    },
    /// A count or size is more than the available bytes, or a field of a box to write, can hold.
    #[error("{path} at byte {offset}: {what} is {value}, more than {limit}")]
    TooLarge {
        /// Path of the box.
        path: BoxPath,
        /// Position of the error.
        offset: u64,
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: u64,
        /// Maximum of the field.
        limit: u64,
    },
    /// A value is forbidden by the standard and has no harmless interpretation.
    #[error("{path} at byte {offset}: {what}")]
    BadValue {
        /// Path of the box.
        path: BoxPath,
        /// Position of the error.
        offset: u64,
        /// Description of the error.
        what: &'static str,
    },
    /// A required box is absent.
    #[error("{path}: no '{missing}' box")]
    Missing {
        /// Path of the box that should hold it.
        path: BoxPath,
        /// Type of the absent box.
        missing: FourCc,
    },
    /// A version or variant is valid, but this crate does not read it.
    #[error("{path} at byte {offset}: unsupported {what}")]
    Unsupported {
        /// Path of the box.
        path: BoxPath,
        /// Position of the error.
        offset: u64,
        /// Description of the unsupported feature.
        what: &'static str,
    },
}

/// A path from the top of the file to a box: up to eight four-character codes, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct BoxPath {
    codes: [[u8; 4]; 8],
    len: u8,
}

impl BoxPath {
    /// Returns the path of a child box. Beyond eight levels the last code is replaced.
    #[must_use]
    pub const fn join(mut self, code: FourCc) -> Self {
        if (self.len as usize) < self.codes.len() {
            self.len += 1;
        }
        self.codes[self.len as usize - 1] = code.0;
        self
    }
}

impl std::fmt::Display for BoxPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.len == 0 {
            return f.write_str("file");
        }
        for (i, code) in self.codes.iter().take(usize::from(self.len)).enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "/" }, FourCc(*code))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for BoxPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
