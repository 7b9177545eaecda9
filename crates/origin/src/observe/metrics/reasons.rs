//! Counters by a stable word.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Most words counted by themselves. There are fewer reasons. Further words are counted as `other`.
const MAX_WORDS: usize = 96;

/// Counters by word, in the order in which the words first occurred, without a lock. The words are
/// constants of the program. Nothing from a request becomes one.
#[derive(Debug)]
pub(crate) struct Reasons {
    slots: [(OnceLock<&'static str>, AtomicU64); MAX_WORDS],
    other: AtomicU64,
}

impl Default for Reasons {
    fn default() -> Self {
        Self { slots: std::array::from_fn(|_| Default::default()), other: AtomicU64::new(0) }
    }
}

impl Reasons {
    pub(crate) fn count(&self, reason: &'static str) {
        // If two threads reach an empty slot, the second one finds the word of the first in it.
        let slot = self.slots.iter().find(|(word, _)| *word.get_or_init(|| reason) == reason);
        slot.map_or(&self.other, |(_, count)| count).fetch_add(1, Relaxed);
    }

    /// Returns the words with their counts.
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
    fn every_thread_counts_the_same_words() {
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
    fn words_beyond_the_limit_are_counted_together() {
        let reasons = Reasons::default();
        for number in 0..MAX_WORDS + 2 {
            reasons.count(String::leak(number.to_string()));
        }
        assert_eq!(reasons.counted().last(), Some(("other", 2)));
        assert_eq!(reasons.counted().count(), MAX_WORDS + 1);
    }
}
