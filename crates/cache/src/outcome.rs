//! What became of a read: the words that logs, metrics and response headers use.

/// Where a hit was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// In memory.
    Memory,
    /// At least a part of it on disk, the rest in memory.
    Disk,
}

/// Why a read went past the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It names no version, so nobody knows whether what is cached is what it wants.
    Unpinned,
    /// It asks for the head of an object, of unknown size.
    Head,
    /// It asks for no bytes, or for such as do not lie in the object: storage has the right answer to that.
    Range,
    /// Its version is nothing but a size: neither ETag nor modification time.
    Version,
    /// Another object has the same hash.
    Collision,
}

/// What became of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All bytes were here.
    Hit(Tier),
    /// Nothing had to be asked for, but some bytes are still under way for somebody else.
    Joined,
    /// Some bytes had to be asked for.
    Filled,
    /// The cache had no part in it.
    Bypassed(Reason),
}

impl Outcome {
    /// A stable word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hit(Tier::Memory) => "hit_memory",
            Self::Hit(Tier::Disk) => "hit_disk",
            Self::Joined => "joined",
            Self::Filled => "filled",
            Self::Bypassed(reason) => reason.name(),
        }
    }
}

impl Reason {
    /// A stable word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unpinned => "bypassed_unpinned",
            Self::Head => "bypassed_head",
            Self::Range => "bypassed_range",
            Self::Version => "bypassed_version",
            Self::Collision => "bypassed_collision",
        }
    }
}
