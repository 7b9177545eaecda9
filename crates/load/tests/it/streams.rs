//! Streams that ffmpeg makes, in every protocol and way of addressing it has: 12 s of AVC in GOPs of 2 s, and AAC.

use latemux_testmedia::recipe::{AAC, AVC, folder};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};
use xxhash_rust::xxh3::xxh3_64;

const INPUT: &str = "-f lavfi -i testsrc2=size=320x180:rate=25:duration=12 -f lavfi -i sine=frequency=440:sample_rate=48000:duration=12";

/// A folder with the stream `args` make, made once. `{}` is the folder, `~` a space within an argument.
pub(crate) fn stream(name: &str, args: &str) -> PathBuf {
    made(name, &format!("{INPUT} {AVC} {AAC} {args}"))
}

/// A folder with a stream of the very packets of a file.
pub(crate) fn copied(name: &str, source: &Path, args: &str) -> PathBuf {
    made(name, &format!("-i {} -c copy {args}", source.display()))
}

fn made(name: &str, args: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let path = folder().join(format!("load-{name}-{:016x}", xxh3_64(args.as_bytes())));
    if !path.exists() {
        let part =
            folder().join(format!("part-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir_all(&part).unwrap();
        let fill = |arg: &str| arg.replace("{}", part.to_str().unwrap()).replace('~', " ");
        let out = Command::new("ffmpeg")
            .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-threads", "1"])
            .args(args.split_whitespace().map(fill))
            .stdin(Stdio::null())
            .output()
            .expect("ffmpeg is installed (make tools)");
        assert!(out.status.success(), "ffmpeg {args}: {}", String::from_utf8_lossy(&out.stderr));
        // Whoever was first has made the same.
        if fs::rename(&part, &path).is_err() {
            fs::remove_dir_all(&part).unwrap();
        }
    }
    path
}

/// Two renditions of the video, and the audio.
const LADDER: &str = "-map 0:v -map 0:v -map 1:a -b:v:0 300k -b:v:1 100k -s:v:1 160x90";

pub(crate) fn dash(name: &str, how: &str) -> PathBuf {
    let sets = "-adaptation_sets id=0,streams=v~id=1,streams=a";
    stream(name, &format!("{LADDER} -f dash -seg_duration 2 {sets} {how} {{}}/index.mpd"))
}

/// Sound and picture in the same segments.
pub(crate) fn hls(name: &str, how: &str) -> PathBuf {
    stream(name, &format!("-f hls -hls_time 2 -hls_playlist_type vod {how} {{}}/index.m3u8"))
}

/// The sound in a group of its own.
pub(crate) fn hls_group(name: &str, how: &str) -> PathBuf {
    let map = "-master_pl_name index.m3u8 -var_stream_map v:0,agroup:a~v:1,agroup:a~a:0,agroup:a,default:yes";
    stream(name, &format!("{LADDER} -f hls -hls_time 2 -hls_playlist_type vod {how} {map} {{}}/%v.m3u8"))
}

pub(crate) fn smooth() -> PathBuf {
    stream("smooth", &format!("{LADDER} -f smoothstreaming -min_frag_duration 2000000 {{}}"))
}

pub(crate) fn hds() -> PathBuf {
    stream("hds", "-b:v 300k -f hds -min_frag_duration 2000000 {}")
}
