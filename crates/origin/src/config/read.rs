//! Settings of reading media.

use latemux_quantity::{ByteSize, TimeSpan, text};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};

/// Reading media.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadConfig {
    /// Largest gap between two ranges of one object that one request to storage reads together,
    /// with the gap.
    #[serde(with = "ByteSize")]
    pub gap: u64,
    /// Most bytes in the gaps of one response. If there are more, the widest gaps are not read.
    #[serde(skip)]
    pub waste: u64,
    /// Longest time for which a segment's response waits for the first bytes from storage before
    /// its head is sent. If storage fails within this time, the client gets an error status. If it
    /// fails later, the response is aborted. Since 0.2.0.
    #[serde(with = "TimeSpan")]
    pub first_byte_wait: Duration,
    /// Bytes that the range cache fetches if it lacks any byte of a read. `grid` fetches everything
    /// in the object that belongs to the same segments, of all tracks. `exact` fetches only the
    /// bytes that are read. A size fetches whole blocks of that size.
    #[serde(with = "text")]
    pub reach: Reach,
    /// Most requests to storage that are open at one time for one response.
    pub open: usize,
    /// Most requests to storage for one response. A segment that needs more gets an error.
    pub requests: usize,
    /// Largest segment of which all media may be read before its response starts. This concerns
    /// only segments whose length depends on their media. Requests for larger ones get an error.
    #[serde(with = "ByteSize")]
    pub held: u64,
    /// Number of following segments to prefetch into the range cache. 0 disables prefetching.
    pub prefetch: u32,
    /// Most segments that are prefetched at one time. In any case, no more than an eighth of
    /// `storage.max_in_flight` are.
    pub prefetch_open: usize,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self {
            gap: 1 << 20,
            waste: 8 << 20,
            first_byte_wait: Duration::from_micros(500),
            reach: Reach::Grid,
            open: 16,
            requests: 256,
            held: 64 << 20,
            prefetch: 0,
            prefetch_open: 16,
        }
    }
}

/// The range around a source range that a cache fetches along with it if anything of it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only the source range itself: written `exact`.
    Exact,
    /// The blocks of this many bytes, counted from the start of the object, that hold the source
    /// range: written as a size, such as `1MiB`.
    Block(u64),
    /// Everything in the object that belongs to the same segments of the grid, whatever its track:
    /// written `grid`.
    Grid,
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exact" => Ok(Self::Exact),
            "grid" => Ok(Self::Grid),
            _ => match text.parse() {
                Ok(ByteSize(block)) if block >= 4096 => Ok(Self::Block(block)),
                _ => Err(format!("'{text}' is neither grid nor exact nor a size of at least 4KiB")),
            },
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Grid => f.write_str("grid"),
            Self::Block(block) => ByteSize(*block).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaches_parse_and_print() {
        for text in ["grid", "exact", "4KiB", "1MiB"] {
            assert_eq!(text.parse::<Reach>().unwrap().to_string(), text);
        }
        for text in ["", "Grid", "0", "4095", "block"] {
            text.parse::<Reach>().unwrap_err();
        }
    }
}
