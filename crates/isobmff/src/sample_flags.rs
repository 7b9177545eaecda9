//! Sample flags of `trex`, `tfhd` and `trun` (ISO/IEC 14496-12 §8.8.3.1), 32 bits:
//! reserved 4, is_leading 2, sample_depends_on 2, sample_is_depended_on 2, sample_has_redundancy 2,
//! sample_padding_value 3, sample_is_non_sync_sample 1, sample_degradation_priority 16.

/// A sync sample: depends on no other (sample_depends_on 2).
pub const SYNC: u32 = 0x0200_0000;

/// Any other sample: depends on others (sample_depends_on 1), not a sync sample.
pub const NON_SYNC: u32 = 0x0101_0000;

/// sample_is_non_sync_sample.
const IS_NON_SYNC: u32 = 0x0001_0000;

/// Whether the flags are those of a sync sample. Only `sample_is_non_sync_sample` counts: the rest are hints.
#[must_use]
pub const fn is_sync(flags: u32) -> bool {
    flags & IS_NON_SYNC == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_say_what_they_are_called() {
        assert!(is_sync(SYNC) && is_sync(0) && !is_sync(NON_SYNC) && !is_sync(u32::MAX));
    }
}
