//! Streams that ffmpeg packages, in every protocol and way of addressing it has, and manifests that
//! join several of them. Each stream is 12 s of AVC in GOPs of 2 s, and AAC.

use crate::recipe::{AAC, AVC, coded, ffmpeg, folder};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};
use xxhash_rust::xxh3::xxh3_64;

const INPUT: &str = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=12 -f lavfi -i sine=frequency=440:sample_rate=48000:duration=12";

/// Two renditions of the video, and the audio.
const LADDER: &str = "-map 0:v -map 0:v -map 1:a -b:v:0 300k -b:v:1 100k -s:v:1 160x90";

/// Returns a folder with the stream that ffmpeg makes with `args`. In `args`, `{}` is the folder
/// and `~` a space within an argument. The folder is made once and kept.
pub fn packaged(name: &str, args: &str) -> PathBuf {
    run(name, &format!("{INPUT} {AVC} {AAC} {args}"))
}

/// Returns a folder with a stream of the packets of an existing file; otherwise like [`packaged`].
pub fn repackaged(name: &str, source: &Path, args: &str) -> PathBuf {
    run(name, &format!("-i {} -c copy {args}", source.display()))
}

fn run(name: &str, args: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = folder().join(format!("load-{name}-{:016x}", xxh3_64(args.as_bytes())));
    if !path.exists() {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let part = folder().join(format!("part-{}-{count}", std::process::id()));
        fs::create_dir_all(&part).expect("target folder is writable");
        let fill = |arg: &str| arg.replace("{}", &part.to_string_lossy()).replace('~', " ");
        ffmpeg(args.split_whitespace().map(fill));
        // A concurrent process may have made the same folder in the meantime.
        if fs::rename(&part, &path).is_err() {
            fs::remove_dir_all(&part).expect("it was just made");
        }
    }
    path
}

/// Returns a DASH title with two video renditions and one of audio; `how` selects the addressing.
pub fn dash(name: &str, how: &str) -> PathBuf {
    let sets = "-adaptation_sets id=0,streams=v~id=1,streams=a";
    packaged(name, &format!("{LADDER} -f dash -seg_duration 2 {sets} {how} {{}}/index.mpd"))
}

/// Returns an HLS title with audio and video in the same segments.
pub fn hls(name: &str, how: &str) -> PathBuf {
    packaged(name, &format!("-f hls -hls_time 2 -hls_playlist_type vod {how} {{}}/index.m3u8"))
}

/// Returns an HLS title with the audio in a rendition group of its own.
pub fn hls_group(name: &str, how: &str) -> PathBuf {
    let map = "-master_pl_name index.m3u8 -var_stream_map v:0,agroup:a~v:1,agroup:a~a:0,agroup:a,default:yes";
    packaged(name, &format!("{LADDER} -f hls -hls_time 2 -hls_playlist_type vod {how} {map} {{}}/%v.m3u8"))
}

/// Returns a Smooth Streaming title. Its manifest omits the start of the first chunk.
pub fn smooth() -> PathBuf {
    packaged("smooth", &format!("{LADDER} -f smoothstreaming -min_frag_duration 2000000 {{}}"))
}

/// Returns an HDS title.
pub fn hds() -> PathBuf {
    packaged("hds", "-b:v 300k -f hds -min_frag_duration 2000000 {}")
}

/// An HLS title of packed audio (RFC 8216 §3.4): a playlist and two segments.
#[derive(Debug, Clone)]
pub struct PackedAudio {
    /// The MP4 whose second track is the same audio.
    pub source: PathBuf,
    /// The media playlist, which names `0.aac` and `1.aac`.
    pub playlist: &'static str,
    /// The segments. The second one begins where the 33-bit time stamps wrap around.
    pub segments: [Vec<u8>; 2],
}

/// Makes a title of packed AAC.
pub fn packed_audio() -> PackedAudio {
    let source = coded("capture-aac", &format!("{AVC} -c:a aac -b:a 64k -ac 2"));
    let folder = repackaged("copied-packed", &source, "-vn -f adts {}/all.aac");
    let frames = fs::read(folder.join("all.aac")).expect("ffmpeg made it");
    // The segments are cut after the hundredth frame.
    let size = |at: usize| {
        usize::from(frames[at + 3] & 3) << 11
            | usize::from(frames[at + 4]) << 3
            | usize::from(frames[at + 5] >> 5)
    };
    let cut = (0..100).fold(0, |at, _| at + size(at));
    let tagged = |ticks: u64, frames: &[u8]| {
        let owner = b"com.apple.streaming.transportStreamTimestamp\0";
        let private = [&b"PRIV"[..], &[0, 0, 0, 53, 0, 0], owner, &ticks.to_be_bytes()].concat();
        let length = u8::try_from(private.len()).expect("a short frame");
        [&b"ID3\x04\0\0\0\0\0"[..], &[length], &private, frames].concat()
    };
    let ticks = 100 * 1024 * 90_000 / 48_000;
    PackedAudio {
        source,
        playlist: "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:2.133333,\n0.aac\n#EXTINF:3.9,\n1.aac\n#EXT-X-ENDLIST\n",
        segments: [tagged((1 << 33) - ticks, &frames[..cut]), tagged(0, &frames[cut..])],
    }
}

/// Returns the period of ffmpeg's DASH manifest in `folder`, with other attributes and with
/// addresses below `prefix`.
pub fn dash_period(folder: &Path, prefix: &str, attributes: &str) -> String {
    let mpd = fs::read_to_string(folder.join("index.mpd")).expect("a manifest");
    let (_, period) = mpd.split_once("<Period").expect("a period");
    let (_, inside) = period.split_once('>').expect("its end");
    let (inside, _) = inside.split_once("</Period>").expect("its end tag");
    format!("<Period {attributes}><BaseURL>{prefix}/</BaseURL>{inside}</Period>")
}

/// Returns a DASH manifest of several periods, 24 s in all.
pub fn dash_of_periods(periods: &[String]) -> String {
    let attributes =
        r#"xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT24S""#;
    format!("<MPD {attributes}>{}</MPD>", periods.concat())
}

/// Returns the lines of ffmpeg's media playlist in `folder` that name segments and init segments,
/// with addresses below `prefix`.
pub fn hls_segment_lines(folder: &Path, prefix: &str) -> String {
    let text = fs::read_to_string(folder.join("index.m3u8")).expect("a playlist");
    let kept = text.lines().filter(|line| {
        line.starts_with("#EXTINF") || line.starts_with("#EXT-X-MAP") || !line.starts_with('#')
    });
    kept.map(|line| match line.split_once("URI=\"") {
        Some((before, file)) => format!("{before}URI=\"{prefix}/{file}\n"),
        None if line.starts_with('#') => format!("{line}\n"),
        None => format!("{prefix}/{line}\n"),
    })
    .collect()
}

/// Returns a media playlist of several groups of segment lines, with `between` between two of them.
pub fn hls_of_segment_lines(groups: &[String], between: &str) -> String {
    format!("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:2\n{}#EXT-X-ENDLIST\n", groups.join(between))
}
