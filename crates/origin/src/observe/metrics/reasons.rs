//! Counts by a stable word.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// More words than there are reasons; more than these are counted as `other`.
const MOST: usize = 96;

/// Counts by word, in the order the words came; no lock. Words are of the program text, never of a request.
#[derive(Debug)]
pub(crate) struct Reasons {
    slots: [(OnceLock<&'static str>, AtomicU64); MOST],
    other: AtomicU64,
}

impl Default for Reasons {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| Default::default()), other: AtomicU64::new(0) }
    }
}

impl Reasons {
    pub(crate) fn count(&self, reason: &'static str) {
        // Whoever comes second to an empty slot finds the other's word in it.
        let slot = self.slots.iter().find(|(word, _)| *word.get_or_init(|| reason) == reason);
        slot.map_or(&self.other, |(_, count)| count).fetch_add(1, Relaxed);
    }

    /// Words and their counts.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let slots = self.slots.iter().map_while(|(word, count)| Some((*word.get()?, count.load(Relaxed))));
        let other = Some(("other", self.other.load(Relaxed))).filter(|(_, count)| *count > 0);
        slots.chain(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_counted_by_itself_from_all_threads() {
        let reasons = Reasons::default();
        let words = ["a", "b", "c", "d"];
        std::thread::scope(|scope| {
            for first in 0..4 {
                let reasons = &reasons;
                scope.spawn(move || (0..1000).for_each(|i| reasons.count(words[(first + i) % 4])));
            }
        });
        let mut counted: Vec<_> = reasons.counted().collect();
        counted.sort_unstable();
        assert_eq!(counted, words.map(|word| (word, 1000)));
    }

    #[test]
    fn too_many_words_are_counted_together() {
        let reasons = Reasons::default();
        for number in 0..MOST + 2 {
            reasons.count(String::leak(number.to_string()));
        }
        assert_eq!(reasons.counted().last(), Some(("other", 2)));
        assert_eq!(reasons.counted().count(), MOST + 1);
    }
}
