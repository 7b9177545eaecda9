//! The tracks that a key is for, as key documents state them: usage rules of CPIX (CPIX §2.3.6).

/// The properties of a track that usage rules compare.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrackFacts {
    /// Pixels of a picture. `None` for tracks without pictures.
    pub pixels: Option<u64>,
    /// Pictures in a second, as a fraction. `None` if it varies.
    pub frame_rate: Option<(u32, u32)>,
    /// Audio channels. `None` for tracks without audio.
    pub channels: Option<u64>,
    /// Bits in a second.
    pub bitrate: u64,
    /// Names by which label filters find the track: its language and its name.
    pub labels: Vec<String>,
}

/// The kind of track that a usage rule states beside its filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntendedKind {
    /// Video.
    Video,
    /// Audio.
    Audio,
}

/// One usage rule of a key. A rule without filters applies to all tracks of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageRule {
    /// Kind of the tracks. It counts only in a rule without video and audio filters.
    pub kind: Option<IntendedKind>,
    /// Video filters, of which one must be true, if there are any.
    pub video: Vec<VideoFilter>,
    /// Audio filters.
    pub audio: Vec<AudioFilter>,
    /// Bit rate filters.
    pub bitrate: Vec<Bounds>,
    /// Labels.
    pub labels: Vec<String>,
}

/// Inclusive bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bounds {
    /// Least value.
    pub min: Option<u64>,
    /// Greatest value.
    pub max: Option<u64>,
}

impl Bounds {
    fn holds(self, value: u64) -> bool {
        self.min.is_none_or(|min| min <= value) && self.max.is_none_or(|max| value <= max)
    }
}

/// A video filter. It is true of no track without pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VideoFilter {
    /// Pixels of a picture.
    pub pixels: Bounds,
    /// Pictures in a second. The lower bound is exclusive.
    pub frame_rate: Bounds,
}

impl VideoFilter {
    fn matches(self, track: &TrackFacts) -> bool {
        let is_in_time = match (self.frame_rate, track.frame_rate) {
            (Bounds { min: None, max: None }, _) => true,
            (_, None) => false,
            (Bounds { min, max }, Some((count, seconds))) => {
                let count = u128::from(count);
                let seconds = u128::from(seconds);
                min.is_none_or(|min| count > u128::from(min) * seconds)
                    && max.is_none_or(|max| count <= u128::from(max) * seconds)
            }
        };
        is_in_time && track.pixels.is_some_and(|pixels| self.pixels.holds(pixels))
    }
}

/// An audio filter. It is true of no track without audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AudioFilter {
    /// Channels.
    pub channels: Bounds,
}

impl UsageRule {
    /// Returns true if the key is for a track. Of each type of filter, one must be true of the
    /// track. A rule with video and audio filters is for tracks of both kinds, because no track
    /// can match both.
    pub fn matches(&self, track: &TrackFacts) -> bool {
        let of_video = self.video.iter().any(|filter| filter.matches(track));
        let of_audio = self
            .audio
            .iter()
            .any(|filter| track.channels.is_some_and(|channels| filter.channels.holds(channels)));
        let is_of_kind = match (self.video.is_empty(), self.audio.is_empty()) {
            (true, true) => match self.kind {
                None => true,
                Some(IntendedKind::Video) => track.pixels.is_some(),
                Some(IntendedKind::Audio) => track.channels.is_some(),
            },
            _ => of_video || of_audio,
        };
        let is_labelled = |label: &String| track.labels.iter().any(|name| name.eq_ignore_ascii_case(label));
        is_of_kind
            && (self.bitrate.is_empty() || self.bitrate.iter().any(|bounds| bounds.holds(track.bitrate)))
            && (self.labels.is_empty() || self.labels.iter().any(is_labelled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn video(pixels: u64, frame_rate: (u32, u32)) -> TrackFacts {
        let labels = vec!["main".to_owned()];
        TrackFacts {
            pixels: Some(pixels),
            frame_rate: Some(frame_rate),
            bitrate: 1000,
            labels,
            channels: None,
        }
    }

    fn audio(channels: u64) -> TrackFacts {
        TrackFacts {
            channels: Some(channels),
            labels: vec!["fr".to_owned()],
            bitrate: 100,
            ..TrackFacts::default()
        }
    }

    const fn bounds(min: Option<u64>, max: Option<u64>) -> Bounds {
        Bounds { min, max }
    }

    #[test]
    fn pixels_are_inclusive_and_frame_rates_exclude_their_minimum() {
        let rule = |filter| UsageRule { video: vec![filter], ..UsageRule::default() };
        let sd = rule(VideoFilter { pixels: bounds(None, Some(589_824)), ..VideoFilter::default() });
        let hd = rule(VideoFilter { pixels: bounds(Some(589_825), None), ..VideoFilter::default() });
        for (pixels, is_sd) in [(589_824, true), (589_825, false)] {
            let track = video(pixels, (25, 1));
            assert_eq!((sd.matches(&track), hd.matches(&track)), (is_sd, !is_sd));
        }
        let fast = rule(VideoFilter { frame_rate: bounds(Some(30), Some(60)), ..VideoFilter::default() });
        for (rate, is_match) in [((30, 1), false), ((30_001, 1000), true), ((60, 1), true), ((61, 1), false)]
        {
            assert_eq!(fast.matches(&video(1, rate)), is_match, "{rate:?}");
        }
        assert!(!fast.matches(&TrackFacts { frame_rate: None, ..video(1, (50, 1)) }));
        assert!(!sd.matches(&audio(2)) && !hd.matches(&audio(2)));
    }

    #[test]
    fn types_of_filters_are_joined_by_and() {
        let stereo = AudioFilter { channels: bounds(None, Some(2)) };
        let rule = UsageRule {
            audio: vec![stereo, AudioFilter { channels: bounds(Some(6), Some(6)) }],
            bitrate: vec![bounds(Some(100), Some(100))],
            labels: vec!["FR".to_owned(), "de".to_owned()],
            ..UsageRule::default()
        };
        assert!(rule.matches(&audio(2)) && rule.matches(&audio(6)) && !rule.matches(&audio(5)));
        assert!(!rule.matches(&TrackFacts { bitrate: 101, ..audio(2) }));
        assert!(!rule.matches(&TrackFacts { labels: vec!["en".to_owned()], ..audio(2) }));
        let shared =
            UsageRule { video: vec![VideoFilter::default()], audio: vec![stereo], ..UsageRule::default() };
        assert!(
            shared.matches(&video(1, (25, 1))) && shared.matches(&audio(2)) && !shared.matches(&audio(6))
        );
    }

    #[test]
    fn rules_without_filters_follow_their_kind() {
        let rule = |kind| UsageRule { kind, ..UsageRule::default() };
        let video = video(1, (25, 1));
        let audio = audio(2);
        assert!(rule(None).matches(&video) && rule(None).matches(&audio));
        assert!(rule(Some(IntendedKind::Video)).matches(&video));
        assert!(!rule(Some(IntendedKind::Video)).matches(&audio));
        assert!(rule(Some(IntendedKind::Audio)).matches(&audio));
        assert!(!rule(Some(IntendedKind::Audio)).matches(&video));
    }
}
