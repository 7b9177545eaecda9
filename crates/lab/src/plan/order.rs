//! The order in which cells are measured.

/// Returns the order of `count` cells in a block, which measures each of them once. It depends only
/// on the seed and the number of the block, so that a restart goes on in the same order.
pub fn block(seed: u64, number: u32, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    fastrand::Rng::with_seed(seed.wrapping_add(u64::from(number))).shuffle(&mut order);
    order
}
