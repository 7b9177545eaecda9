//! Files to package, and what ffprobe says of what came out.

use bytes::Bytes;
use latemux_testmedia::{
    probe::{self, Packet, Probe, Stream},
    recipe::{folder, make},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use xxhash_rust::xxh3::xxh3_128;

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

/// What is served, and what is in it.
pub(crate) struct Source {
    /// What is served.
    pub(crate) objects: Vec<Bytes>,
    /// What ffprobe says of the same media, in files of which it is known to read everything right.
    pub(crate) files: Vec<(Bytes, Vec<Stream>)>,
}

impl Source {
    /// Files that are served as they are.
    pub(crate) fn files(files: &[impl AsRef<Path>]) -> Self {
        let read = |file: &Path| (Bytes::from(fs::read(file).unwrap()), probe::probe(file, &[]).streams);
        let files: Vec<_> = files.iter().map(|file| read(file.as_ref())).collect();
        Self { objects: files.iter().map(|(bytes, _)| bytes.clone()).collect(), files }
    }

    /// The same media, stored as other bytes.
    pub(crate) fn stored_as(&self, bytes: Vec<u8>) -> Self {
        Self { objects: vec![bytes.into()], files: self.files.clone() }
    }

    /// All streams, each with the file it is in and its number there.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&Bytes, usize, &Stream)> {
        self.files.iter().flat_map(|(file, streams)| {
            streams.iter().enumerate().map(move |(number, stream)| (file, number, stream))
        })
    }
}

/// Writes bytes for a tool to read; whoever asks removes them.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder().join(format!("packed-{}-{name}", std::process::id()));
    fs::write(&file, bytes).unwrap();
    file
}

/// What was found out about some bytes in this process. The same bytes are asked about once: where one title is stored in many ways, most
/// come out the same.
type Known<T> = Mutex<BTreeMap<(u128, usize), Arc<T>>>;

fn once<T>(known: &Known<T>, name: &str, bytes: &[u8], stream: usize, ask: impl Fn(&Path) -> T) -> Arc<T> {
    let key = (xxh3_128(bytes), stream);
    if let Some(answer) = known.lock().unwrap().get(&key) {
        return answer.clone();
    }
    let file = write(name, bytes);
    let answer = Arc::new(ask(&file));
    fs::remove_file(file).unwrap();
    known.lock().unwrap().insert(key, answer.clone());
    answer
}

/// What ffprobe says of bytes in a file called so.
pub(crate) fn probed(name: &str, bytes: &[u8]) -> Arc<Probe> {
    static KNOWN: Known<Probe> = Mutex::new(BTreeMap::new());
    once(&KNOWN, name, bytes, 0, |file| probe::probe(file, &[]))
}

/// The bytes of each packet of a stream, in order.
pub(crate) fn packet_data(name: &str, bytes: &[u8], stream: usize, packets: &[Packet]) -> Arc<Vec<Vec<u8>>> {
    static KNOWN: Known<Vec<Vec<u8>>> = Mutex::new(BTreeMap::new());
    once(&KNOWN, name, bytes, stream, |file| probe::data(file, stream, packets))
}

/// The streams of bytes we made, of which ffprobe must have nothing to say.
#[track_caller]
pub(crate) fn probe_ours(what: &str, bytes: &[u8]) -> Vec<Stream> {
    let probe = probed(&format!("{what}.mp4"), bytes);
    assert_eq!(probe.warnings, "", "{what}");
    probe.streams.clone()
}

/// Two streams hold the same packets; says which differ first, and how many of the source's are hidden.
///
/// Packets of the source that end before presentation begins may be missing: an edit list hides them, and no decoder needs
/// all of them. Durations are not compared: of fragments, ffprobe guesses them from decode times and the codec. Those are read by
/// another's parser, [`crate::oracles::durations`].
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
