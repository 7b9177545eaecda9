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
    /// A stable word, without the reason of what went past.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hit(Tier::Memory) => "hit_memory",
            Self::Hit(Tier::Disk) => "hit_disk",
            Self::Joined => "joined",
            Self::Filled => "filled",
            Self::Bypassed(_) => "bypassed",
        }
    }
}

impl Reason {
    /// A stable word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unpinned => "unpinned",
            Self::Head => "head",
            Self::Range => "range",
            Self::Version => "version",
            Self::Collision => "collision",
        }
    }
}

/// Is told what becomes of a read, at once: the read itself answers only with its first bytes.
pub trait Witness: Send + Sync + std::fmt::Debug {
    /// Where its bytes are. Said before they are waited for, and again where they turn out to be elsewhere.
    fn found(&self, outcome: Outcome);

    /// Storage is asked because of it, once more.
    fn asks_storage(&self);

    /// So many bytes came from storage because of it.
    fn storage_gave(&self, bytes: u64);
}
