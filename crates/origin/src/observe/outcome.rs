//! The outcome of a look-up or read that a response needed.

/// The place where something that a response needed was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A cache had it.
    Hit(Tier),
    /// Another request was already fetching it.
    Joined,
    /// It was fetched from storage, and is cached now.
    Filled,
    /// It was fetched from storage and is not cached, for the reason that this stable word names.
    Bypassed(&'static str),
}

/// The tier of a cache that had a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Memory,
    Disk,
}

impl Outcome {
    /// The stable words that metrics, headers and the log use, ordered by [`Self::rank`].
    pub(crate) const NAMES: [&'static str; 5] = ["hit_memory", "hit_disk", "joined", "filled", "bypassed"];

    /// Returns the 0-based position in [`Self::NAMES`]. It grows with the cost.
    pub(crate) fn rank(self) -> usize {
        match self {
            Self::Hit(Tier::Memory) => 0,
            Self::Hit(Tier::Disk) => 1,
            Self::Joined => 2,
            Self::Filled => 3,
            Self::Bypassed(_) => 4,
        }
    }
}
