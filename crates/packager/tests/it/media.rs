//! Files to package, and what ffprobe says of what came out.

use latemux_testmedia::{
    probe::{self, Packet, Stream},
    recipe::{folder, make},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

const X264: &str = "-c:v libx264 -preset veryfast -g 25 -keyint_min 25 -sc_threshold 0 -pix_fmt yuv420p";

/// AVC with B-frames and AAC: 9 s, key frames every second, audio a little longer.
pub(crate) fn avc_aac() -> PathBuf {
    make(
        "pack-avc-aac",
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=25:duration=9 \
             -f lavfi -i sine=frequency=440:sample_rate=48000:duration=9.1 {X264} -bf 3 -c:a aac -b:a 64k"
        ),
    )
}

/// HEVC with B-frames, 30000/1001 frames per second, moov first.
pub(crate) fn hevc() -> PathBuf {
    x265("pack-hevc", "open-gop=0")
}

/// The same with open GOPs: pictures are presented before the key frame they are decoded after.
pub(crate) fn hevc_open() -> PathBuf {
    x265("pack-hevc-open", "open-gop=1")
}

fn x265(name: &str, option: &str) -> PathBuf {
    make(
        name,
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=30000/1001:duration=7 -c:v libx265 -preset ultrafast \
             -x265-params keyint=30:min-keyint=30:scenecut=0:bframes=2:{option}:log-level=error:pools=none -tag:v hvc1 \
             -movflags +faststart"
        ),
    )
}

/// AVC and AAC in the same fragments, with neither `sidx` nor `mfra`.
pub(crate) fn fragmented() -> PathBuf {
    in_fragments("pack-fragmented", 48000, "frag_keyframe+empty_moov+default_base_moof+skip_trailer")
}

/// AVC and AAC in fragments of their own, with an `mfra` at the end; offsets from the start of the file.
pub(crate) fn with_mfra() -> PathBuf {
    in_fragments("pack-mfra", 44100, "frag_keyframe+empty_moov+separate_moof")
}

/// AVC and AAC in the same fragments, each with its `sidx`; composition offsets below 0, audio whose `sidx` counts from before 0.
pub(crate) fn signed() -> PathBuf {
    let flags = "frag_keyframe+empty_moov+default_base_moof+negative_cts_offsets+global_sidx";
    in_fragments("pack-signed", 48000, flags)
}

fn in_fragments(name: &str, rate: u32, flags: &str) -> PathBuf {
    make(
        name,
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=25:duration=9 \
             -f lavfi -i sine=frequency=440:sample_rate={rate}:duration=9 {X264} -bf 2 -c:a aac -b:a 64k -movflags {flags}"
        ),
    )
}

/// One track in fragments with a `sidx`.
pub(crate) fn with_sidx() -> PathBuf {
    make(
        "pack-sidx",
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=25:duration=9 {X264} -bf 2 \
             -movflags frag_keyframe+empty_moov+default_base_moof+global_sidx+skip_trailer"
        ),
    )
}

/// Five hours of slides, 100 s each: past 2^24 ms.
pub(crate) fn five_hours() -> PathBuf {
    make(
        "pack-five-hours",
        "mp4",
        "-f lavfi -i testsrc2=size=96x64:rate=1/100:duration=18000 -c:v libx264 -preset veryfast -g 2 -bf 0 \
         -sc_threshold 0 -pix_fmt yuv420p",
    )
}

/// Three renditions of one video, of different sizes and rates, and two languages in a file of their own.
pub(crate) fn ladder() -> Vec<PathBuf> {
    let rendition = |height: u32, kbits: u32| {
        let width = height * 16 / 9;
        make(
            "pack-ladder",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size={width}x{height}:rate=25:duration=9 {X264} -bf 2 -b:v {kbits}k"
            ),
        )
    };
    let audio = make(
        "pack-ladder-audio",
        "mp4",
        "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=9 \
         -f lavfi -i sine=frequency=880:sample_rate=48000:duration=9 -map 0 -map 1 -c:a aac -b:a 64k \
         -metadata:s:a:0 language=eng -metadata:s:a:1 language=fra",
    );
    vec![rendition(180, 150), rendition(288, 300), rendition(360, 600), audio]
}

/// Shared media made by others, where it is at hand: `LATEMUX_MEDIA`, or the folder beside the repository.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/media");
    let folder = std::env::var_os("LATEMUX_MEDIA").map_or_else(beside, PathBuf::from);
    Some(folder.join(name)).filter(|file| file.exists())
}

/// Writes bytes for a tool to read; whoever asks removes them.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder().join(format!("packed-{}-{name}", std::process::id()));
    fs::write(&file, bytes).unwrap();
    file
}

/// The streams of bytes we made, of which ffprobe must have nothing to say.
#[track_caller]
pub(crate) fn probe_ours(what: &str, bytes: &[u8]) -> Vec<Stream> {
    let file = folder().join(format!("packed-{}-{what}.mp4", std::process::id()));
    fs::write(&file, bytes).unwrap();
    let probe = probe::probe(&file, &[]);
    assert_eq!(probe.warnings, "", "{what}");
    fs::remove_file(file).unwrap();
    probe.streams
}

/// Two streams hold the same packets; says which differ first, and how many of the source's are hidden.
///
/// Packets of the source that end before presentation begins may be missing: an edit list hides them, and no decoder needs
/// all of them. Durations are not compared: of fragments, ffprobe guesses them from decode times and the codec.
#[track_caller]
pub(crate) fn assert_same_packets(what: &str, got: &Stream, want: &Stream) -> usize {
    assert_eq!((&got.kind, &got.codec, got.timescale), (&want.kind, &want.codec, want.timescale), "{what}");
    let first = got.packets.first().unwrap_or_else(|| panic!("{what}: no packets")).dts;
    let hidden = want.packets.iter().take_while(|p| p.dts < first && p.pts + p.duration <= 0).count();
    for (n, (got, want)) in got.packets.iter().zip(&want.packets[hidden..]).enumerate() {
        let got = Packet { pos: want.pos, duration: want.duration, ..got.clone() };
        assert_eq!(&got, want, "{what}: packet {n}");
    }
    assert_eq!(got.packets.len(), want.packets.len() - hidden, "{what}: number of packets");
    hidden
}
