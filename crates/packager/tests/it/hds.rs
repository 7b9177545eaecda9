//! HDS as a player sees it: these tests read manifest and bootstrap information with their own
//! code, unwrap the fragments, and let ffprobe demux their tags as FLV.

use crate::{
    delays::{Delays, fingerprint, matching_source},
    media::{
        Source, avc_aac, changing_rates, five_hours, fragmented, hevc, ladder, probed, recorded, shared,
        signed, with_mfra, with_sidx,
    },
    player::{BASE, fetch},
    smooth_init::boxes,
};
use latemux_index::media::{Samples, TrackKind};
use latemux_packager::{PackError, Resource, carry::Protocol, plan::Class, sizes};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::{
    probe::{Stream, probe},
    recipe::make,
};
use roxmltree::Document;
use std::{collections::BTreeMap, path::Path, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

/// A `media` element with all its fragments.
pub(crate) struct Media {
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) fragments: Vec<Vec<u8>>,
}

fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        text.chars().filter_map(|c| DIGITS.find(c)).map(|d| u32::try_from(d).unwrap()).collect();
    let group = |group: &[u32]| {
        let bits = group.iter().fold(0, |bits, d| bits << 6 | d) << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}

/// Contents of bootstrap information.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bootstrap {
    current_media_time: u64,
    fragments_per_segment: u32,
    /// Number, start in ms and duration in ms of the first fragment of each run; the last run ends
    /// the presentation.
    runs: Vec<(u32, u64, u32)>,
}

impl Bootstrap {
    /// Reads an `abst` (§2.11.2).
    fn read(bytes: &[u8]) -> Self {
        let [(kind, mut rest)] = boxes(bytes)[..] else { panic!("one box") };
        assert_eq!(kind, *b"abst");
        let mut number = |len: usize| {
            let (head, tail) = rest.split_at(len);
            rest = tail;
            head.iter().fold(0_u64, |n, &b| n << 8 | u64::from(b))
        };
        assert_eq!((number(4), number(4), number(1)), (0, 1, 0), "version; named profile, not live");
        assert_eq!(number(4), 1000);
        let current_media_time = number(8);
        assert_eq!(number(8), 0);
        assert_eq!(number(5), 0, "no identifier, servers, qualities, DRM or metadata");
        assert_eq!(number(1), 1);
        let size = usize::try_from(number(4)).unwrap();
        let asrt = &rest[4..size - 4];
        let word = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((asrt.len(), word(asrt, 0), asrt[4], word(asrt, 5), word(asrt, 9)), (17, 0, 0, 1, 1));
        let fragments_per_segment = word(asrt, 13);
        let rest = &rest[size - 4..];
        assert_eq!(rest[0], 1);
        let [(kind, afrt)] = boxes(&rest[1..])[..] else { panic!("one fragment run table") };
        assert_eq!(kind, *b"afrt");
        assert_eq!((word(afrt, 0), word(afrt, 4), afrt[8]), (0, 1000, 0));
        let count = usize::try_from(word(afrt, 9)).unwrap();
        let mut runs = Vec::new();
        let mut at = 13;
        for _ in 0..count {
            let start = u64::from_be_bytes(afrt[at + 4..at + 12].try_into().unwrap());
            let run = (word(afrt, at), start, word(afrt, at + 12));
            at += 16;
            if run.2 == 0 {
                assert_eq!(afrt[at], 0, "end of presentation");
                at += 1;
            }
            runs.push(run);
        }
        assert_eq!(at, afrt.len());
        Self { current_media_time, fragments_per_segment, runs }
    }

    /// Returns the number of the first fragment.
    fn first(&self) -> u32 {
        self.runs[0].0
    }

    /// Returns the start of each fragment, and the end of the last one, in ms.
    pub(crate) fn times(&self) -> Vec<u64> {
        let (end, runs) = self.runs.split_last().unwrap();
        assert_eq!(*end, (0, 0, 0));
        let mut times = Vec::new();
        for (i, &(first, start, duration)) in runs.iter().enumerate() {
            assert_eq!(usize::try_from(first - self.first()).unwrap(), times.len());
            let next = runs.get(i + 1).map_or(self.fragments_per_segment + 1, |run| run.0);
            times.extend((0..u64::from(next - first)).map(|n| start + n * u64::from(duration)));
        }
        let last = runs.last().unwrap();
        assert_eq!(times.last(), Some(&last.1), "the last run has one fragment");
        times.push(last.1 + u64::from(last.2));
        times
    }
}

fn play(origin: &mut Origin) -> Vec<Media> {
    play_at(origin, "")
}

pub(crate) fn play_at(origin: &mut Origin, query: &str) -> Vec<Media> {
    let response = fetch(origin, &format!("{BASE}.f4m{query}")).unwrap();
    assert_eq!((response.content_type, response.class), ("application/f4m+xml", Class::Manifest));
    let text = String::from_utf8(response.bytes).unwrap();
    let document = Document::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let root = document.root_element();
    assert_eq!(
        (root.tag_name().name(), root.tag_name().namespace()),
        ("manifest", Some("http://ns.adobe.com/f4m/1.0"))
    );
    let child =
        |name: &str| root.children().find(|n| n.has_tag_name((root.tag_name().namespace().unwrap(), name)));
    assert_eq!(child("streamType").unwrap().text(), Some("recorded"));
    let bootstraps: BTreeMap<_, _> = root
        .children()
        .filter(|n| n.tag_name().name() == "bootstrapInfo")
        .map(|n| {
            assert_eq!(n.attribute("profile"), Some("named"));
            (n.attribute("id").unwrap().to_owned(), from_base64(n.text().unwrap()))
        })
        .collect();
    let media: Vec<BTreeMap<String, String>> = root
        .children()
        .filter(|n| n.tag_name().name() == "media")
        .map(|n| {
            let metadata = n.children().find(|n| n.tag_name().name() == "metadata").unwrap();
            assert!(from_base64(metadata.text().unwrap()).starts_with(b"\x02\0\x0aonMetaData\x08"));
            n.attributes().map(|a| (a.name().to_owned(), a.value().to_owned())).collect()
        })
        .collect();
    media
        .into_iter()
        .map(|attributes| {
            let inline = &bootstraps[&attributes["bootstrapInfoId"]];
            let url = attributes["url"].strip_suffix('-').unwrap();
            // If a clip consists of whole fragments, their URLs do not name it.
            let clip = query.strip_prefix('?').filter(|_| !url.contains('/'));
            let folder = clip.map_or_else(String::new, |clip| format!("{clip}/"));
            let external = fetch(origin, &format!("{BASE}{folder}{url}.abst")).unwrap();
            assert_eq!((external.content_type, &external.bytes), ("video/abst", inline));
            let bootstrap = Bootstrap::read(inline);
            let fragments = (bootstrap.first()..=bootstrap.fragments_per_segment)
                .map(|n| fetch(origin, &format!("{BASE}{}Seg1-Frag{n}", attributes["url"])).unwrap().bytes)
                .collect();
            Media { attributes, bootstrap, fragments }
        })
        .collect()
}

/// Returns the tags of a fragment, which is a `moof` with its number and an `mdat`.
fn tags(number: usize, fragment: &[u8]) -> &[u8] {
    let [(moof, head), (mdat, tags)] = boxes(fragment)[..] else { panic!("two boxes") };
    assert_eq!((moof, mdat), (*b"moof", *b"mdat"));
    let number = u32::try_from(number).unwrap().to_be_bytes();
    assert_eq!(head, [&b"\0\0\0\x10mfhd\0\0\0\0"[..], &number].concat());
    tags
}

/// Returns type, time in ms and the first two bytes of every tag, and checks the sizes behind the
/// tags.
fn walk(mut tags: &[u8]) -> Vec<(u8, u32, [u8; 2])> {
    let mut found = Vec::new();
    while !tags.is_empty() {
        let size = usize::try_from(u32::from_be_bytes([0, tags[1], tags[2], tags[3]])).unwrap();
        let time = u32::from_be_bytes([tags[7], tags[4], tags[5], tags[6]]);
        assert_eq!(tags[8..11], [0; 3]);
        let whole = 11 + size;
        assert_eq!(tags[whole..whole + 4], u32::try_from(whole).unwrap().to_be_bytes());
        found.push((tags[0], time, [tags[11], tags[12]]));
        tags = &tags[whole + 4..];
    }
    found
}

/// Returns the streams that ffprobe finds in the tags of all fragments, without a warning.
pub(crate) fn demuxed(what: &str, media: &Media) -> Vec<Stream> {
    let mut flv = b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec();
    let first = usize::try_from(media.bootstrap.first()).unwrap();
    for (n, fragment) in (first..).zip(&media.fragments) {
        flv.extend_from_slice(tags(n, fragment));
    }
    let probe = probed(&format!("{what}.flv"), &flv);
    assert_eq!(probe.warnings, "", "{what}");
    probe.streams.clone()
}

pub(crate) fn millis(ticks: i64, timescale: u32) -> i64 {
    (ticks * 1000).div_euclid(i64::from(timescale))
}

/// Checks files like [`assert_source_packets`].
fn assert_file_packets(what: &str, files: &[&Path], constant_rate: bool) {
    assert_source_packets(what, &Source::files(files), constant_rate);
}

/// Asserts that the fragments hold every packet of every track that HDS carries, at times rounded
/// down to ms and shifted by one constant.
pub(crate) fn assert_source_packets(what: &str, source: &Source, constant_rate: bool) {
    let mut origin = Origin::of(source.objects.clone(), TARGET).unwrap();
    let all = play(&mut origin);
    let mut delays = Delays::default();
    let mut seen = Vec::new();
    for (n, media) in all.iter().enumerate() {
        let what = format!("{what}-{n}");
        let times = media.bootstrap.times();
        assert_eq!(times.last(), Some(&media.bootstrap.current_media_time));
        for (n, fragment) in media.fragments.iter().enumerate() {
            let tags = walk(tags(n + 1, fragment));
            assert_eq!(u64::from(tags[0].1), times[n], "{what}: fragment {n}");
            assert!(tags.windows(2).all(|w| w[0].1 <= w[1].1), "{what}: fragment {n} in order");
            // Sequence headers for each type of tag that occurs, before all other tags.
            let headers = tags.iter().take_while(|t| t.2[1] == 0 && t.2[0] != 0x2F).count();
            let kinds: std::collections::BTreeSet<u8> = tags.iter().map(|t| t.0).collect();
            assert_eq!(headers, kinds.len(), "{what}: fragment {n}");
        }
        for got in demuxed(&what, media) {
            let (want, packets) = matching_source(&what, &got, source);
            if got.kind == "video" {
                let keys = packets.iter().filter(|p| p.key).count();
                let found = media.fragments.iter().enumerate();
                let found =
                    found.flat_map(|(n, f)| walk(tags(n + 1, f))).filter(|t| t.2 == [0x17, 1]).count();
                assert_eq!(found, keys, "{what}: key frames");
            }
            let reorder = if got.kind == "video" { packets[0].pts - packets[0].dts } else { 0 };
            assert!(got.packets.is_sorted_by_key(|packet| packet.dts), "{what}");
            for (got_packet, packet) in got.packets.iter().zip(packets) {
                let decoded = constant_rate.then(|| millis(packet.dts + reorder, want.timescale));
                let at = (got_packet.dts, got_packet.pts);
                delays.add(&got.kind, at, millis(packet.pts, want.timescale), decoded);
            }
            seen.push(fingerprint(&got));
        }
    }
    delays.common(what, 1000);
    seen.sort();
    seen.dedup();
    let carried = origin
        .title
        .tracks()
        .iter()
        .filter(|t| latemux_packager::carry::carries(Protocol::Hds, origin.title.track(t)).is_ok());
    assert_eq!(seen.len(), carried.count(), "{what}: number of tracks");
}

#[test]
fn avc_and_aac_keep_their_packets() {
    assert_file_packets("hds-avc-aac", &[&avc_aac()], true);
}

/// Returns a source whose first frame is presented at 0. ffprobe moves only video, so that no frame
/// is decoded after it is presented.
fn presented_from_0() -> Source {
    let mut source = Source::files(&[signed()]);
    for video in source.files.iter_mut().flat_map(|file| &mut file.1).filter(|s| s.kind == "video") {
        let moved = video.packets[0].pts;
        video.packets.iter_mut().for_each(|p| (p.pts, p.dts) = (p.pts - moved, p.dts - moved));
    }
    source
}

#[test]
fn fragments_with_every_kind_of_index_keep_their_packets() {
    assert_file_packets("hds-fragmented", &[&fragmented()], true);
    assert_file_packets("hds-sidx", &[&with_sidx()], true);
    assert_file_packets("hds-mfra", &[&with_mfra()], true);
    assert_source_packets("hds-signed", &presented_from_0(), true);
}

#[test]
fn renditions_and_languages_are_listed_and_keep_their_packets() {
    let files = ladder();
    let files: Vec<&Path> = files.iter().map(std::path::PathBuf::as_path).collect();
    assert_file_packets("hds-ladder", &files, true);
    let media = play(&mut Origin::open(&files, TARGET));
    let [low, middle, high, french] = &media[..] else { panic!("{} media", media.len()) };
    for (media, height) in [(low, "180"), (middle, "288"), (high, "360")] {
        assert_eq!(media.attributes["height"], height);
        assert!(media.attributes["url"].starts_with("x-audio_eng="));
        assert!(!media.attributes.contains_key("alternate"));
    }
    assert_eq!((&*french.attributes["alternate"], &*french.attributes["lang"]), ("true", "fra"));
    assert_eq!(low.bootstrap, high.bootstrap);
    let kbits = |media: &Media| media.attributes["bitrate"].parse::<u32>().unwrap();
    assert!(kbits(low) < kbits(middle) && kbits(middle) < kbits(high));
}

/// Times exceed the 24 bits that a tag has for the lower part.
#[test]
fn five_hours_of_tags_keep_their_times() {
    assert_file_packets("hds-long", &[&five_hours()], true);
    let media = play(&mut Origin::open(&[five_hours()], TARGET));
    assert!(media[0].bootstrap.current_media_time > 1 << 24);
    let last = media[0].fragments.last().unwrap();
    assert!(walk(tags(media[0].fragments.len(), last))[0].1 > 1 << 24);
}

/// Tags have times of 32 bits, in ms.
#[test]
fn times_of_a_recording_do_not_wrap() {
    let mut origin = Origin::of(vec![recorded()], TARGET).unwrap();
    let manifest = origin.text(&Resource::HdsManifest);
    assert!(manifest.contains("<duration>9."), "{manifest}");
    for media in play(&mut origin) {
        let times = media.bootstrap.times();
        assert!(times[0] < 200 && media.bootstrap.current_media_time < 10_000, "{times:?}");
        for (n, fragment) in media.fragments.iter().enumerate() {
            assert_eq!(u64::from(walk(tags(n + 1, fragment))[0].1), times[n]);
        }
    }
}

/// Longer than 2^31 ms: 25 days.
#[test]
fn times_that_tags_cannot_state_are_refused() {
    let slides = make(
        "hds-slides",
        "mp4",
        "-f lavfi -i testsrc2=size=96x64:rate=1/1000:duration=5000 -c:v libx264 -preset veryfast -g 1 -bf 0 \
         -pix_fmt yuv420p -video_track_timescale 1",
    );
    let file = make(
        "hds-long-slides",
        "mp4",
        &format!(
            "-i {} -c copy -bsf:v setts=ts=PTS*1000 -video_track_timescale 1",
            slides.to_str().expect("UTF-8")
        ),
    );
    let mut origin = Origin::open(&[file], TARGET);
    let error = origin.plan(&Resource::HdsManifest).map(drop);
    assert_eq!(error.map_err(|e| e.reason()), Err("segment_too_large"));
    let video = origin.names(TrackKind::Video);
    let last = Resource::HdsFragment(video.clone(), origin.segment_count(&video[0]));
    assert_eq!(origin.plan(&last).map(drop).map_err(|e| e.reason()), Err("segment_too_large"));
    assert!(origin.plan(&Resource::HdsFragment(video, 1)).is_ok());
}

/// Frames have several durations, and the source reorders them by several times.
#[test]
fn decode_times_do_not_go_back_where_the_frame_rate_rises() {
    for (name, file) in changing_rates() {
        assert_file_packets(&format!("hds-{name}"), &[&file], false);
        for media in play(&mut Origin::open(&[file], TARGET)) {
            let packets = demuxed(name, &media).remove(0).packets;
            assert!(packets.iter().all(|packet| packet.pts >= packet.dts), "{name}");
        }
    }
}

#[test]
fn mp3_has_no_sequence_header() {
    for rate in [44_100, 48_000, 22_050] {
        let file = make(
            "hds-mp3",
            "mp4",
            &format!(
                "-f lavfi -i testsrc2=size=192x108:rate=25:duration=4 \
                 -f lavfi -i sine=frequency=440:sample_rate={rate}:duration=4 \
                 -c:v libx264 -preset veryfast -g 50 \
                 -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -c:a libmp3lame -b:a 64k"
            ),
        );
        assert_mp3_packets(&format!("hds-mp3-{rate}"), &file);
    }
}

/// Checks a file with MP3 like [`assert_source_packets`]. Only its AVC has a sequence header.
fn assert_mp3_packets(what: &str, file: &Path) {
    let media = play(&mut Origin::open(&[file], TARGET)).remove(0);
    let got = demuxed(what, &media);
    let want = probe(file, &[]).streams;
    for (got, want) in got.iter().zip(&want) {
        let hashes = |s: &Stream| s.packets.iter().map(|p| p.hash.clone()).collect::<Vec<_>>();
        assert_eq!((&got.kind, &got.codec, hashes(got)), (&want.kind, &want.codec, hashes(want)), "{what}");
    }
    let first = walk(tags(1, &media.fragments[0]));
    assert_eq!(first.iter().filter(|t| t.0 == 8).map(|t| t.2[0] & 0xF0).max(), Some(0x20));
}

#[test]
fn sizes_from_tables_equal_those_of_the_plans() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    assert!(origin.title.tracks().iter().all(|t| matches!(origin.title.track(t).samples, Samples::Table(_))));
    let names = [origin.names(TrackKind::Video), origin.names(TrackKind::Audio)].concat();
    for names in [&names[..1], &names[1..], &names[..]] {
        let tracks: Vec<usize> = names.iter().map(|name| origin.title.find(name).unwrap()).collect();
        let sizes = sizes::muxed_sizes(&origin.title, &tracks, Protocol::Hds);
        assert!(sizes.len() > 3);
        for (n, size) in (1..).zip(sizes) {
            let response = origin.get(&Resource::HdsFragment(names.to_vec(), n)).unwrap();
            assert_eq!(response.content_length, size);
            assert_eq!((response.class, response.content_type), (Class::Media, "video/f4f"));
        }
    }
}

#[test]
fn the_body_does_not_depend_on_the_order_of_tracks() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    let audio = origin.names(TrackKind::Audio).remove(0);
    let [one, other] = [vec![video.clone(), audio.clone()], vec![audio, video]]
        .map(|names| origin.get(&Resource::HdsFragment(names, 2)).unwrap());
    assert_eq!((one.bytes, one.digest), (other.bytes, other.digest));
}

#[test]
fn absent_tracks_and_segments_are_refused() {
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    let video = origin.names(TrackKind::Video).remove(0);
    let past = origin.segment_count(&video) + 1;
    for (names, n, reason) in [
        (vec![video.clone(), video.clone()], 1, "no_such_track"),
        (vec![video.clone()], past, "no_such_segment"),
    ] {
        let error = origin.plan(&Resource::HdsFragment(names, n)).map(drop);
        assert_eq!(error.map_err(|e: PackError| e.reason()), Err(reason));
    }
    let error = Origin::open(&[hevc()], TARGET).plan(&Resource::HdsManifest).map(drop);
    assert_eq!(error.map_err(|e| e.reason()), Err("cannot_carry"));
}

/// Files from other writers.
#[test]
fn shared_media_keep_their_packets() {
    let files = [
        ("androidx/bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4", true),
        ("androidx/bt601.mp4", false),
        ("androidx/edit_list_positive_shift.mp4", false),
        ("androidx/long_edit_list_audioonly.mp4", false),
        ("androidx/sample.mp4", false),
        ("androidx/sample_fragmented_seekable.mp4", false),
        ("androidx/sample_portrait.mp4", false),
        ("mp4ff/bbb_prog_10s.mp4", true),
        ("mp4ff/prog_8s.mp4", true),
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
