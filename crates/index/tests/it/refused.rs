//! Titles that are refused as a whole, tracks that are left out of a title, and the reasons stated.

use crate::{
    generated::{AVC_AAC, encode, folder, store},
    locating::locate,
};
use bytes::Bytes;
use latemux_index::{IndexError, MediaIndex, Title, locate::limits::Limits, media::TrackKind};
use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

/// A file with `moov` first: track 1 is video, track 2 is audio.
static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = folder(&format!("refused-{}", std::process::id()));
    let made = encode(&folder, "made.mp4", &[&AVC_AAC[..], &["-t", "4"]].concat());
    let file = std::fs::read(store(&made, "first.mp4", &["-movflags", "+faststart"])).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    file
});

/// Overwrites bytes after the `number`th (from 0) occurrence of a type behind the brands.
fn patch(file: &mut [u8], (kind, number): (&[u8; 4], usize), offset: usize, bytes: &[u8]) {
    let moov = file.windows(4).position(|window| window == b"moov").unwrap();
    let found = file[moov..].windows(4).enumerate().filter(|(_, window)| window == kind);
    let at = moov + found.map(|(at, _)| at).nth(number).unwrap() + offset;
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

type Patch<'a> = ((&'a [u8; 4], usize), usize, &'a [u8]);

fn patched(patches: &[Patch<'_>]) -> Arc<MediaIndex> {
    let mut file = FILE.clone();
    patches.iter().for_each(|(place, offset, bytes)| patch(&mut file, *place, *offset, bytes));
    locate(&file.into(), Limits::default()).unwrap().index
}

fn title(indexes: &[&Arc<MediaIndex>]) -> Result<Title, IndexError> {
    Title::new(indexes.iter().copied().cloned().collect(), Duration::from_secs(2))
}

/// The type of a table or box of a track, the reason, and the text of its problem.
const VIDEO_DEFECTS: [(Patch<'_>, &str, &str); 4] = [
    ((((b"stco"), 0), 12, &[0x7f; 4]), "truncated", "track 1 (video, avc1): sample "),
    (((b"avcC", 0), 0, b"free"), "malformed", "track 1 (video, avc1): stsd/avc1: no 'avcC' box"),
    (((b"stss", 0), 8, &[0; 4]), "no_sync_sample", "track 1 (video, avc1): no sync sample"),
    (
        ((b"stts", 0), 0, b"free"),
        "malformed",
        "track 1 (video, avc1): moov/trak/mdia/minf/stbl: no 'stts' box",
    ),
];

#[test]
fn a_film_whose_video_is_damaged_became_an_audio_only_title() {
    assert_eq!(title(&[&patched(&[])]).unwrap().tracks().len(), 2);
    for (defect, reason, detail) in VIDEO_DEFECTS {
        let error = title(&[&patched(&[defect])]).expect_err(detail);
        assert_eq!(error.reason(), reason, "{error}");
        assert!(error.to_string().starts_with(detail), "{error}");
    }
}

#[test]
fn a_film_whose_audio_is_damaged_became_silent() {
    let error = title(&[&patched(&[((b"stco", 1), 12, &[0x7f; 4])])]).unwrap_err();
    assert_eq!(error.reason(), "truncated");
    assert!(error.to_string().starts_with("track 2 (audio, mp4a): sample "), "{error}");
}

#[test]
fn a_damaged_rendition_beside_a_sound_one_is_left_out() {
    for (defect, reason, detail) in VIDEO_DEFECTS {
        let title = title(&[&patched(&[defect]), &patched(&[])]).unwrap();
        assert_eq!(title.of_kind(TrackKind::Video).count(), 1);
        let [problem] = title.problems() else { panic!("{:?}", title.problems()) };
        assert_eq!((problem.object, problem.reason), (Some(0), reason));
        assert!(problem.detail.starts_with(detail), "{problem:?}");
    }
}

#[test]
fn codings_without_a_mapping_are_left_out_and_named() {
    for (patches, detail) in [
        (
            vec![((b"avc1", 0), 0, &b"apch"[..])],
            "track 1 (video, apch): coded in apch, which no output protocol carries",
        ),
        (
            vec![((b"mp4a", 0), 0, b"twos")],
            "track 2 (audio, twos): coded in twos, which no output protocol carries",
        ),
        (
            vec![((b"vide", 0), 0, b"tmcd"), ((b"avc1", 0), 0, b"tmcd")],
            "track 1 (tmcd): coded in tmcd, which no output protocol carries",
        ),
        (
            vec![((b"soun", 0), 0, b"text"), ((b"mp4a", 0), 0, b"text")],
            "track 2 (text): coded in text, which no output protocol carries",
        ),
        // Text and data may even be damaged: the film is whole without them.
        (
            vec![((b"soun", 0), 0, b"subt"), ((b"stco", 1), 12, &[0x7f; 4]), ((b"mp4a", 0), 0, b"wvtt")],
            "track 2 (subt, wvtt): sample ",
        ),
    ] {
        let title = title(&[&patched(&patches)]).unwrap();
        assert_eq!(title.tracks().len(), 1);
        let [problem] = title.problems() else { panic!("{:?}", title.problems()) };
        assert!(problem.detail.starts_with(detail), "{problem:?}");
    }
}

#[test]
fn a_track_of_handler_sbtl_was_said_to_be_coded_in_sbtl() {
    let sbtl = ((b"soun", 0), 0, &b"sbtl"[..]);
    let index = patched(&[sbtl, ((b"mp4a", 0), 0, b"c608")]);
    let problem = index.left_out[0].to_string();
    assert_eq!(problem, "track 2 (sbtl, c608): coded in c608, which no output protocol carries");
    let problem = patched(&[sbtl]).left_out[0].to_string();
    assert_eq!(problem, "track 2 (sbtl, mp4a): mp4a in a track of type sbtl is not supported");
}

#[test]
fn a_refusal_named_the_first_track_and_hid_the_others() {
    let text = [((b"vide", 0), 0, &b"sbtl"[..]), ((b"avc1", 0), 0, b"c608")];
    let damaged = [text[0], text[1], ((b"stco", 1), 12, &[0x7f; 4])];
    let error = title(&[&patched(&damaged)]).unwrap_err();
    assert_eq!(error.reason(), "truncated", "{error}");
    let text = error.to_string();
    assert!(text.starts_with("track 2 (audio, mp4a): sample "), "{text}");
    assert!(
        text.ends_with("; track 1 (sbtl, c608): coded in c608, which no output protocol carries"),
        "{text}"
    );

    let neither = [((b"soun", 0), 0, &b"tmcd"[..]), ((b"mp4a", 0), 0, b"tmcd"), ((b"avc1", 0), 0, b"apch")];
    let error = title(&[&patched(&neither)]).unwrap_err();
    assert_eq!(
        (error.reason(), error.to_string().matches("; track 2 (tmcd)").count()),
        ("unsupported_codec", 1)
    );
}

fn boxed(kind: &[u8; 4], payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, payload].concat()
}

#[test]
fn limits_were_reported_as_damage() {
    let reason = |file: Vec<u8>| {
        let error = locate(&Bytes::from(file), Limits::default()).unwrap_err();
        (error.reason(), error.to_string())
    };
    let free = boxed(b"free", &[]).repeat(20_000);
    let many_boxes = [&boxed(b"ftyp", b"isom\0\0\0\0"), &free, &FILE[..]].concat();
    assert_eq!(reason(many_boxes), ("index_too_large", "more than 4096 boxes before moov".to_owned()));

    let mut mvhd = vec![0; 100];
    mvhd[15] = 1;
    let moov = [boxed(b"mvhd", &mvhd), boxed(b"trak", &[]).repeat(1025)].concat();
    let many_tracks = [boxed(b"ftyp", b"isom\0\0\0\0"), boxed(b"moov", &moov)].concat();
    let (word, text) = reason(many_tracks);
    assert_eq!(word, "index_too_large");
    assert!(text.ends_with("number of trak is 1025, and the limit is 1024"), "{text}");

    // A track of its own, among others.
    let index = patched(&[((b"stsz", 1), 8, &[0, 0, 0, 1, 0x10, 0, 0, 0])]);
    assert_eq!(index.left_out[0].to_string(), "track 2 (audio, mp4a): 268435456 samples, more than 67108864");
    assert_eq!(index.left_out[0].reason(), "index_too_large");
}
