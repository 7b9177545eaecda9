//! Files made with ffmpeg's test sources.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};
use xxhash_rust::xxh3::xxh3_64;

/// Returns the folder of made files. It lies below the target folder, so `cargo clean` removes it.
pub fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let folder = target.join("testmedia");
    fs::create_dir_all(&folder).expect("target folder is writable");
    folder.canonicalize().expect("it was just made")
}

/// Runs ffmpeg with `args`, split at white space, and adds the output file. The file is made once
/// and kept under a name that depends on the arguments. Concurrent callers each make their own, and
/// the first one wins: a file that a test has read is never replaced.
pub fn make(name: &str, extension: &str, args: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let folder = folder();
    let path = folder.join(format!("{name}-{:016x}.{extension}", xxh3_64(args.as_bytes())));
    if !path.exists() {
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let part = folder.join(format!("part-{}-{n}.{extension}", std::process::id()));
        let exact = "-fflags +bitexact -flags:v +bitexact -flags:a +bitexact".split(' ').map(str::to_owned);
        let args = args.split_whitespace().map(str::to_owned).chain(exact);
        ffmpeg(args.chain([part.to_string_lossy().into_owned()]));
        let linked = fs::hard_link(&part, &path);
        assert!(linked.is_ok() || path.exists(), "{}: {linked:?}", path.display());
        fs::remove_file(&part).expect("it was just made");
    }
    path
}

/// Runs ffmpeg, which must succeed.
pub(crate) fn ffmpeg(args: impl Iterator<Item = String>) {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-threads", "1"]).args(args);
    let out = command.stdin(Stdio::null()).output().expect("ffmpeg is installed (make tools)");
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Returns the inputs of one video and one audio source of `seconds`.
fn inputs(seconds: u32, size: &str, rate: &str) -> String {
    format!(
        "-f lavfi -i testsrc2=size={size}:rate={rate}:duration={seconds} \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration={seconds} "
    )
}

/// AVC options: 2 s closed GOPs at 25 fps, B-frames with pyramid.
pub const AVC: &str = "-c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g 50 -keyint_min 50 \
    -sc_threshold 0 -pix_fmt yuv420p -crf 30";

/// AAC-LC options.
pub const AAC: &str = "-c:a aac -b:a 96k -ac 2";

/// Makes AVC with B-frames and AAC, interleaved, 12 s, with extra muxer options such as `-movflags
/// +faststart`.
pub fn avc_aac(name: &str, muxer: &str) -> PathBuf {
    make(name, "mp4", &format!("{} {AVC} {AAC} {muxer}", inputs(12, "320x180", "25")))
}

/// Makes AVC alone, 12 s, in the given size; GOPs as in [`avc_aac`].
pub fn avc(name: &str, size: &str, muxer: &str) -> PathBuf {
    make(name, "mp4", &format!("-f lavfi -i testsrc2=size={size}:rate=25:duration=12 {AVC} {muxer}"))
}

/// Makes AAC alone, 12 s, in the given language.
pub fn aac(name: &str, language: &str, muxer: &str) -> PathBuf {
    let source = "-f lavfi -i sine=frequency=330:sample_rate=48000:duration=12";
    make(name, "mp4", &format!("{source} {AAC} -metadata:s:a:0 language={language} {muxer}"))
}

/// Makes 6 s of video and audio with any encoder options.
pub fn coded(name: &str, codecs: &str) -> PathBuf {
    make(name, "mp4", &format!("{} {codecs} -strict -2", inputs(6, "192x108", "25")))
}
