//! Writing boxes, and init segments and fragments as in CMAF (ISO/IEC 23000-19 §7).
//!
//! The size of every box is known before a byte of it is written. A plan can therefore promise a
//! Content-Length from numbers alone, and nothing has to be patched afterwards.

pub mod fragment;
pub mod init;
mod muxed;
mod reordered;

pub use crate::{
    boxes::{saiz::IMPORTANCE, trun::EmitSample},
    write::{Container, WriteBox, put_header},
};
pub use fragment::{
    FragmentShape, FragmentSpec, encrypted_fragment, fragment, fragment_size, mdat_header, segment_type,
    smooth_fragment, smooth_fragment_size, text_fragment,
};
pub use init::{InitSegment, InitTrack, cmaf_brands};
pub use muxed::muxed_fragment;
pub use reordered::{MAX_LAYERS, ReorderedSpec, reordered_fragment};
