//! Thumbnails: every sheet against the packets that ffprobe finds, and the manifests that list
//! them.

use crate::media::probe_without_warnings;
use bytes::Bytes;
use dash_mpd_core::{AdaptationSet, MPD, check_conformity};
use latemux_index::{MediaIndex, title::Title};
use latemux_packager::{Address, PackError, Resource, address::HlsContainer};
use latemux_testmedia::{
    origin::{NAME, Origin, Response},
    probe::{Stream, probe},
    recipe::make,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const TARGET: Duration = Duration::from_secs(2);
const SCHEME: &str = "http://dashif.org/guidelines/thumbnail_tile";

/// Makes video of 45 s, the time of which is in its pictures.
fn film() -> PathBuf {
    make(
        "thumbs-film",
        "mp4",
        "-f lavfi -i testsrc2=size=320x180:rate=10:duration=45 -f lavfi -i sine=sample_rate=48000:duration=45 \
         -c:v libx264 -preset ultrafast -g 20 -keyint_min 20 -sc_threshold 0 -pix_fmt yuv420p -c:a aac -b:a 64k",
    )
}

/// Makes four sheets of 3x2 pictures, one for every 2 s, of which the last sheet is not full.
fn sheets(extension: &str) -> PathBuf {
    make(
        "thumbs-sheets",
        extension,
        "-f lavfi -i testsrc2=size=320x180:rate=10:duration=45 -vf fps=1/2,scale=160:-2,tile=3x2 \
         -c:v mjpeg -q:v 5",
    )
}

fn packets(file: &Path) -> Stream {
    probe(file, &[]).first("video").clone()
}

fn open(tiles: Option<&str>, extension: &str) -> Origin {
    open_objects(
        tiles,
        [film(), sheets(extension)].map(|file| Bytes::from(std::fs::read(file).unwrap())).into(),
    )
}

fn open_objects(tiles: Option<&str>, objects: Vec<Bytes>) -> Origin {
    let mut origin = Origin::of(objects, TARGET).unwrap();
    if let Some(tiles) = tiles {
        let index = |index: &Arc<MediaIndex>| Arc::new(MediaIndex::clone(index).with_tiles(tiles));
        origin.title = Title::new(origin.title.objects().iter().map(index).collect(), TARGET).unwrap();
    }
    origin
}

fn mpd_of(origin: &mut Origin, query: &str) -> (String, MPD) {
    let text = text(origin, &format!(".mpd{query}"));
    let mpd = dash_mpd_core::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(check_conformity(&mpd), Vec::<String>::new(), "{text}");
    (text, mpd)
}

fn image_set(mpd: &MPD) -> Option<&AdaptationSet> {
    mpd.periods[0].adaptations.iter().find(|set| set.contentType.as_deref() == Some("image"))
}

/// Fetches a URL relative to the title.
fn get(origin: &mut Origin, url: &str) -> Result<Response, PackError> {
    let (path, query) = url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query)));
    let address = Address::parse(&format!("/{NAME}/{path}"), query).unwrap();
    assert_eq!(address.base, NAME);
    origin.get_address(&address)
}

fn text(origin: &mut Origin, url: &str) -> String {
    String::from_utf8(get(origin, url).unwrap().bytes).unwrap()
}

#[test]
fn a_sheet_is_a_packet_of_the_source() {
    for (extension, tiles) in [("mp4", None), ("mp4", Some("3x2")), ("mov", Some("3x2"))] {
        let file = sheets(extension);
        let source = packets(&file);
        let bytes = std::fs::read(&file).unwrap();
        let mut origin = open(tiles, extension);
        assert_eq!(origin.title.problems(), []);
        let (text, mpd) = mpd_of(&mut origin, "");
        let set = image_set(&mpd).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(set.mimeType.as_deref(), Some("image/jpeg"));
        let representation = &set.representations[0];
        assert_eq!((representation.width, representation.height), (Some(480), Some(180)), "that of a sheet");
        let property = &representation.essential_property[0];
        assert_eq!(
            (property.schemeIdUri.as_str(), property.value.as_deref()),
            (SCHEME, tiles.or(Some("1x1")))
        );
        let template = set.SegmentTemplate.as_ref().unwrap();
        assert_eq!(template.timescale, Some(u64::from(source.timescale)));
        let starts: Vec<u64> = source.packets.iter().map(|packet| packet.pts.unsigned_abs()).collect();
        let mut listed = Vec::new();
        let mut at = 0;
        for s in &template.SegmentTimeline.as_ref().unwrap().segments {
            at = s.t.unwrap_or(at);
            for _ in 0..=s.r.unwrap_or(0) {
                listed.push(at);
                at += s.d;
            }
        }
        assert_eq!(listed, starts);
        assert_eq!(at / u64::from(source.timescale), 48, "the last sheet lasts as long as the others");
        let media = template.media.as_ref().unwrap();
        let media = media.replace("$RepresentationID$", representation.id.as_ref().unwrap());
        let mut digests = Vec::new();
        let mut bits = 0;
        for (number, packet) in (1..).zip(&source.packets) {
            let response = get(&mut origin, &media.replace("$Number$", &format!("{number}"))).unwrap();
            let pos = usize::try_from(packet.pos.unwrap()).unwrap();
            let size = usize::try_from(packet.size).unwrap();
            assert_eq!(response.bytes, bytes[pos..pos + size], "sheet {number}");
            assert_eq!(response.content_type, "image/jpeg");
            digests.push(response.digest);
            bits = bits.max(packet.size * 8);
        }
        assert_eq!(representation.bandwidth, Some(bits.div_ceil(12)));
        digests.dedup();
        assert_eq!(digests.len(), source.packets.len());
        assert!(get(&mut origin, &media.replace("$Number$", "5")).is_err());
    }
}

#[test]
fn thumbnails_change_nothing_else() {
    let mut with = open(Some("3x2"), "mp4");
    let mut without = Origin::open(&[film()], TARGET);
    assert_eq!(with.title.grid(), without.title.grid());
    let (text, mpd) = mpd_of(&mut with, "");
    let (plain, plain_mpd) = mpd_of(&mut without, "");
    // Except for the longest segment, all that comes before the set is as without it.
    let longest = |text: &str| {
        let (before, after) = text.split_once("maxSegmentDuration=").unwrap();
        before.to_owned() + after.split_once(' ').unwrap().1
    };
    let before = |text: &str, end: &str| longest(&text[..text.rfind(end).unwrap()]).trim_end().to_owned();
    assert_eq!(before(&text, "<AdaptationSet"), before(&plain, "</Period>"));
    assert_eq!(mpd.periods[0].adaptations.len(), plain_mpd.periods[0].adaptations.len() + 1);
    for resource in [Resource::SmoothManifest, Resource::HdsManifest] {
        assert_eq!(with.text(&resource), without.text(&resource));
    }
    // The tag in HLS is the only line that is added.
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let mut listed = lines(with.text(&Resource::HlsMultivariant(HlsContainer::Auto)));
    listed.retain(|line| !line.starts_with("#EXT-X-IMAGE-STREAM-INF"));
    assert_eq!(listed, lines(without.text(&Resource::HlsMultivariant(HlsContainer::Auto))));
}

#[test]
fn hls_lists_sheets_and_the_time_of_a_tile() {
    let mut origin = open(Some("3x2"), "mp4");
    let master = text(&mut origin, ".m3u8");
    let tag = master.lines().find(|line| line.starts_with("#EXT-X-IMAGE-STREAM-INF:")).unwrap();
    assert!(tag.contains(",RESOLUTION=160x90,CODECS=\"jpeg\",URI=\""), "{tag}");
    let uri = tag.split("URI=\"").nth(1).unwrap().trim_end_matches('"');
    let playlist = text(&mut origin, uri);
    let lines: Vec<&str> = playlist.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "#EXTM3U",
            "#EXT-X-VERSION:7",
            "#EXT-X-TARGETDURATION:12",
            "#EXT-X-PLAYLIST-TYPE:VOD",
            "#EXT-X-IMAGES-ONLY"
        ]
    );
    let lengths: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("#EXTINF:")).collect();
    assert_eq!(lengths, ["12.000000,", "12.000000,", "12.000000,", "9.000000,"]);
    let tiles = lines.iter().filter(|line| **line == "#EXT-X-TILES:RESOLUTION=160x90,LAYOUT=3x2,DURATION=2");
    assert_eq!(tiles.count(), 4);
    assert_eq!(lines.last(), Some(&"#EXT-X-ENDLIST"));
    let urls: Vec<&&str> = lines.iter().filter(|line| line.ends_with(".jpg")).collect();
    assert_eq!(urls.len(), 4);
    for url in urls {
        assert_eq!(get(&mut origin, &format!("images/{url}")).unwrap().bytes[..2], [0xFF, 0xD8]);
    }
}

#[test]
fn single_pictures_are_iframes_of_hls() {
    let source = packets(&sheets("mp4"));
    let mut origin = open(None, "mp4");
    // The times of TS are others.
    assert!(!text(&mut origin, ".m3u8").contains("mjpg"));
    let master = text(&mut origin, ".m3u8?hls_fmp4");
    let tag = master.lines().find(|line| line.contains("CODECS=\"mjpg\"")).unwrap();
    assert!(tag.starts_with("#EXT-X-I-FRAME-STREAM-INF:") && tag.contains("RESOLUTION=480x180"), "{tag}");
    let uri = tag.split("URI=\"").nth(1).unwrap().trim_end_matches('"');
    let playlist = text(&mut origin, uri);
    assert!(playlist.contains("#EXT-X-I-FRAMES-ONLY"));
    let map = playlist.lines().find_map(|line| line.strip_prefix("#EXT-X-MAP:URI=\"")).unwrap();
    let at = |url: &str| {
        url.trim_end_matches('"').strip_prefix("../").map_or(format!("keyframes/{url}"), str::to_owned)
    };
    let init = get(&mut origin, &at(map)).unwrap().bytes;
    assert!(init.windows(4).any(|four| four == b"mjpg") && !init.windows(4).any(|four| four == b"mp4v"));
    let urls: Vec<String> = playlist.lines().filter(|line| line.ends_with(".m4s")).map(at).collect();
    assert_eq!(urls.len(), source.packets.len());
    for (url, packet) in urls.iter().zip(&source.packets) {
        let frame = get(&mut origin, url).unwrap().bytes;
        let streams = probe_without_warnings("mjpg", &[&init[..], &frame].concat());
        let [shown] = &streams[0].packets[..] else { panic!("one packet in {url}") };
        assert_eq!((&shown.hash, shown.key), (&packet.hash, true));
        assert_eq!(shown.pts * i64::from(source.timescale), packet.pts * i64::from(streams[0].timescale));
    }
    assert!(get(&mut origin, &urls[0].replace("-1.m4s", "-1-2.m4s")).is_err());
    assert!(get(&mut origin, &urls[0].replace("-1.m4s", "-5.m4s")).is_err());
    // A sheet of tiles is no picture of the film.
    let mut tiled = open(Some("3x2"), "mp4");
    assert!(!text(&mut tiled, ".m3u8?hls_fmp4").contains("mjpg"));
    assert!(
        get(&mut tiled, uri).is_err()
            && get(&mut tiled, &at(map)).is_err()
            && get(&mut tiled, &urls[0]).is_err()
    );
}

/// Returns start and end in milliseconds of each cue, with its URL.
fn cues(storyboard: &str) -> Vec<(u32, u32, String)> {
    let mut lines = storyboard.lines();
    assert_eq!((lines.next(), lines.next()), (Some("WEBVTT"), Some("")));
    let time = |text: &str| {
        let parts: Vec<u32> = text.split([':', '.']).map(|part| part.parse().unwrap()).collect();
        ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1000 + parts[3]
    };
    let mut cues = Vec::new();
    while let (Some(times), Some(url)) = (lines.next(), lines.next()) {
        let (start, end) = times.split_once(" --> ").unwrap();
        cues.push((time(start), time(end), url.to_owned()));
        assert!(lines.next().unwrap_or_default().is_empty());
    }
    cues
}

#[test]
fn a_storyboard_has_a_cue_for_each_tile_of_the_film() {
    let mut origin = open(Some("3x2"), "mp4");
    let cues_of_film = cues(&text(&mut origin, "x-thumbs.vtt"));
    assert_eq!(cues_of_film.len(), 23);
    for (n, (start, end, url)) in (0..).zip(&cues_of_film) {
        let x = n % 3 * 160;
        let y = n / 3 % 2 * 90;
        assert_eq!((*start, *end), (n * 2000, (n * 2000 + 2000).min(45000)));
        assert!(url.starts_with("images/x-thumbs="), "{url}");
        assert!(url.ends_with(&format!("-{}.jpg#xywh={x},{y},160,90", n / 6 + 1)), "{url}");
    }
    let mut clip = cues(&text(&mut origin, "x-thumbs.vtt?vbegin=10&vend=20"));
    assert_eq!(clip.len(), 5);
    clip.iter_mut().for_each(|(start, end, _)| (*start, *end) = (*start + 10_000, *end + 10_000));
    assert_eq!(clip, cues_of_film[5..10], "the same tiles, at times of the clip");
}

#[test]
fn clips_list_the_sheets_that_they_show() {
    let mut origin = open(Some("3x2"), "mp4");
    let (mpd_text, mpd) = mpd_of(&mut origin, "?vbegin=14&vend=26");
    let template = image_set(&mpd).unwrap().SegmentTemplate.as_ref().unwrap();
    let offset = template.presentationTimeOffset.unwrap();
    assert_eq!((template.startNumber, offset), (Some(2), 14 * 16384), "{mpd_text}");
    let timeline = &template.SegmentTimeline.as_ref().unwrap().segments;
    assert_eq!((timeline[0].t, timeline[0].d, timeline[0].r), (Some(12 * 16384), 12 * 16384, Some(1)));
    // The tags of HLS cannot state that a clip begins inside a sheet.
    assert!(!self::text(&mut origin, ".m3u8?vbegin=14&vend=26").contains("IMAGE"));
    assert!(self::text(&mut origin, ".m3u8?vend=26").contains("EXT-X-IMAGE-STREAM-INF"));
    // Sound alone has no thumbnails.
    let (_, mpd) = mpd_of(&mut origin, "?filter=type==%22audio%22");
    assert!(image_set(&mpd).is_none());
}

#[test]
fn sheets_that_cannot_be_shown_are_a_problem_of_a_title_that_plays() {
    let mut no_jpeg = std::fs::read(sheets("mp4")).unwrap();
    let first = usize::try_from(packets(&sheets("mp4")).packets[0].pos.unwrap()).unwrap();
    assert_eq!(no_jpeg[first..first + 2], [0xFF, 0xD8]);
    no_jpeg[first] = 0;
    let film = || Bytes::from(std::fs::read(film()).unwrap());
    let good = || Bytes::from(std::fs::read(sheets("mp4")).unwrap());
    for (tiles, sheets, what) in [
        (Some("0x5"), good(), "no grid of tiles is called \"0x5\""),
        (Some("3"), good(), "no grid of tiles is called \"3\""),
        (Some("7x2"), good(), "a sheet of 480x180 pixels cannot be divided into 7x2 tiles"),
        (None, no_jpeg.into(), "the first one is no JPEG picture"),
    ] {
        let mut origin = open_objects(tiles, vec![film(), sheets]);
        let problems = origin.title.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].reason, "bad_thumbnails");
        assert!(problems[0].detail.contains(what), "{}", problems[0].detail);
        let (_, mpd) = mpd_of(&mut origin, "");
        assert!(image_set(&mpd).is_none());
        assert!(matches!(origin.get(&Resource::Storyboard), Err(PackError::NoSuchTrack(_))));
    }
}

#[test]
fn a_title_without_thumbnails_has_no_storyboard() {
    let mut origin = Origin::open(&[film()], TARGET);
    assert!(matches!(origin.get(&Resource::Storyboard), Err(PackError::NoSuchTrack(_))));
    let address = Address::parse("/x/images/x-thumbs=20000-1.jpg", None).unwrap();
    assert!(matches!(origin.get_address(&address), Err(PackError::NoSuchTrack(_))));
}

#[test]
fn motion_jpeg_is_no_thumbnails() {
    let video = make(
        "thumbs-motion",
        "mov",
        "-f lavfi -i testsrc2=size=160x90:rate=10:duration=3 -f lavfi -i sine=sample_rate=48000:duration=3 \
         -c:v mjpeg -c:a aac",
    );
    let origin = Origin::open(&[video], TARGET);
    assert_eq!(origin.title.thumbnails(), []);
    assert_eq!(origin.title.problems()[0].reason, "unsupported_codec");
}

#[test]
fn pictures_in_fragments_are_left_out_of_a_title_that_plays() {
    let sheets = "-f lavfi -i testsrc2=size=320x180:rate=10:duration=45 -vf fps=1/2,scale=160:-2,tile=3x2 \
                  -c:v mjpeg -q:v 5 -movflags frag_keyframe+empty_moov+default_base_moof";
    let origin = Origin::open(&[film(), make("thumbs-fragmented", "mp4", sheets)], TARGET);
    assert_eq!(origin.title.thumbnails(), []);
    let reasons: Vec<_> = origin.title.problems().iter().map(|problem| problem.reason).collect();
    assert_eq!(reasons, ["unsupported_codec"]);
    assert_eq!(origin.title.tracks().len(), 2);
}
