//! Files of cameras and editing suites: their init segments hold sample entries in ISO form, and
//! show the picture upright.

use crate::{
    cmaf::assert_source_packets,
    media::{Source, avc_aac, shared, write},
    player::multivariant,
    smooth_init::boxes,
};
use latemux_index::media::TrackKind;
use latemux_packager::{Resource, address::DashTemplate, pack::ismv::IsmvFile};
use latemux_testmedia::{
    origin::Origin,
    quicktime::{Colr, QuickTime, UNITY, quarter_turn, quicktime},
};
use std::{fs, path::Path, process::Command, time::Duration};

const TARGET: Duration = Duration::from_secs(2);

type Boxes<'a> = Vec<([u8; 4], &'a [u8])>;

fn child<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> &'a [u8] {
    path.iter().fold(bytes, |bytes, kind| {
        boxes(bytes).into_iter().find(|(found, _)| found == *kind).unwrap_or_else(|| panic!("{kind:?}")).1
    })
}

const STSD: [&[u8; 4]; 6] = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"];

/// Returns the type and payload of the only sample entry of an init segment.
fn entry(init: &[u8]) -> ([u8; 4], &[u8]) {
    let [entry] = boxes(&child(init, &STSD)[8..])[..] else { panic!("one sample entry") };
    entry
}

fn init(origin: &mut Origin, kind: TrackKind) -> Vec<u8> {
    let name = origin.names(kind).remove(0);
    origin.get(&Resource::DashInit(name)).unwrap().bytes
}

/// Checks a video entry as strictly as ISO/IEC 14496-12 defines it, and returns its boxes.
fn iso_video(entry: &[u8]) -> Boxes<'_> {
    assert_eq!(&entry[..8], [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!((&entry[8..24], &entry[36..42]), (&[0; 16][..], &[0, 0, 0, 0, 0, 1][..]));
    assert_eq!(&entry[76..78], [0xff, 0xff]);
    let found = boxes(&entry[78..]);
    for (kind, payload) in &found {
        match kind {
            b"avcC" | b"hvcC" => assert_eq!(payload[0], 1),
            b"colr" => assert_eq!((&payload[..4], payload.len()), (&b"nclx"[..], 11)),
            b"pasp" => assert_eq!(payload.len(), 8),
            b"btrt" => assert_eq!(payload.len(), 12),
            _ => panic!("{:?}", kind.escape_ascii().to_string()),
        }
    }
    found
}

/// Checks an AAC entry as strictly as ISO/IEC 14496-12 defines it.
fn iso_audio(entry: &[u8]) {
    assert_eq!(&entry[..16], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], "reserved, and version 0");
    assert_eq!((&entry[18..24], &entry[26..28]), (&[0, 16, 0, 0, 0, 0][..], &[0, 0][..]));
    let found = boxes(&entry[28..]);
    assert!(found.iter().any(|(kind, _)| kind == b"esds"));
    assert!(found.iter().all(|(kind, _)| matches!(kind, b"esds" | b"btrt")), "no wave, no chan");
}

#[test]
fn sample_entries_of_quicktime_were_copied_into_init_segments() {
    let source = Source::files(&[avc_aac()]);
    for (audio_version, colr) in [(1, Colr::Nclc), (2, Colr::ShortNclx), (0, Colr::AsIs)] {
        let options =
            QuickTime { audio_version, colr, terminator: true, extras: true, ..QuickTime::default() };
        let stored = source.stored_as(quicktime(&source.objects[0], options));
        let mut origin = Origin::of(stored.objects.clone(), TARGET).unwrap();
        let video = init(&mut origin, TrackKind::Video);
        let found = iso_video(entry(&video).1);
        let colours: Vec<_> = found.iter().filter(|(kind, _)| kind == b"colr").map(|(_, c)| *c).collect();
        let want: &[&[u8]] = if colr == Colr::AsIs { &[] } else { &[b"nclx\0\x01\0\x01\0\x01\0"] };
        assert_eq!(colours, want, "{options:?}");
        let audio = init(&mut origin, TrackKind::Audio);
        iso_audio(entry(&audio).1);
        assert_source_packets("quicktime", &stored);
    }
}

#[test]
fn sample_entries_in_iso_form_stay_as_they_are() {
    let file = fs::read(avc_aac()).unwrap();
    let mut origin = Origin::open(&[avc_aac()], TARGET);
    for kind in [TrackKind::Video, TrackKind::Audio] {
        let init = init(&mut origin, kind);
        let (format, payload) = entry(&init);
        // The brands of the file are spelt like its sample entries.
        let at = file.windows(4).rposition(|window| window == format).unwrap() + 4;
        assert_eq!(&file[at..at + payload.len()], payload, "{kind:?}");
    }
}

#[test]
fn a_real_file_of_quicktime_gets_iso_sample_entries() {
    let Some(file) = shared("androidx/bt601.mov") else { return eprintln!("skipped: no shared media") };
    let mut origin = Origin::open(&[file], TARGET);
    let video = init(&mut origin, TrackKind::Video);
    assert!(iso_video(entry(&video).1).iter().any(|(kind, _)| kind == b"colr"));
    iso_audio(entry(&init(&mut origin, TrackKind::Audio)).1);
}

/// Returns rotation in degrees, width and height of the video, as ffprobe reads them.
fn shown(file: &Path) -> (String, String) {
    let show = |entries: &str| {
        let arguments = ["-v", "error", "-select_streams", "v", "-of", "csv=p=0", "-show_entries", entries];
        let out = Command::new("ffprobe").args(arguments).arg(file).output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap().trim().trim_end_matches(',').to_owned()
    };
    (show("stream_side_data=rotation"), show("stream=width,height"))
}

#[test]
fn rotation_was_lost_in_init_segments() {
    let source = Source::files(&[avc_aac()]);
    let upside_down = [-0x1_0000, 0, 0, 0, -0x1_0000, 0, 320 << 16, 180 << 16, 0x4000_0000];
    for (matrix, movie_matrix) in [
        (quarter_turn(180), UNITY),
        (upside_down, UNITY),
        (UNITY, quarter_turn(180)),
        (quarter_turn(180), quarter_turn(180)),
        (UNITY, UNITY),
        ([0; 9], UNITY),
    ] {
        let options =
            QuickTime { matrix: Some(matrix), movie_matrix: Some(movie_matrix), ..QuickTime::default() };
        let stored = quicktime(&source.objects[0], options);
        let mut origin = Origin::of(vec![stored.clone().into()], TARGET).unwrap();
        let in_source = write("turned.mov", &stored);
        let mut want = shown(&in_source);
        fs::remove_file(in_source).unwrap();
        if matrix == [0; 9] {
            // Written by mistake: nobody wants a picture without an area.
            want.0 = String::new();
        }

        let video = init(&mut origin, TrackKind::Video);
        let in_init = write("turned.mp4", &video);
        assert_eq!(shown(&in_init), want, "{options:?}");
        fs::remove_file(in_init).unwrap();
        let tkhd = |file: &[u8]| child(file, &[b"moov", b"trak", b"tkhd"]).to_vec();
        if movie_matrix == UNITY && matrix != [0; 9] {
            let numbers: Vec<u8> = matrix.iter().flat_map(|number| number.to_be_bytes()).collect();
            assert_eq!(tkhd(&video)[40..76], numbers, "the matrix itself, with its offsets");
        }
        let ismv = IsmvFile::new(&origin.title, &[0]).unwrap().header();
        assert_eq!(tkhd(&ismv)[40..84], tkhd(&video)[40..84], "an ismv states the same");
        // The picture's size is that before the transformation.
        assert_eq!(tkhd(&video)[76..84], [1, 0x40, 0, 0, 0, 180, 0, 0]);
        let audio = init(&mut origin, TrackKind::Audio);
        assert!(tkhd(&audio)[40..76].starts_with(&0x1_0000_i32.to_be_bytes()));
    }
}

/// A player that limits the picture to the size of its window took the wrong renditions.
#[test]
fn manifests_stated_the_size_before_the_rotation() {
    let source = Source::files(&[avc_aac()]);
    for (matrix, shown) in [(quarter_turn(180), [180, 320]), (UNITY, [320, 180])] {
        let options = QuickTime { matrix: Some(matrix), ..QuickTime::default() };
        let stored = quicktime(&source.objects[0], options);
        let mut origin = Origin::of(vec![stored.into()], TARGET).unwrap();
        let mpd = origin.text(&Resource::DashManifest(DashTemplate::Time));
        let mpd = dash_mpd_core::parse(&mpd).unwrap();
        let set = mpd.periods[0].adaptations.iter().find(|set| set.maxWidth.is_some()).unwrap();
        let representation = &set.representations[0];
        let sizes = [(set.maxWidth, set.maxHeight), (representation.width, representation.height)];
        assert_eq!(sizes, [(Some(shown[0]), Some(shown[1])); 2], "{options:?}");
        assert_eq!(set.par.as_deref(), Some(if shown[0] > shown[1] { "16:9" } else { "9:16" }));
        // TS cannot state the rotation.
        for (query, [width, height]) in [("?hls_fmp4", shown), ("", [320, 180])] {
            let (text, playlist) = multivariant(&mut origin, query);
            for variant in &playlist.variants {
                let resolution = variant.resolution.unwrap();
                assert_eq!((resolution.width, resolution.height), (width, height), "{text}");
            }
        }
    }
}
