//! Where fragments lie: `sidx` (ISO/IEC 14496-12 §8.16.3) and `mfra` (§8.8.9).

pub use crate::boxes::{
    mfra::{Mfra, Tfra, TfraEntry, mfro_size},
    sidx::{Reference, Sidx},
};
