//! Reading many values of a column in order, from several of its directory entries at a time.

use crate::table::{
    column::{Column, STRIDE, Values, values::ValuesState},
    rice::{BLOCK, BlockReader},
};

/// Number of directory entries that are read at a time.
const ENTRIES: usize = 4;
/// Number of values between two directory entries.
const ENTRY_LEN: usize = STRIDE as usize;
/// Number of values that are read at a time.
const AHEAD: u32 = 4 * STRIDE;

/// Reads a column in order. For long columns this takes half the time of [`Values`].
#[derive(Debug)]
pub(crate) struct BulkValues<'a> {
    values: Values<'a>,
    /// Values that were read ahead, and how many of them have been returned.
    ahead: Vec<u32>,
    returned: usize,
    /// Number of values to read before any are read ahead, since a few are often enough.
    before_ahead: usize,
}

impl Column {
    /// Returns the values from an index on, none if it is beyond the end, for reading many of them.
    pub(crate) fn bulk_from(&self, index: u32) -> BulkValues<'_> {
        BulkValues { values: self.iter_from(index), ahead: Vec::new(), returned: 0, before_ahead: ENTRY_LEN }
    }
}

impl BulkValues<'_> {
    /// Reads the next values into `out`, and returns how many there were.
    pub(crate) fn fill(&mut self, out: &mut [u32]) -> usize {
        let mut at = 0;
        while let Some(rest) = out.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let ahead = self.ahead.get(self.returned..).unwrap_or_default();
            let some = ahead.len().min(rest.len());
            if some > 0 {
                for (to, from) in rest.iter_mut().zip(ahead) {
                    *to = *from;
                }
                self.returned += some;
                at += some;
            } else if self.before_ahead == 0 && self.values.read_ahead(&mut self.ahead) {
                self.returned = 0;
            } else {
                let until = self.values.until_entry().min(rest.len());
                let filled = self.values.fill(rest.get_mut(..until).unwrap_or_default());
                if filled == 0 {
                    return at;
                }
                at += filled;
                self.before_ahead = self.before_ahead.saturating_sub(filled);
            }
        }
        at
    }
}

impl Values<'_> {
    /// Returns the number of values up to the next directory entry, 1 or more.
    fn until_entry(&self) -> usize {
        match &self.state {
            ValuesState::Run { .. } | ValuesState::Unpacked { .. } => usize::MAX,
            ValuesState::Blocks { index, .. } => {
                let unread = self.block.unread.len() + (STRIDE - index % STRIDE) as usize % ENTRY_LEN;
                if unread == 0 { usize::MAX } else { unread }
            }
        }
    }

    /// Replaces `out` by the next [`AHEAD`] values. Does nothing and returns false if there are not
    /// as many, or if the next one does not lie at a directory entry.
    fn read_ahead(&mut self, out: &mut Vec<u32>) -> bool {
        let ValuesState::Blocks { stream, directory, index, .. } = &mut self.state else { return false };
        if self.left < AHEAD || !index.is_multiple_of(STRIDE) || !self.block.unread.is_empty() {
            return false;
        }
        let first = (*index / STRIDE) as usize;
        let Some(entries) = directory.get(first..).and_then(|rest| rest.first_chunk::<ENTRIES>()) else {
            return false;
        };
        let mut readers = entries.map(|entry| BlockReader::new(stream, entry.byte as usize));
        out.resize(AHEAD as usize, 0);
        if let [one, two, three, four] = out.as_chunks_mut::<ENTRY_LEN>().0 {
            let blocks = [one, two, three, four].map(|values| values.as_chunks_mut::<BLOCK>().0);
            let [one, two, three, four] = blocks;
            for (((one, two), three), four) in one.iter_mut().zip(two).zip(three).zip(four) {
                BlockReader::fill_four(&mut readers, [one, two, three, four]);
            }
        }
        *index += AHEAD;
        self.left -= AHEAD;
        true
    }
}
