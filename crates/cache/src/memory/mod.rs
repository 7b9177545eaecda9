//! The units of objects in memory: complete ones, those that are being fetched, and their budget.

pub(crate) mod extents;
pub(crate) mod fill;
pub(crate) mod gauge;
pub(crate) mod lock;
pub(crate) mod object;
pub(crate) mod pending;
pub(crate) mod room;
pub(crate) mod s3fifo;
