//! Decides whether the files of a folder are renditions of one film. If they are several films, the
//! folder is not a title: one manifest for all of them would switch from one film to another.
//!
//! The decision is a function of names and indexes alone, so every node decides alike. It is made
//! for folders only: a comma list and a server manifest state what belongs together. The rule is
//! documented in `docs/titles.md`.

use latemux_index::{MediaIndex, Track, media::TrackKind};
use latemux_isobmff::{FourCc, Time, codec::Media, codec::VideoRange};
use std::collections::BTreeSet;

/// Largest difference, in seconds, between the durations of renditions from one run of an encoder.
const CLOSE: f64 = 1.0;
/// Two bit rates closer than this share of the larger one are nearly the same.
const NEAR_RATE: f64 = 0.1;
/// Words in the names of files that tell renditions of one film apart. Numbers and single letters
/// count as such words too.
const RENDITION_WORDS: [&str; 72] = [
    "aac",
    "ac",
    "audio",
    "av",
    "avc",
    "base",
    "bps",
    "caption",
    "captions",
    "cmaf",
    "dash",
    "desktop",
    "dts",
    "eac",
    "ec",
    "fhd",
    "flac",
    "fmp",
    "fps",
    "hd",
    "hdr",
    "hevc",
    "hfr",
    "hi",
    "high",
    "hls",
    "hq",
    "hvc",
    "hz",
    "index",
    "kbit",
    "kbps",
    "khz",
    "lo",
    "low",
    "lq",
    "main",
    "mbit",
    "mbps",
    "med",
    "medium",
    "mid",
    "mobile",
    "mp",
    "mq",
    "mss",
    "opus",
    "px",
    "qhd",
    "rendition",
    "sd",
    "sdr",
    "smooth",
    "stereo",
    "stream",
    "sub",
    "subs",
    "subtitle",
    "subtitles",
    "surround",
    "tablet",
    "text",
    "thumbnails",
    "thumbs",
    "track",
    "tv",
    "uhd",
    "video",
    "vid",
    "vp",
    "vtt",
    "aud",
];

/// The facts about a file that the decision uses.
#[derive(Debug)]
pub(crate) struct FileFacts<'a> {
    name: &'a str,
    videos: Vec<VideoFacts>,
    /// Duration of the longest video or audio track in seconds. `None` without such tracks.
    seconds: Option<f64>,
}

/// The facts about a video track that the decision uses.
#[derive(Debug)]
struct VideoFacts {
    /// Coding name, size and dynamic range.
    kind: (FourCc, u16, u16, VideoRange),
    bitrate: u64,
    seconds: f64,
}

impl<'a> FileFacts<'a> {
    /// Collects the facts of a file whose media has these indexes.
    pub(crate) fn new<'i>(name: &'a str, indexes: impl Iterator<Item = &'i MediaIndex>) -> Self {
        let mut facts = Self { name, videos: Vec::new(), seconds: None };
        for track in indexes.flat_map(|index| &index.tracks) {
            let seconds = seconds(track);
            if track.kind != TrackKind::Text {
                facts.seconds = Some(facts.seconds.unwrap_or(0.0).max(seconds));
            }
            if let Media::Video(video) = &track.codec.media {
                let kind = (track.codec.format, video.width, video.height, video.range);
                facts.videos.push(VideoFacts { kind, bitrate: track.average_bitrate, seconds });
            }
        }
        facts
    }

    /// Returns true if the names are those of two films, such as two episodes: both have words that
    /// name a film, and either these differ, or both have equally many small numbers, which differ.
    fn is_named_unlike(&self, other: &Self) -> bool {
        let ours = NameParts::of(self.name);
        let theirs = NameParts::of(other.name);
        let names_film = |parts: &NameParts| parts.film.iter().any(|word| word.chars().count() > 1);
        let has_other_number = ours.small.len() == theirs.small.len() && ours.small != theirs.small;
        names_film(&ours) && names_film(&theirs) && (ours.film != theirs.film || has_other_number)
    }

    /// Returns true if the names of two files share a word, or if one of them has no words but
    /// those that tell renditions apart.
    fn is_named_like(&self, other: &Self) -> bool {
        let ours = words(self.name);
        let theirs = words(other.name);
        ours.is_empty() || theirs.is_empty() || !ours.is_disjoint(&theirs)
    }
}

/// Parts of a file's name. They decide where no file has been read.
#[derive(Debug, PartialEq, Eq)]
struct NameParts {
    /// Words and single letters that name the film.
    film: BTreeSet<String>,
    /// Words that tell renditions apart.
    rendition: BTreeSet<String>,
    /// Numbers from 100 on, and those with a unit, can be bit rates and sizes.
    large: Vec<u64>,
    /// Numbers from 100 on that may name a film, as in `300.mp4` and `1917.mp4`: no word names the
    /// film, and neither a unit nor a word says what the number is.
    film_numbers: Vec<u64>,
    /// Smaller numbers without a unit, such as those of episodes.
    small: Vec<u64>,
    /// True for audio and text, which may have names of their own.
    is_companion: bool,
}

/// Single letters that are units: `720p`, `800k`, `1280x720`.
const UNITS: [&str; 5] = ["p", "i", "k", "m", "x"];
/// Words that are units of bit rates and sizes.
const UNIT_WORDS: [&str; 7] = ["bps", "fps", "kbit", "kbps", "mbit", "mbps", "px"];
/// Words that name a rendition together with a number, as in `video-300.mp4`.
const NUMBERED: [&str; 5] = ["rendition", "stream", "track", "vid", "video"];
/// Heights of pictures that encoders are usually told to make.
const USUAL_HEIGHTS: [u64; 22] = [
    144, 160, 180, 216, 234, 240, 270, 288, 360, 396, 404, 416, 432, 480, 486, 540, 576, 720, 1080, 1440,
    2160, 4320,
];
/// Words and extensions of files without video.
const COMPANIONS: [&str; 19] = [
    "audio",
    "aud",
    "caption",
    "captions",
    "sub",
    "subs",
    "subtitle",
    "subtitles",
    "text",
    "thumbnails",
    "thumbs",
    "vtt",
    "m4a",
    "cmfa",
    "cmft",
    "isma",
    "ismt",
    "mp4a",
    "stereo",
];

impl NameParts {
    fn of(name: &str) -> Self {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let stem = stem.strip_suffix(".index").unwrap_or(stem);
        let runs = stem.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
        let runs = runs.filter(|run| !run.is_empty() && !UNITS.contains(&run.as_str()));
        let (rendition, film): (BTreeSet<_>, _) =
            runs.partition(|run| RENDITION_WORDS.contains(&run.as_str()));
        let is_other = |word: &str| COMPANIONS.contains(&word);
        let is_companion = rendition.iter().any(|word| is_other(word)) || is_other(&extension.to_lowercase());
        let numbers = numbers_with_units(stem);
        let of = |numbers: Vec<&(u64, bool)>| numbers.into_iter().map(|&(number, _)| number).collect();
        let (large, small) = numbers.iter().partition(|&&(number, has_unit)| number >= 100 || has_unit);
        let large = of(large);
        let small = of(small);
        let has_words = !film.is_empty() || rendition.iter().any(|word| NUMBERED.contains(&word.as_str()));
        let film_numbers = if has_words { Vec::new() } else { bare_numbers(&numbers) };
        Self { film, rendition, large, small, film_numbers, is_companion }
    }

    /// Returns true if the name contains nothing that can name a film.
    fn is_nameless(&self) -> bool {
        self.film.is_empty() && self.film_numbers.is_empty()
    }

    /// Returns true if the names state different renditions of one film.
    fn is_rendition_beside(&self, other: &Self) -> bool {
        let has_other_rate = || {
            self.large.len() == other.large.len()
                && self.large.iter().zip(&other.large).any(|(&x, &y)| !is_near(x, y))
        };
        self.film == other.film
            && self.film_numbers == other.film_numbers
            && self.small == other.small
            && (self.rendition != other.rendition || has_other_rate())
    }
}

/// Returns true if the names of a folder's files alone say that these are renditions of one film.
/// If in doubt they do not: each file can be played by itself.
pub(crate) fn are_named_as_renditions(names: &[&str]) -> bool {
    let parts = names.iter().map(|name| NameParts::of(name));
    let (companions, pictures): (Vec<_>, Vec<_>) = parts.partition(|name| name.is_companion);
    let Some(first) = pictures.first() else { return false };
    if names.len() == 1 {
        return first.is_nameless();
    }
    let pairs = || {
        pictures.iter().enumerate().flat_map(|(n, one)| pictures.iter().take(n).map(move |two| (one, two)))
    };
    pairs().all(|(one, two)| one.is_rendition_beside(two))
        && companions.iter().all(|name| first.film.is_empty() || !first.film.is_disjoint(&name.film))
}

/// Returns why two of the files cannot be renditions of one film, or `None` if all can.
pub(crate) fn contradiction(files: &[FileFacts<'_>]) -> Option<String> {
    let has_video = files.iter().any(|file| !file.videos.is_empty());
    files.iter().enumerate().find_map(|(number, first)| {
        files.iter().take(number).find_map(|second| {
            let why = compare(second, first, has_video)?;
            Some(format!("{} and {} {why}", second.name, first.name))
        })
    })
}

fn compare(a: &FileFacts<'_>, b: &FileFacts<'_>, has_video: bool) -> Option<String> {
    if a.videos.is_empty() || b.videos.is_empty() {
        let x = a.seconds?;
        let y = b.seconds?;
        // Sound may outlast the picture, or end early. Without any picture, it has nothing to
        // outlast.
        let most = if has_video { tolerance(x, y, 30.0, 0.1) } else { CLOSE };
        return ((x - y).abs() > most).then(|| durations(x, y));
    }
    let pairs = || a.videos.iter().flat_map(|x| b.videos.iter().map(move |y| (x, y)));
    pairs().find_map(|(x, y)| {
        let (name, width, height, _) = x.kind;
        let same = (x.kind == y.kind).then(|| format!("both have {name} video of {width}x{height}"));
        let apart = (x.seconds - y.seconds).abs();
        // A rendition may end early, but not by more than this.
        if apart > tolerance(x.seconds, y.seconds, 10.0, 0.05) {
            return Some(durations(x.seconds, y.seconds));
        }
        match same {
            Some(same) if apart > CLOSE => Some(format!("{same}, but {}", durations(x.seconds, y.seconds))),
            Some(same) if is_near(x.bitrate, y.bitrate) && !state_other_rates(a.name, b.name) => {
                Some(format!("{same} at nearly the same bit rate"))
            }
            Some(same) if !a.is_named_like(b) => Some(format!("{same}, and their names share no word")),
            Some(same) if a.is_named_unlike(b) => Some(format!("{same}, and their names are of two films")),
            None if apart > CLOSE && !a.is_named_like(b) => {
                let durations = durations(x.seconds, y.seconds);
                Some(format!("{durations}, and their names share no word"))
            }
            None if apart > CLOSE && a.is_named_unlike(b) => {
                let durations = durations(x.seconds, y.seconds);
                Some(format!("{durations}, and their names are of two films"))
            }
            _ => None,
        }
    })
}

fn seconds(track: &Track) -> f64 {
    Time::new(track.end.saturating_sub(track.start), track.timescale).seconds()
}

fn tolerance(a: f64, b: f64, least: f64, share: f64) -> f64 {
    least.max(a.max(b) * share)
}

fn durations(a: f64, b: f64) -> String {
    format!("last {a:.1} s and {b:.1} s")
}

#[expect(clippy::cast_precision_loss, reason = "bit rates are far below 2^52")]
fn is_near(a: u64, b: u64) -> bool {
    (a.abs_diff(b) as f64) < a.max(b) as f64 * NEAR_RATE
}

/// Returns true if two names differ only in numbers that can be bit rates or sizes, as
/// `film-300.mp4` and `film-6000.mp4` do. The numbers of episodes are smaller or closer.
fn state_other_rates(a: &str, b: &str) -> bool {
    let without = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let ours = numbers(a);
    let theirs = numbers(b);
    without(a) == without(b)
        && ours.len() == theirs.len()
        && ours.iter().zip(&theirs).any(|(&x, &y)| x.min(y) >= 100 && !is_near(x, y))
}

fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// Returns the numbers of a name in order, each with `true` if it has a unit, as in `64k` and
/// `1280x720`.
fn numbers_with_units(stem: &str) -> Vec<(u64, bool)> {
    let class = |c: &char| (c.is_ascii_digit(), c.is_alphabetic());
    let chars: Vec<char> = stem.to_lowercase().chars().collect();
    let runs: Vec<String> = chars.chunk_by(|a, b| class(a) == class(b)).map(String::from_iter).collect();
    let is_unit = |run: &str| UNITS.contains(&run) || UNIT_WORDS.contains(&run);
    let has_unit = |place: usize| {
        let before = place.checked_sub(1).and_then(|before| runs.get(before));
        before.is_some_and(|run| run == "x") || runs.get(place + 1).is_some_and(|run| is_unit(run))
    };
    let numbers = runs.iter().enumerate();
    numbers.filter_map(|(place, run)| Some((run.parse().ok()?, has_unit(place)))).collect()
}

/// Returns the numbers from 100 on that neither have a unit nor are usual heights of pictures.
fn bare_numbers(numbers: &[(u64, bool)]) -> Vec<u64> {
    let bare = numbers.iter().filter(|(number, has_unit)| *number >= 100 && !has_unit);
    bare.map(|&(number, _)| number).filter(|number| !USUAL_HEIGHTS.contains(number)).collect()
}

/// Returns the words of a file's name that name the film: runs of at least two letters, in lower
/// case, without the extension.
fn words(name: &str) -> BTreeSet<String> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let runs = stem.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
    runs.filter(|word| word.chars().count() > 1 && !RENDITION_WORDS.contains(&word.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn video(name: &str, (width, height): (u16, u16), bitrate: u64, seconds: f64) -> FileFacts<'_> {
        let kind = (FourCc(*b"avc1"), width, height, VideoRange::Sdr);
        FileFacts { name, videos: vec![VideoFacts { kind, bitrate, seconds }], seconds: Some(seconds) }
    }

    fn audio(name: &str, seconds: f64) -> FileFacts<'_> {
        FileFacts { name, videos: Vec::new(), seconds: Some(seconds) }
    }

    fn text(name: &str) -> FileFacts<'_> {
        FileFacts { name, videos: Vec::new(), seconds: None }
    }

    const HD: (u16, u16) = (1280, 720);
    const SD: (u16, u16) = (640, 360);

    #[test]
    fn renditions_of_one_film_belong_together() {
        for files in [
            vec![
                video("video-1080p.mp4", (1920, 1080), 5_000_000, 5400.0),
                video("video-720p.mp4", HD, 2_500_000, 5400.04),
                video("video-360p.mp4", SD, 700_000, 5398.0),
                audio("audio-eng.mp4", 5401.5),
                audio("commentary.mp4", 5380.0),
                text("subs.mp4"),
            ],
            // Two bit rates of one size.
            vec![video("film_3000.mp4", HD, 3_000_000, 600.0), video("film_2000.mp4", HD, 2_000_000, 600.0)],
            // The names state two bit rates, though the content needs neither.
            vec![video("film-300k.mp4", SD, 250_000, 60.0), video("film-6000k.mp4", SD, 250_000, 60.0)],
            // Names without a common word.
            vec![video("a.mp4", HD, 3_000_000, 60.0), video("b.mp4", SD, 1_000_000, 60.0)],
            vec![video("hd.mp4", HD, 3_000_000, 60.0), video("sd.mp4", SD, 1_000_000, 66.0)],
            vec![video("feature.mp4", HD, 3_000_000, 60.0), video("phone.mp4", SD, 1_000_000, 60.5)],
            vec![audio("eng.m4a", 180.0), audio("deu.m4a", 180.02)],
            // The lowest size is below 100, and ends early.
            vec![
                video("film-90.mp4", (160, 90), 100_000, 15.0),
                video("film-180.mp4", (320, 180), 400_000, 24.0),
            ],
            // Numbers that count renditions, not films.
            vec![video("film_1.mp4", HD, 3_000_000, 60.0), video("film_2.mp4", SD, 1_000_000, 60.0)],
            vec![video("film-80k.mp4", SD, 80_000, 60.0), video("film-95k.mp4", SD, 100_000, 60.0)],
            vec![video("video_1.mp4", HD, 3_000_000, 60.0), video("video_2.mp4", HD, 1_000_000, 60.0)],
            vec![video("show-hq.mp4", HD, 3_000_000, 60.0), video("show-lq.mp4", HD, 1_000_000, 60.0)],
        ] {
            assert_eq!(contradiction(&files), None, "{files:?}");
        }
    }

    #[test]
    fn names_alone_say_that_files_are_renditions() {
        for names in [
            &["audio-eng.mp4", "audio-fra.mp4", "video-180p.mp4", "video-234p.mp4", "video-360p.mp4"][..],
            &["film-hd.mp4", "film-sd.mp4"],
            &["Tears of Steel 1280x720 3000k.mp4", "Tears of Steel 640x360 800k.mp4", "tears-audio.mp4"],
            &["film_300.mp4", "film_600.mp4", "film_1200.mp4", "film.m4a"],
            &["s01e07-720p.mp4", "s01e07-1080p.mp4"],
            &["avc.cmfv", "hevc.cmfv", "eng.cmfa"],
            &["video.mp4"],
            &["720p.index.mp4", "360p.index.mp4"],
            // Numbers alone: heights, numbers with units, and numbers that a word explains.
            &["360.mp4", "720.mp4", "1080.mp4"],
            &["640x368.mp4", "1280x736.mp4"],
            &["300k.mp4", "700kbps.mp4", "1900k.mp4"],
            // Low rates of audio alone are not numbers of episodes.
            &["film-64k.mp4", "film-96k.mp4"],
            &["video-90p.mp4", "video-180p.mp4"],
            &["video-300.mp4", "video-1917.mp4"],
            // Numbers that name the film are the same in all names.
            &["1917 (2019) 720p.mp4", "1917 (2019) 1080p.mp4"],
            &["300-hd.mp4", "300-sd.mp4", "300.m4a"],
        ] {
            assert!(are_named_as_renditions(names), "{names:?}");
        }
    }

    #[test]
    fn a_folder_of_films_was_one_title_of_many_renditions() {
        for names in [
            &["one.mp4", "two.mp4"][..],
            &["film-1.mp4", "film-2.mp4"],
            &["s01e01.mp4", "s01e02.mp4"],
            &["s01e01-720p.mp4", "s01e02-1080p.mp4"],
            &["show-101.mp4", "show-102.mp4", "show-201.mp4"],
            &["alien-720p.mp4", "brazil-1080p.mp4"],
            &["a-360.mp4", "b-720.mp4"],
            &["01 song.m4a", "02 song.m4a"],
            &["film-hd.mp4", "film-sd.mp4", "song.m4a"],
            &["v-avc.cmfv", "v-hevc.cmfv", "eng.cmfa"],
            &["film.mp4", "film (copy).mp4"],
            &["film 1984.mp4", "film 2010.mp4"],
            &["film.mp4"],
            &[],
            // Films whose names are numbers.
            &["300.mp4", "1917.mp4"],
            &["300 (2006).mp4", "1917 (2019).mp4"],
            &["300-720p.mp4", "1917-1080p.mp4"],
            &["300-hd.mp4", "1917-sd.mp4"],
            &["720.mp4", "1917.mp4"],
            &["1917.mp4"],
        ] {
            assert!(!are_named_as_renditions(names), "{names:?}");
        }
    }

    #[test]
    fn several_films_do_not_become_one_title() {
        let at = |name, seconds| video(name, HD, 2_000_000, seconds);
        for (files, why) in [
            ([at("one.mp4", 600.0), at("two.mp4", 731.0)], "one.mp4 and two.mp4 last 600.0 s and 731.0 s"),
            ([at("film-1.mp4", 600.0), at("film-2.mp4", 600.0)], "1280x720 at nearly the same bit rate"),
            ([at("s-101.mp4", 600.0), at("s-102.mp4", 600.0)], "1280x720 at nearly the same bit rate"),
            (
                [at("one.mp4", 600.0), video("two.mp4", HD, 4_000_000, 600.0)],
                "both have avc1 video of 1280x720, and their names share no word",
            ),
            ([at("film-1.mp4", 600.0), video("film-2.mp4", HD, 4_000_000, 608.0)], "but last 600.0 s and"),
            (
                [at("show-1.mp4", 600.0), video("show-2.mp4", HD, 4_000_000, 600.0)],
                "1280x720, and their names are of two films",
            ),
            (
                [at("alien.mp4", 30.0), video("alien-trailer.mp4", HD, 4_000_000, 30.0)],
                "1280x720, and their names are of two films",
            ),
            (
                [at("s01e01-show.mp4", 600.0), video("s01e02-show.mp4", SD, 700_000, 605.0)],
                "last 600.0 s and 605.0 s, and their names are of two films",
            ),
            ([at("one.mp4", 10.0), video("two.mp4", SD, 700_000, 12.0)], "and their names share no word"),
            ([at("film.mp4", 600.0), audio("song.m4a", 200.0)], "last 600.0 s and 200.0 s"),
            ([audio("01.m4a", 180.0), audio("02.m4a", 190.0)], "last 180.0 s and 190.0 s"),
        ] {
            let found = contradiction(&files).unwrap_or_else(|| panic!("{files:?}"));
            assert!(found.contains(why), "{found}");
        }
    }
}
