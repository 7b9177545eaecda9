//! Target durations that playlists of audio and video share.

use super::{listed_segments, packed_for_playlist, target_duration};
use crate::manifest::track;
use latemux_index::{Title, media::TrackKind, title::TitleTrack};
use std::{cell::OnceCell, time::Duration};

/// Target durations of the playlists of a title's videos, each computed on first use: a title may
/// have a thousand tracks to compare them with.
#[derive(Debug)]
pub(super) struct VideoTargets<'a> {
    title: &'a Title,
    minimum: Option<Duration>,
    videos: Vec<Video<'a>>,
}

#[derive(Debug)]
struct Video<'a> {
    named: &'a TitleTrack,
    /// Its target duration in seconds. `None` if it is not selected.
    target: OnceCell<Option<i64>>,
}

impl<'a> VideoTargets<'a> {
    /// Prepares the videos of a title, with the shortest duration of joined segments, if any.
    pub(super) fn new(title: &'a Title, minimum: Option<Duration>) -> Self {
        let videos = title.whole_tracks().filter(|named| title.track(named).kind == TrackKind::Video);
        let videos = videos.map(|named| Video { named, target: OnceCell::new() }).collect();
        Self { title, minimum, videos }
    }

    /// Returns the least `EXT-X-TARGETDURATION` of a playlist of one track: that of video with
    /// fewer and far longer segments, such as still pictures, or 0. Playlists of audio and video
    /// must state the same target duration (RFC 8216 §6.2.4).
    pub(super) fn least(&self, tracks: &[usize]) -> i64 {
        let [only] = *tracks else { return 0 };
        let segments = self.title.tracks()[only].segment_count();
        if track(self.title, only).kind == TrackKind::Text {
            return 0;
        }
        let videos = self.videos.iter().filter(|video| video.named.segment_count() < segments);
        let of_video = videos.filter_map(|video| *video.target.get_or_init(|| self.target_of(video.named)));
        let is_long =
            |&longest: &i64| i128::from(longest) > i128::from(self.title.target().as_secs()) * 2 + 1;
        of_video.max().filter(is_long).unwrap_or(0)
    }

    fn target_of(&self, named: &TitleTrack) -> Option<i64> {
        let video = [self.title.find(&named.name)?];
        let packed = packed_for_playlist(self.title, &video, self.minimum)?;
        Some(target_duration(listed_segments(&packed).map(|(_, micros)| micros)))
    }
}
