//! Limits of what readers accept. Real subtitles stay far below them.

use crate::{Cue, TextError};

/// Most bytes of a file.
pub const FILE_BYTES: usize = 4 << 20;
/// Most cues of a file.
pub const CUES: usize = 200_000;
/// Most bytes of the text of one cue, with its identifier and settings.
pub const CUE_BYTES: usize = 64 << 10;
/// Most cues that are shown at one time.
pub const ACTIVE_CUES: usize = 256;
/// Latest time in milliseconds: that of 1,000 hours.
pub const LATEST: u64 = 1000 * 3600 * 1000;
/// Most elements of an XML document that enclose one another.
pub const XML_DEPTH: usize = 32;
/// Most nodes of an XML document.
pub const XML_NODES: u32 = 250_000;

/// Most attributes of one XML element, and most namespaces of a document.
pub const XML_ATTRIBUTES: usize = 256;
/// Most times at which the text of one TTML paragraph changes.
pub const PARAGRAPH_CHANGES: usize = 512;
/// Most bytes of all samples of one text. A cue is repeated in each sample that it is shown in.
pub const SAMPLE_BYTES: usize = 16 << 20;

/// Checks the size of a file.
pub(crate) fn check_file(bytes: usize) -> Result<(), TextError> {
    if bytes > FILE_BYTES { Err(TextError::OverLimit("bytes of text", FILE_BYTES)) } else { Ok(()) }
}

/// Adds a cue to a list, unless it is never shown. Fails if the cue or the list is too large.
pub(crate) fn push(cues: &mut Vec<Cue>, cue: Cue) -> Result<(), TextError> {
    if cue.end <= cue.start || cue.start > LATEST || cue.text.is_empty() {
        return Ok(());
    }
    if cue.text.len() + cue.id.len() + cue.settings.len() > CUE_BYTES {
        return Err(TextError::OverLimit("bytes of one cue", CUE_BYTES));
    }
    if cues.len() >= CUES {
        return Err(TextError::OverLimit("cues", CUES));
    }
    cues.push(cue);
    Ok(())
}

/// Sorts cues by start. Fails if too many are shown at one time.
pub(crate) fn sort(cues: &mut [Cue]) -> Result<(), TextError> {
    cues.sort_by_key(|cue| cue.start);
    let mut ends = std::collections::BinaryHeap::new();
    for cue in cues.iter() {
        while ends.peek().is_some_and(|&std::cmp::Reverse(end)| end <= cue.start) {
            ends.pop();
        }
        ends.push(std::cmp::Reverse(cue.end));
        if ends.len() > ACTIVE_CUES {
            return Err(TextError::OverLimit("cues at one time", ACTIVE_CUES));
        }
    }
    Ok(())
}
