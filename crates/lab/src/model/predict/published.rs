//! The published rows of the model. They are about a packager that reads only the file that holds a
//! segment, in many small reads (tables 3.5 to 3.8 of the thesis K, which docs/experiments.md
//! names).

use super::Cost;
use crate::{Error, experiment::Layout};

/// The class of a request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A manifest.
    Manifest,
    /// A media segment.
    Segment,
}

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// MPEG-DASH.
    Dash,
    /// HTTP Live Streaming.
    Hls,
}

/// Returns the published cost of a manifest, for which the server manifest is read and, of each
/// file, the boxes that state its index.
///
/// # Errors
/// If figures were not published for the layout.
pub fn manifest(layout: Layout, protocol: Protocol, files: u64, ism: u64, index: u64) -> Result<Cost, Error> {
    let each = match (layout, protocol) {
        (Layout::Mp4, _) => 3,
        (Layout::Fmp4, Protocol::Dash) => 6,
        (Layout::Fmp4, Protocol::Hls) => 4,
        _ => return Err(unpublished(layout)),
    };
    Ok(Cost { requests: 1 + files * each, bytes: Some(ism + files * index) })
}

/// Returns the published cost of a segment with `tracks` muxed tracks and `media` bytes, for
/// which the server manifest is read and, of each track, the boxes of its index and its media. If
/// indexes are cached, only the media is read.
///
/// # Errors
/// If figures were not published for the layout.
pub fn segment(
    layout: Layout,
    tracks: u64,
    is_index_cached: bool,
    ism: u64,
    index: u64,
    media: u64,
) -> Result<Cost, Error> {
    let each = match layout {
        Layout::Mp4 => 4,
        Layout::Fmp4 => 5,
        _ => return Err(unpublished(layout)),
    };
    Ok(match is_index_cached {
        true => Cost { requests: tracks, bytes: Some(media) },
        false => Cost { requests: 1 + tracks * each, bytes: Some(ism + tracks * index + media) },
    })
}

fn unpublished(layout: Layout) -> Error {
    Error::invalid(format!("no figures were published for the layout '{}'", layout.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_those_of_the_published_tables() {
        let requests = |cost: Result<Cost, Error>| cost.unwrap().requests;
        assert_eq!(requests(manifest(Layout::Mp4, Protocol::Dash, 5, 0, 0)), 16);
        assert_eq!(requests(manifest(Layout::Fmp4, Protocol::Dash, 5, 0, 0)), 31);
        assert_eq!(requests(manifest(Layout::Fmp4, Protocol::Hls, 5, 0, 0)), 21);
        assert_eq!(requests(segment(Layout::Mp4, 1, false, 0, 0, 0)), 5);
        assert_eq!(requests(segment(Layout::Mp4, 2, false, 0, 0, 0)), 9);
        assert_eq!(requests(segment(Layout::Fmp4, 1, false, 0, 0, 0)), 6);
        assert_eq!(requests(segment(Layout::Fmp4, 2, true, 0, 0, 0)), 2);
        let cost = segment(Layout::Mp4, 2, false, 10, 200, 3000).unwrap();
        assert_eq!(cost.bytes, Some(3410));
        assert_eq!(segment(Layout::Mp4, 2, true, 10, 200, 3000).unwrap().bytes, Some(3000));
        assert!(manifest(Layout::IndexedMp4, Protocol::Hls, 1, 0, 0).is_err());
    }
}
