//! Smooth Streaming as a player sees it: an independent parser reads the client manifest, its URLs
//! are followed, and ffprobe demuxes the fragments behind an init segment that is made from the
//! manifest alone.

use crate::{
    delays::{Delays, matching_source},
    media::{
        Source, avc_aac, changing_rates, five_hours, fragmented, hevc, ladder, lone_offset, probed, recorded,
        shared, starting_with_leading_pictures, with_mfra, with_sidx,
    },
    oracles::composition_offsets,
    player::{BASE, fetch},
    smooth_init::{boxes, init},
};
use latemux_index::media::{Samples, TrackKind};
use latemux_packager::{PackError, Resource, carry::Protocol, plan::Class, sizes};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::{probe::Stream, recipe::make};
use roxmltree::{Document, Node};
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

const TARGET: Duration = Duration::from_secs(2);
const SCALE: i64 = 10_000_000;

/// A quality level with all its fragments.
pub(crate) struct Level {
    /// Attributes of the level, and then those of its stream.
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) stream: BTreeMap<String, String>,
    /// Start of each fragment, and end of the last one.
    pub(crate) times: Vec<i64>,
    pub(crate) fragments: Vec<Vec<u8>>,
}

fn attributes(node: Node<'_, '_>) -> BTreeMap<String, String> {
    node.attributes().map(|a| (a.name().to_owned(), a.value().to_owned())).collect()
}

fn play(origin: &mut Origin) -> (BTreeMap<String, String>, Vec<Level>) {
    play_at(origin, "")
}

/// Reads the manifest as players do, and fetches all its fragments.
pub(crate) fn play_at(origin: &mut Origin, query: &str) -> (BTreeMap<String, String>, Vec<Level>) {
    let response = fetch(origin, &format!("{BASE}Manifest{query}")).unwrap();
    assert_eq!((response.content_type, response.class), ("application/vnd.ms-sstr+xml", Class::Manifest));
    let text = String::from_utf8(response.bytes).unwrap();
    let document = Document::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "SmoothStreamingMedia");
    let mut levels = Vec::new();
    let mut names = Vec::new();
    for stream in root.children().filter(Node::is_element) {
        assert_eq!(stream.tag_name().name(), "StreamIndex");
        let of = |name: &str| stream.attribute(name).unwrap_or_else(|| panic!("{name}\n{text}"));
        names.push(of("Name").to_owned());
        let mut times = Vec::new();
        for c in stream.children().filter(|n| n.has_tag_name("c")) {
            let number = |name: &str| c.attribute(name).map(|v| v.parse::<i64>().unwrap());
            let mut at = number("t").or(times.last().copied()).unwrap_or(0);
            if times.is_empty() {
                times.push(at);
            }
            assert_eq!(times.last(), Some(&at), "no gaps");
            for _ in 0..number("r").unwrap_or(1) {
                at += number("d").unwrap();
                times.push(at);
            }
        }
        assert_eq!(of("Chunks"), (times.len() - 1).to_string());
        let qualities: Vec<_> = stream.children().filter(|n| n.has_tag_name("QualityLevel")).collect();
        assert_eq!(of("QualityLevels"), qualities.len().to_string());
        for (index, quality) in qualities.into_iter().enumerate() {
            let attributes_ = attributes(quality);
            assert_eq!(attributes_["Index"], index.to_string());
            let url = of("Url").replace("{bitrate}", &attributes_["Bitrate"]);
            let fragments = times[..times.len() - 1]
                .iter()
                .map(|t| {
                    let url = format!("{BASE}{}", url.replace("{start time}", &t.to_string()));
                    let response = fetch(origin, &url).unwrap();
                    assert_eq!(response.class, Class::Media);
                    response.bytes
                })
                .collect();
            levels.push(Level {
                attributes: attributes_,
                stream: attributes(stream),
                times: times.clone(),
                fragments,
            });
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "names of streams are unique");
    (attributes(root), levels)
}

/// Returns time, duration and number of samples of a fragment. A fragment is `moof` and `mdat`,
/// without boxes that came into the standard later; its `tfxd` states time and duration.
pub(crate) fn tfxd(fragment: &[u8]) -> (i64, i64, usize) {
    const TFXD: &[u8] = b"\x6d\x1d\x9b\x05\x42\xd5\x44\xe6\x80\xe2\x14\x1d\xaf\xf7\x57\xb2\x01\0\0\0";
    let top = boxes(fragment);
    let kinds: Vec<_> = top.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [*b"moof", *b"mdat"]);
    let traf = boxes(top[0].1).into_iter().find(|(kind, _)| kind == b"traf").unwrap().1;
    let children = boxes(traf);
    let kinds: Vec<_> = children.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [*b"tfhd", *b"trun", *b"uuid"]);
    let payload = children[2].1.strip_prefix(TFXD).expect("a tfxd of version 1");
    let number = |at: usize| i64::from_be_bytes(payload[at..at + 8].try_into().unwrap());
    assert_eq!(payload.len(), 16);
    let samples = u32::from_be_bytes(children[1].1[4..8].try_into().unwrap());
    (number(0), number(8), usize::try_from(samples).unwrap())
}

/// Returns the stream that ffprobe finds in a level, without a warning.
pub(crate) fn demuxed(what: &str, level: &Level) -> Stream {
    // The manifest does not state the track ID of the fragments, so players read it from them.
    let moof = boxes(&level.fragments[0])[0].1;
    let traf = boxes(moof).into_iter().find(|(kind, _)| kind == b"traf").unwrap().1;
    let track_id = u32::from_be_bytes(boxes(traf)[0].1[4..8].try_into().unwrap());
    let bytes: Vec<u8> = std::iter::once(&init(&level.attributes, &level.stream, track_id))
        .chain(&level.fragments)
        .flatten()
        .copied()
        .collect();
    let probe = probed(&format!("{what}.mp4"), &bytes);
    // ffprobe does not support this form of timed text, and says so.
    let unknown = |line: &&str| line.starts_with("Unsupported codec with id 0");
    let text = level.stream["Type"] == "text";
    let warnings: Vec<_> = probe.warnings.lines().filter(|line| !(text && unknown(line))).collect();
    assert_eq!(warnings, Vec::<&str>::new(), "{what}");
    assert_eq!(probe.streams.len(), 1);
    let stream = probe.streams[0].clone();
    assert_eq!(i64::from(stream.timescale), SCALE);
    stream
}

pub(crate) fn floor(ticks: i64, timescale: u32) -> i64 {
    i64::try_from((i128::from(ticks) * i128::from(SCALE)).div_euclid(i128::from(timescale))).unwrap()
}

/// Regularity of a source's frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Decode times differ from the source's by a constant.
    Constant,
    /// Frames have different durations: only presentation times equal the source's.
    Variable,
}

/// Checks files like [`assert_source_packets`].
fn assert_file_packets(what: &str, files: &[&Path], rate: Rate) {
    assert_source_packets(what, &Source::files(files), rate);
}

/// Asserts that the fragments of the manifest hold every packet of every track that Smooth carries:
/// bytes, key frames, and times rounded down to 100 ns, all shifted by one constant.
pub(crate) fn assert_source_packets(what: &str, source: &Source, rate: Rate) {
    let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
    let (root, levels) = play(&mut origin);
    let mut delays = Delays::default();
    let mut ends = Vec::new();
    for (n, level) in levels.iter().enumerate() {
        let what = format!("{what}-{n}");
        let got = demuxed(&what, level);
        let mut first = 0;
        for (window, fragment) in level.times.windows(2).zip(&level.fragments) {
            let (time, duration, samples) = tfxd(fragment);
            assert_eq!((time, duration), (window[0], window[1] - window[0]), "{what}");
            // Each fragment starts where the samples before it end.
            assert_eq!(got.packets[first].dts + level.times[0], time, "{what}");
            first += samples;
        }
        assert_eq!(first, got.packets.len(), "{what}");
        let (want, packets) = matching_source(&what, &got, source);
        let scale = want.timescale;

        // ffprobe starts at 0, because it reads no times from fragments.
        assert_eq!(got.packets[0].dts, 0);
        let start = level.times[0];
        assert!(start >= 0);
        // The last fragment ends with the presentation of its last sample.
        let shown = packets.iter().map(|p| p.pts + p.duration).max().unwrap();
        ends.push((
            level.times.last().unwrap() - floor(shown, scale),
            packets.iter().all(|p| p.duration > 0),
        ));
        let reorder = if got.kind == "video" { packets[0].pts - packets[0].dts } else { 0 };
        let mut last = i64::MIN;
        for (n, (got_packet, want)) in got.packets.iter().zip(packets).enumerate() {
            let dts = got_packet.dts + start;
            let pts = got_packet.pts + start;
            assert!(dts > last, "{what}: packet {n}");
            assert!(rate == Rate::Variable || pts >= dts, "{what}: packet {n}");
            last = dts;
            let decoded = (rate == Rate::Constant).then(|| floor(want.dts + reorder, scale));
            delays.add(&got.kind, (dts, pts), floor(want.pts, scale), decoded);
        }
    }
    let delay = delays.common(what, SCALE);
    let exact_ends = ends.iter().filter(|&&(_, known)| known && rate == Rate::Constant);
    assert!(exact_ends.map(|(end, _)| end).all(|end| *end == delay), "{what}: {ends:?}");
    let expected = origin
        .title
        .tracks()
        .iter()
        .filter(|t| latemux_packager::carry::carries(Protocol::Smooth, origin.title.track(t)).is_ok())
        .count();
    assert_eq!(levels.len(), expected, "{what}");

    let end = levels.iter().filter_map(|l| l.times.last()).max().unwrap();
    let start = levels.iter().map(|l| l.times[0]).min().unwrap();
    assert_eq!(root["Duration"], (end - start).to_string());
    assert_eq!(root["TimeScale"], SCALE.to_string());
}

#[test]
fn avc_and_aac_keep_their_packets() {
    assert_file_packets("smooth-avc-aac", &[&avc_aac()], Rate::Constant);
}

#[test]
fn hevc_at_30000_over_1001_keeps_its_packets() {
    assert_file_packets("smooth-hevc", &[&hevc()], Rate::Constant);
}

#[test]
fn fragments_with_every_kind_of_index_keep_their_packets() {
    assert_file_packets("smooth-fragmented", &[&fragmented()], Rate::Constant);
    assert_file_packets("smooth-sidx", &[&with_sidx()], Rate::Constant);
    assert_file_packets("smooth-mfra", &[&with_mfra()], Rate::Constant);
}

/// Renditions with and without B-frames share one stream and one timeline.
#[test]
fn renditions_that_reorder_differently_share_a_timeline() {
    let mut files = ladder();
    files.push(make(
        "smooth-no-b-frames",
        "mp4",
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=9 -c:v libx264 -preset veryfast -g 25 \
         -keyint_min 25 \
         -sc_threshold 0 -pix_fmt yuv420p -bf 0 -b:v 60k",
    ));
    let files: Vec<&Path> = files.iter().map(std::path::PathBuf::as_path).collect();
    assert_file_packets("smooth-ladder", &files, Rate::Constant);
    let mut origin = Origin::open(&files, TARGET);
    let (_, levels) = play(&mut origin);
    let streams: Vec<_> = levels.iter().map(|l| l.stream["Name"].as_str()).collect();
    assert_eq!(streams, ["video", "video", "video", "video", "audio_eng", "audio_fra"]);
    assert_eq!(levels[4].stream["Language"], "eng");
    assert_eq!(levels[0].attributes["MaxHeight"], "90");
    assert_eq!((&*levels[0].stream["MaxWidth"], &*levels[0].stream["MaxHeight"]), ("640", "360"));
    assert_eq!((&*levels[0].attributes["FourCC"], &*levels[4].attributes["FourCC"]), ("AVC1", "AACL"));
    assert_eq!(levels[4].attributes["AudioTag"], "255");
}

#[test]
fn rates_that_do_not_divide_100_ns_keep_their_packets() {
    for (rate, audio) in [("24000/1001", 44100), ("30", 22050), ("60000/1001", 32000)] {
        let file = make(
            "smooth-odd-rates",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=192x108:rate={rate}:duration=9 \
                 -f lavfi -i sine=frequency=440:sample_rate={audio}:duration=9 \
                 -c:v libx264 -preset veryfast -bf 3 \
                 -g 24 -keyint_min 24 -sc_threshold 0 -pix_fmt yuv420p -c:a aac -b:a 64k"
            ),
        );
        assert_file_packets(&format!("smooth-odd-{audio}"), &[&file], Rate::Constant);
    }
}

#[test]
fn dolby_digital_plus_is_described_and_keeps_its_packets() {
    let file = make(
        "smooth-eac3",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=6 \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration=6 -c:v libx264 -preset veryfast -g 50 \
         -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a eac3 -b:a 192k -ac 6",
    );
    assert_file_packets("smooth-eac3", &[&file], Rate::Constant);
    let (_, levels) = play(&mut Origin::open(&[&file], TARGET));
    let audio = &levels[1].attributes;
    assert_eq!((&*audio["FourCC"], &*audio["AudioTag"], &*audio["Channels"]), ("EC-3", "65534", "6"));
    assert!(audio["CodecPrivateData"].starts_with("00063F000000AF87FBA7022DFB42A4D405CD93843BDD"));
}

/// Spectral band replication is signalled behind the core's configuration. ffmpeg's encoder has
/// none, but leaves room for the signal.
#[test]
fn high_efficiency_aac_has_its_own_fourcc() {
    let file = make(
        "smooth-half-rate",
        "mp4",
        "-f lavfi -i sine=frequency=440:sample_rate=24000:duration=4 -c:a aac -b:a 48k -ac 2",
    );
    let mut bytes = fs::read(file).unwrap();
    let config = bytes.windows(5).position(|w| w == b"\x13\x10\x56\xe5\0").unwrap();
    // sbrPresentFlag, and 3 for 48 kHz.
    bytes[config + 4] = 0x98;
    let mut origin = Origin::of(vec![bytes.into()], TARGET).unwrap();
    let (_, levels) = play(&mut origin);
    let attribute = |name: &str| levels[0].attributes[name].as_str();
    assert_eq!((attribute("FourCC"), attribute("CodecPrivateData")), ("AACH", "131056E598"));
    let format = (attribute("SamplingRate"), attribute("Channels"), attribute("AudioTag"));
    assert_eq!(format, ("24000", "2", "255"));
}

/// Frames have several durations. Decode times differ from the source's, but each fragment still
/// starts where the one before ends.
#[test]
fn a_variable_frame_rate_keeps_its_packets() {
    let file = make(
        "smooth-vfr",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=30:duration=9 \
         -vf select='lt(mod(n,7),4)+eq(mod(n,45),0)' -vsync vfr \
         -c:v libx264 -preset veryfast -bf 3 -force_key_frames expr:gte(t,n_forced*1.5) \
         -sc_threshold 0 -pix_fmt yuv420p",
    );
    assert_file_packets("smooth-vfr", &[&file], Rate::Variable);
}

/// Asserts that no frame of a source whose samples are known is presented before it is decoded, and
/// that its fragments last as long as listed.
fn assert_varying(what: &str, file: &Path) {
    assert_file_packets(what, &[file], Rate::Variable);
    let (_, levels) = play(&mut Origin::open(&[file], TARGET));
    for fragment in levels.iter().flat_map(|level| &level.fragments) {
        let offsets = composition_offsets(fragment);
        assert!(!offsets.is_empty() && offsets.iter().all(|&offset| offset >= 0), "{what}: {offsets:?}");
    }
}

/// A source decodes slow frames long before they are presented, and fast ones only shortly before.
#[test]
fn decode_times_do_not_go_back_where_the_frame_rate_rises() {
    for (name, file) in changing_rates() {
        assert_varying(name, &file);
    }
}

#[test]
fn a_lone_composition_offset_does_not_make_the_first_fragment_longer_than_listed() {
    for ticks in [256, 1024] {
        assert_varying("smooth-lone-offset", &lone_offset(ticks));
    }
}

/// Open GOPs from the first one on: the first segment starts with leading pictures.
#[test]
fn leading_pictures_at_the_start_do_not_make_the_first_fragment_longer_than_listed_or_faster() {
    let file = starting_with_leading_pictures();
    assert_varying("smooth-leading", &file);
    let (_, levels) = play(&mut Origin::open(&[file], TARGET));
    // The last fragment lasts until its frames have been presented.
    let [fragments @ .., _] = &levels[0].fragments[..] else { panic!("no fragment") };
    assert!(!fragments.is_empty());
    for (window, fragment) in levels[0].times.windows(2).zip(fragments) {
        let frames = i64::try_from(composition_offsets(fragment).len()).unwrap();
        let even = frames * SCALE * 1001 / 30_000;
        assert!((window[1] - window[0] - even).abs() < SCALE / 1000, "{window:?} for {frames} frames");
    }
}

/// A stream has one timeline. A rendition that is cut at other times is a separate stream, although
/// its URLs look alike.
#[test]
fn renditions_that_are_not_aligned_are_separate_streams() {
    let rendition = |gop: u32| {
        make(
            "smooth-gop",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=192x108:rate=25:duration=9 -c:v libx264 -preset veryfast \
                 -bf 2 -g {gop} \
                 -keyint_min {gop} -sc_threshold 0 -pix_fmt yuv420p"
            ),
        )
    };
    let files = [rendition(50), rendition(35)];
    let files: Vec<&Path> = files.iter().map(std::path::PathBuf::as_path).collect();
    assert_file_packets("smooth-misaligned", &files, Rate::Constant);
    let mut origin = Origin::open(&files, TARGET);
    let (_, levels) = play(&mut origin);
    let names: Vec<_> = levels.iter().map(|l| l.stream["Name"].as_str()).collect();
    assert_eq!(names, ["video", "video_1"]);
    assert!(levels.iter().all(|l| l.stream["Url"].contains("Fragments(video=")));
}

/// Tracks that Smooth cannot carry are not in the manifest, and not served.
#[test]
fn tracks_that_cannot_be_carried_are_left_out() {
    let file = make(
        "smooth-opus",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=4 \
         -f lavfi -i sine=frequency=440:sample_rate=48000:duration=4 \
         -c:v libx264 -preset veryfast -g 50 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a libopus",
    );
    let mut origin = Origin::open(&[file], TARGET);
    let (_, levels) = play(&mut origin);
    assert_eq!(levels.len(), 1);
    let opus = origin.names(TrackKind::Audio).remove(0);
    for resource in [Resource::SmoothFragment(opus.clone(), 0), Resource::HdsFragment(vec![opus], 1)] {
        assert_eq!(origin.plan(&resource).map(drop).map_err(|e| e.reason()), Err("cannot_carry"));
    }
    // NAL lengths of two bytes: players always assume four.
    if let Some(file) = shared("androidx/sample_2_byte_NAL_length.mp4") {
        let (_, levels) = play(&mut Origin::open(&[file], TARGET));
        assert!(levels.iter().all(|level| level.stream["Type"] == "audio"));
    }
}

/// Samples of 100 s each, for five hours.
#[test]
fn long_titles_do_not_drift() {
    assert_file_packets("smooth-long", &[&five_hours()], Rate::Constant);
}

#[test]
fn sizes_from_tables_equal_those_of_the_plans() {
    for file in [avc_aac(), hevc()] {
        let mut origin = Origin::open(&[&file], TARGET);
        let (_, levels) = play(&mut origin);
        for (index, level) in levels.iter().enumerate() {
            let title_track = &origin.title.tracks()[index];
            assert!(matches!(origin.title.track(title_track).samples, Samples::Table(_)));
            let sizes = sizes::segment_sizes(&origin.title, index, Protocol::Smooth);
            let got: Vec<u64> = level.fragments.iter().map(|f| f.len() as u64).collect();
            assert_eq!(got, sizes);
            assert!(sizes.len() > 3);
        }
    }
}

#[test]
fn absent_tracks_and_segments_are_refused() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    let mut unknown = video.clone();
    unknown.bitrate += 1;
    for (name, time, reason) in [
        (&unknown, 0, "no_such_track"),
        (&video, 1, "no_such_segment"),
        (&video, u64::MAX, "no_such_segment"),
    ] {
        let error = origin.plan(&Resource::SmoothFragment(name.clone(), time)).map(drop);
        assert_eq!(error.map_err(|e: PackError| e.reason()), Err(reason));
    }
    let vp9 = make(
        "smooth-vp9",
        "mp4",
        "-f lavfi -i testsrc2=size=192x108:rate=25:duration=2 -c:v libvpx-vp9 -b:v 60k -strict -2",
    );
    let error = Origin::open(&[vp9], TARGET).plan(&Resource::SmoothManifest).map(drop);
    assert_eq!(error.map_err(|e| e.reason()), Err("cannot_carry"));
}

/// Players take `Duration` for the end of the last fragment.
#[test]
fn a_recording_does_not_end_beyond_its_duration() {
    let mut origin = Origin::of(vec![recorded()], TARGET).unwrap();
    let (root, levels) = play(&mut origin);
    let end = levels.iter().filter_map(|level| level.times.last()).max().unwrap();
    assert!(levels.iter().all(|level| level.times[0] < SCALE / 5), "{root:?}");
    assert!((root["Duration"].parse::<i64>().unwrap() - end).abs() < SCALE / 5, "{root:?} {end}");
    assert_eq!(tfxd(&levels[0].fragments[0]).0, levels[0].times[0]);
}

/// Files from other writers.
#[test]
fn shared_media_keep_their_packets() {
    use Rate::{Constant, Variable};
    let files = [
        ("androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4", Constant),
        ("androidx/bt601.mp4", Variable),
        ("androidx/edit_list_positive_shift.mp4", Variable),
        ("androidx/emsg1.mp4", Constant),
        ("androidx/fragmented_captions_h265.mp4", Variable),
        ("androidx/h265_bframes.mp4", Variable),
        ("androidx/long_edit_list_audioonly.mp4", Variable),
        ("androidx/sample.mp4", Variable),
        // Its index states an end that is one frame too late.
        ("androidx/sample_eac3_fragmented.mp4", Variable),
        ("androidx/sample_eac3joc.mp4", Constant),
        ("androidx/sample_fragmented.mp4", Variable),
        ("androidx/sample_fragmented_seekable.mp4", Variable),
        ("androidx/sample_fragmented_seekable_multiple_sidx.mp4", Variable),
        ("androidx/sample_portrait.mp4", Variable),
        ("mp4ff/bbb5s_aac.isma", Constant),
        ("mp4ff/bbb_prog_10s.mp4", Constant),
        ("mp4ff/ed_hevc.mp4", Constant),
        ("mp4ff/prog_8s.mp4", Constant),
    ];
    let present: Vec<_> =
        files.iter().filter_map(|(name, rate)| Some((*name, *rate, shared(name)?))).collect();
    let failed: Vec<_> = present
        .iter()
        .filter(|(name, rate, file)| {
            let what = name.replace('/', "-");
            std::panic::catch_unwind(|| assert_file_packets(&what, &[file], *rate)).is_err()
        })
        .map(|(name, ..)| name)
        .collect();
    eprintln!("{} of {} shared files are present", present.len(), files.len());
    assert!(failed.is_empty(), "{failed:#?}");
}
