//! Files to package, and the results of ffprobe for the packaged files.

use bytes::Bytes;
use latemux_testmedia::{
    fragmented::delayed,
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

/// Makes AVC with B-frames and AAC: 9 s, key frames every second, audio a little longer.
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

/// Makes HEVC with B-frames, 30000/1001 frames per second, moov first.
pub(crate) fn hevc() -> PathBuf {
    x265("pack-hevc", "open-gop=0")
}

/// Makes the same with open GOPs: frames are presented before the key frame that precedes them in
/// decode order.
pub(crate) fn hevc_open() -> PathBuf {
    x265("pack-hevc-open", "open-gop=1")
}

fn x265(name: &str, option: &str) -> PathBuf {
    make(
        name,
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=320x180:rate=30000/1001:duration=7 -c:v libx265 -preset ultrafast \
             -x265-params keyint=30:min-keyint=30:scenecut=0:bframes=2:{option}:log-level=error:\
             pools=none -tag:v hvc1 -movflags +faststart"
        ),
    )
}

/// Makes AVC and AAC in common fragments, with neither `sidx` nor `mfra`.
pub(crate) fn fragmented() -> PathBuf {
    in_fragments("pack-fragmented", 48000, "frag_keyframe+empty_moov+default_base_moof+skip_trailer")
}

/// Makes [`fragmented`] with decode times that count from the epoch: beyond 2^32 ms.
pub(crate) fn recorded() -> Bytes {
    delayed(&fs::read(fragmented()).unwrap(), 1_700_000_000).into()
}

/// Makes AVC and AAC in separate fragments, with an `mfra` at the end and offsets from the start of
/// the file.
pub(crate) fn with_mfra() -> PathBuf {
    in_fragments("pack-mfra", 44100, "frag_keyframe+empty_moov+separate_moof")
}

/// Makes AVC and AAC in common fragments, with a `sidx` for each. Composition offsets are negative,
/// and the audio's `sidx` starts before 0.
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
             -f lavfi -i sine=frequency=440:sample_rate={rate}:duration=9 {X264} -bf 2 -c:a aac \
             -b:a 64k -movflags {flags}"
        ),
    )
}

/// Makes AVC whose frame rate rises, falls, or does both in turn, each with a name.
pub(crate) fn changing_rates() -> [(&'static str, PathBuf); 3] {
    [
        ("rising", "lt(t,4)*not(mod(n,6))+gte(t,4)"),
        ("falling", "gte(t,4)*not(mod(n,6))+lt(t,4)"),
        ("waves", "lt(mod(t,2),1)*not(mod(n,7))+gte(mod(t,2),1)"),
    ]
    .map(|(name, select)| {
        let arguments = format!(
            "-f lavfi -i testsrc2=size=192x108:rate=60:duration=9 -vf select='{select}' -vsync vfr \
             -c:v libx264 -preset veryfast -bf 3 -force_key_frames expr:gte(t,n_forced*1) \
             -sc_threshold 0 -pix_fmt yuv420p"
        );
        (name, make(&format!("rate-{name}"), "mp4", &arguments))
    })
}

/// Makes AVC with open GOPs, and AAC.
pub(crate) fn avc_open() -> PathBuf {
    make(
        "pack-avc-open",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=8 \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration=8 -c:v libx264 -preset veryfast \
         -x264-params open-gop=1:keyint=25:min-keyint=25:scenecut=0:bframes=2 -pix_fmt yuv420p \
         -c:a aac -b:a 64k",
    )
}

/// Makes AVC of which only the first frame is presented after it is decoded, by this many ticks.
pub(crate) fn lone_offset(ticks: u32) -> PathBuf {
    let plain = make(
        "pack-no-b-frames",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 -c:v libx264 -preset veryfast -bf 0 -g 50 \
         -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p",
    );
    let shift = format!("-c copy -bsf:v setts=pts='if(eq(N,0),PTS+{ticks},PTS)'");
    make("pack-lone-offset", "mp4", &format!("-i {} {shift}", plain.display()))
}

/// Makes HEVC that starts with an open GOP, and so with leading pictures.
pub(crate) fn starting_with_leading_pictures() -> PathBuf {
    let cut = "-c copy -copyts -avoid_negative_ts make_zero";
    make("pack-leading", "mp4", &format!("-ss 2 -i {} {cut}", hevc_open().display()))
}

/// Makes one track in fragments with a `sidx`.
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

/// Makes five hours of slides of 100 s each, so that times exceed 2^24 ms.
pub(crate) fn five_hours() -> PathBuf {
    make(
        "pack-five-hours",
        "mp4",
        "-f lavfi -i testsrc2=size=96x64:rate=1/100:duration=18000 -c:v libx264 -preset veryfast -g 2 -bf 0 \
         -sc_threshold 0 -pix_fmt yuv420p",
    )
}

/// Makes three renditions of one video, of different sizes and bit rates, and a file with two
/// languages.
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

/// Returns a shared media file, if there is one: in `LATEMUX_MEDIA`, or in the folder beside the
/// repository.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/media");
    let folder = std::env::var_os("LATEMUX_MEDIA").map_or_else(beside, PathBuf::from);
    Some(folder.join(name)).filter(|file| file.exists())
}

/// Objects to serve, and the same media in files that ffprobe reads correctly.
pub(crate) struct Source {
    /// The objects of the title.
    pub(crate) objects: Vec<Bytes>,
    /// The files with the streams that ffprobe finds in them.
    pub(crate) files: Vec<(Bytes, Vec<Stream>)>,
}

impl Source {
    /// Serves the files unchanged.
    pub(crate) fn files(files: &[impl AsRef<Path>]) -> Self {
        let read = |file: &Path| (Bytes::from(fs::read(file).unwrap()), probe::probe(file, &[]).streams);
        let files: Vec<_> = files.iter().map(|file| read(file.as_ref())).collect();
        Self { objects: files.iter().map(|(bytes, _)| bytes.clone()).collect(), files }
    }

    /// Serves the same media, stored as other bytes.
    pub(crate) fn stored_as(&self, bytes: Vec<u8>) -> Self {
        Self { objects: vec![bytes.into()], files: self.files.clone() }
    }

    /// Iterates over all streams, each with its file and its number there.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (&Bytes, usize, &Stream)> {
        self.files.iter().flat_map(|(file, streams)| {
            streams.iter().enumerate().map(move |(number, stream)| (file, number, stream))
        })
    }
}

/// Writes bytes to a file for a tool to read. The caller removes it.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let file = folder().join(format!("packed-{}-{name}", std::process::id()));
    fs::write(&file, bytes).unwrap();
    file
}

/// Results of a tool by hash of its input and stream. Equal inputs are run only once: a title that
/// is stored in many ways mostly gives the same output.
type Results<T> = Mutex<BTreeMap<(u128, usize), Arc<T>>>;

fn once<T>(
    results: &Results<T>,
    name: &str,
    bytes: &[u8],
    stream: usize,
    run: impl Fn(&Path) -> T,
) -> Arc<T> {
    let key = (xxh3_128(bytes), stream);
    if let Some(result) = results.lock().unwrap().get(&key) {
        return result.clone();
    }
    let file = write(name, bytes);
    let result = Arc::new(run(&file));
    fs::remove_file(file).unwrap();
    results.lock().unwrap().insert(key, result.clone());
    result
}

/// Probes bytes in a file of this name.
pub(crate) fn probed(name: &str, bytes: &[u8]) -> Arc<Probe> {
    static RESULTS: Results<Probe> = Mutex::new(BTreeMap::new());
    once(&RESULTS, name, bytes, 0, |file| probe::probe(file, &[]))
}

/// Returns the bytes of each packet of a stream, in order.
pub(crate) fn packet_data(name: &str, bytes: &[u8], stream: usize, packets: &[Packet]) -> Arc<Vec<Vec<u8>>> {
    static RESULTS: Results<Vec<Vec<u8>>> = Mutex::new(BTreeMap::new());
    once(&RESULTS, name, bytes, stream, |file| probe::data(file, stream, packets))
}

/// Returns the streams of packaged bytes, for which ffprobe must print no warning.
#[track_caller]
pub(crate) fn probe_without_warnings(what: &str, bytes: &[u8]) -> Vec<Stream> {
    let probe = probed(&format!("{what}.mp4"), bytes);
    assert_eq!(probe.warnings, "", "{what}");
    probe.streams.clone()
}

/// Asserts that two streams hold the same packets. Returns the number of the source's packets that
/// are hidden.
///
/// Packets of the source that end before presentation begins may be absent: an edit list hides
/// them, and no decoder needs all of them. Durations are not compared, because ffprobe guesses
/// those of fragments from decode times and the codec. [`crate::oracles::durations`] reads them
/// with another parser.
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
