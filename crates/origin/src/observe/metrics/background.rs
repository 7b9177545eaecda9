//! Results of background work: index MP4s that were to be written, segments that were to be
//! prefetched.

/// Result of an attempt to write an index MP4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It was written; there was none before.
    Created,
    /// It was written in place of one that described another version of the media.
    Replaced,
    /// There is one already, written by this program or by another.
    Present,
    /// Another writer was faster.
    LostRace,
    /// Its name would stand for another media file too.
    Ambiguous,
    /// It could not be made or written.
    Failed,
}

impl Written {
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Created, "new"),
        (Self::Replaced, "anew"),
        (Self::Present, "present"),
        (Self::LostRace, "taken"),
        (Self::Ambiguous, "ambiguous"),
        (Self::Failed, "failed"),
    ];
}

/// Result of an attempt to prefetch a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefetched {
    /// All of it is in the cache, now or already before.
    Read,
    /// The limit of segments read at one time was reached.
    NoRoom,
    /// The client of the segment before it left.
    Abandoned,
    /// Storage or the source failed. A request for the segment will report the error.
    Failed,
}

impl Prefetched {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Read, "read"),
        (Self::NoRoom, "no_room"),
        (Self::Abandoned, "abandoned"),
        (Self::Failed, "failed"),
    ];
}
