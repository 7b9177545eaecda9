//! Models that results are compared with.

pub mod fit;
pub mod lru;
pub mod predict;
pub mod streams;
