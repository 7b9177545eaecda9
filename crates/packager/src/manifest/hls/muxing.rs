//! The choice between TS that holds video and audio, and playlists of video and of audio.

use super::track;
use crate::segment::PackedTracks;
use latemux_index::Title;

/// Returns the audio that TS variants of a title hold, if any: its only one. A choice of several
/// needs playlists, because some players lose their position over a rendition without a URI, which
/// stands for audio in the variants.
///
/// A segment of TS also holds the sound after the end of the picture, or under a still picture. If
/// that makes it longer than twice the target duration, the audio gets a playlist too, and is cut
/// there by the target duration. TS of sound alone in the list of a variant is no way out: players
/// stall over a seek to it, because Media Source Extensions can play only what both buffers hold.
pub(super) fn muxed_audio(title: &Title, video: &[usize], audio: &[usize]) -> Option<usize> {
    match *audio {
        [only] => video.iter().all(|&video| !makes_long_segments(title, video, only)).then_some(only),
        _ => None,
    }
}

/// Returns true if video and audio together have a segment longer than twice the target duration in
/// which the audio alone has several.
fn makes_long_segments(title: &Title, video: usize, audio: usize) -> bool {
    let tracks = [video, audio];
    let Some(packed) = PackedTracks::new(title, &tracks) else { return false };
    if packed.own_cuts(audio).is_some() {
        // Each segment has one of the audio.
        return false;
    }
    let scale = u128::from(track(title, video).timescale.get());
    let longest = title.target().as_nanos().saturating_mul(2).saturating_mul(scale) / 1_000_000_000;
    let cuts = &title.tracks()[audio].cuts;
    // Cuts ascend. Searching them keeps titles of many long segments from taking quadratic time.
    let before = |sample: u32| cuts.partition_point(|&cut| cut < sample);
    packed.numbers().filter(|&number| u128::from(packed.duration(number)) > longest).any(|number| {
        packed.share(audio, number).is_some_and(|share| before(share.cut.end) > before(share.cut.start) + 1)
    })
}
