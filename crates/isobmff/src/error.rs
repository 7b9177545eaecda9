//! What can be wrong with a box.

use crate::FourCc;

/// A box that cannot be read. `offset` is in bytes from the start of the file where the caller told the reader
/// where its bytes lie, else from the start of those bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The box says it is longer than the bytes that hold it, or a field lies beyond its end.
    #[error("{path} at byte {offset}: truncated")]
    Truncated {
        /// The box, e.g. `moov/trak/mdia`.
        path: BoxPath,
        /// Where.
        offset: u64,
    },
    /// A count or size that the bytes at hand cannot hold, or that passes a limit of this crate.
    #[error("{path} at byte {offset}: {what} is {value}, more than {limit}")]
    TooLarge {
        /// The box.
        path: BoxPath,
        /// Where.
        offset: u64,
        /// Which field.
        what: &'static str,
        /// What it says.
        value: u64,
        /// The most it could be.
        limit: u64,
    },
    /// A value the standard forbids and that has no harmless reading.
    #[error("{path} at byte {offset}: {what}")]
    BadValue {
        /// The box.
        path: BoxPath,
        /// Where.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A box that must be there is not.
    #[error("{path}: no '{missing}' box")]
    Missing {
        /// The box that should hold it.
        path: BoxPath,
        /// The one that is not there.
        missing: FourCc,
    },
    /// Valid, but a version or variant this crate does not read.
    #[error("{path} at byte {offset}: unsupported {what}")]
    Unsupported {
        /// The box.
        path: BoxPath,
        /// Where.
        offset: u64,
        /// What is not supported.
        what: &'static str,
    },
}

/// The way to a box from the top of the file: up to eight four-character codes, the outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct BoxPath {
    codes: [[u8; 4]; 8],
    len: u8,
}

impl BoxPath {
    /// The path with one more box below; beyond eight levels the last one is replaced.
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
