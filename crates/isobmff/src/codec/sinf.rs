//! `sinf`: the original coding name and the protection scheme of an encrypted sample entry (ISO/IEC
//! 14496-12 §8.12).

use super::children::Children;
use crate::{Error, FourCc};

/// Contents of `sinf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// `frma`: the coding name of the entry before encryption.
    pub original: FourCc,
    /// `schm`: the protection scheme.
    pub scheme: FourCc,
}

/// Extended type of PIFF's track encryption box, the forerunner of `tenc` (PIFF 1.1 §5.3.3).
const PIFF_TENC: [u8; 16] =
    [0x89, 0x74, 0xdb, 0xce, 0x7b, 0xe7, 0x4c, 0x51, 0x84, 0xf9, 0x71, 0x48, 0xf9, 0x88, 0x25, 0x54];

/// Returns true for the coding names of encrypted entries; `drmi` and `drms` are Apple's.
pub(super) fn is_protected(format: FourCc) -> bool {
    matches!(&format.0, b"encv" | b"enca" | b"enct" | b"encs" | b"drmi" | b"drms")
}

/// Reads the first `sinf` among the boxes of an encrypted sample entry.
///
/// # Errors
/// [`Error::Missing`] if `sinf`, `frma` or any sign of the scheme is absent; [`Error::Truncated`]
/// if a box among them is cut off.
pub(super) fn protection(boxes: &Children) -> Result<Protection, Error> {
    let sinf = boxes.require(b"sinf")?;
    let inside = sinf.children(0);
    let frma = inside.require(b"frma")?;
    let original = frma.bits().bits(32).ok_or(frma.at.truncated())?;
    let scheme = match inside.first(b"schm") {
        Some(schm) => schm.full_box()?.1.bits(32).ok_or(schm.at.truncated())?,
        None if has_piff_tenc(&inside) => u32::from_be_bytes(*b"piff"),
        None => return Err(sinf.at.missing(b"schm")),
    };
    Ok(Protection { original: FourCc(original.to_be_bytes()), scheme: FourCc(scheme.to_be_bytes()) })
}

/// Returns true if `schi` holds PIFF's `uuid` box.
fn has_piff_tenc(sinf: &Children) -> bool {
    sinf.first(b"schi").is_some_and(|schi| {
        schi.children(0).any(|child| child.kind == b"uuid" && child.body.starts_with(&PIFF_TENC))
    })
}
