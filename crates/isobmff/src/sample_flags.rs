//! Sample flags of `trex`, `tfhd` and `trun` (ISO/IEC 14496-12 §8.8.3.1), 32 bits:
//! reserved 4, is_leading 2, sample_depends_on 2, sample_is_depended_on 2, sample_has_redundancy 2,
//! sample_padding_value 3, sample_is_non_sync_sample 1, sample_degradation_priority 16.

/// Flags of a sync sample: it depends on no other (sample_depends_on 2).
pub const SYNC: u32 = 0x0200_0000;

/// Flags of any other sample: it depends on others (sample_depends_on 1) and is not a sync sample.
pub const NON_SYNC: u32 = 0x0101_0000;

/// The bit sample_is_non_sync_sample.
const IS_NON_SYNC: u32 = 0x0001_0000;

/// Returns true for the flags of a sync sample. Only `sample_is_non_sync_sample` counts: the other
/// fields are hints.
pub const fn is_sync(flags: u32) -> bool {
    flags & IS_NON_SYNC == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_non_sync_bit_decides_what_is_a_sync_sample() {
        assert!(is_sync(SYNC) && is_sync(0) && !is_sync(NON_SYNC) && !is_sync(u32::MAX));
    }
}
