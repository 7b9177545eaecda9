//! Which protocol carries which codec. What a protocol cannot carry is left out of its manifest, with the reason in the log
//! and in `inspect`; it is never sent broken.

use latemux_index::Track;

/// A protocol and container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// MPEG-DASH with CMAF segments.
    Dash,
    /// HLS with CMAF segments.
    HlsCmaf,
    /// HLS with MPEG-2 TS segments.
    HlsTs,
}

/// `Err` says why a protocol cannot carry a track, for people.
///
/// # Errors
/// The reason, e.g. "HLS TS has no mapping for av01".
pub fn carries(protocol: Protocol, track: &Track) -> Result<(), String> {
    let _ = (protocol, track);
    todo!()
}
