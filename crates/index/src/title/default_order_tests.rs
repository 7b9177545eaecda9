use super::*;
use crate::{
    media::IndexSource,
    title::{Title, grid_tests},
};
use latemux_isobmff::boxes::mdhd::Language;
use std::time::Duration;

fn track(kind: TrackKind, language: &str, enabled: bool) -> Track {
    let track = match kind {
        TrackKind::Video => grid_tests::video(25, 500, 1, 40),
        _ => Track { kind, ..grid_tests::audio(939) },
    };
    Track { language: Language::new(language).unwrap(), enabled, ..track }
}

fn audio(language: &str) -> Track {
    track(TrackKind::Audio, language, true)
}

fn video(language: &str) -> Track {
    track(TrackKind::Video, language, true)
}

/// Returns the names of a title's tracks other than video, in its order.
fn order(objects: Vec<Vec<Track>>, order: ObjectOrder) -> Vec<String> {
    let object = |tracks| {
        Arc::new(MediaIndex {
            unpacked: Default::default(),
            object_size: 1 << 40,
            fingerprint: 1,
            tracks,
            left_out: Vec::new(),
            thumbnails: Vec::new(),
            source: IndexSource::SampleTables,
            source_bytes: 0,
            fragment_defaults: Box::default(),
            stamp: None,
            cut_box: None,
            inline: None,
        })
    };
    let objects = objects.into_iter().map(object).collect();
    let title = Title::of_objects(objects, order, Duration::from_secs(4)).unwrap();
    let kind = |t: &&TitleTrack| title.track(t).kind != TrackKind::Video;
    title.tracks().iter().filter(kind).map(|t| t.name.stem.clone()).collect()
}

use ObjectOrder::{ByName, Listed};

#[test]
fn the_name_of_a_file_does_not_outweigh_the_language_of_the_video() {
    let files = || vec![vec![audio("deu")], vec![audio("eng")], vec![video("eng")]];
    assert_eq!(order(files(), ByName), ["audio_eng", "audio_deu"]);
    // Who lists the files states an order.
    assert_eq!(order(files(), Listed), ["audio_deu", "audio_eng"]);
}

#[test]
fn the_name_of_a_file_does_not_outweigh_audio_beside_the_video() {
    let files = vec![vec![audio("deu")], vec![video("und"), audio("eng")]];
    assert_eq!(order(files, ByName), ["audio_eng", "audio_deu"]);
}

#[test]
fn the_order_in_a_file_does_not_outweigh_the_enabled_track() {
    let disabled = |language| track(TrackKind::Audio, language, false);
    let file = || vec![vec![video("deu"), disabled("deu"), audio("eng"), disabled("fra")]];
    for by in [ByName, Listed] {
        assert_eq!(order(file(), by), ["audio_eng", "audio_deu", "audio_fra"]);
    }
}

#[test]
fn the_name_of_a_file_does_not_outweigh_the_language_of_most_tracks() {
    let files = || vec![vec![audio("deu")], vec![audio("eng"), audio("eng")], vec![video("und")]];
    assert_eq!(order(files(), ByName), ["audio_eng", "audio_eng_1", "audio_deu"]);
    assert_eq!(order(files(), Listed), ["audio_deu", "audio_eng", "audio_eng_1"]);
    // The language of the video is stronger, and as many tracks state nothing.
    let spoken = [vec![vec![video("deu")]], files()].concat();
    assert_eq!(order(spoken, ByName)[0], "audio_deu");
    let even = [files(), vec![vec![audio("deu")]]].concat();
    assert_eq!(order(even, ByName)[0], "audio_deu");
    let unknown = vec![vec![audio("deu")], vec![audio("und"), audio("und")]];
    assert_eq!(order(unknown, ByName)[0], "audio_deu");
    // Each kind by itself.
    let text = |language| track(TrackKind::Text, language, true);
    let texts = vec![vec![text("deu")], vec![text("fra"), text("fra"), audio("deu")], vec![audio("eng")]];
    let sorted = ["audio_deu", "audio_eng", "textstream_fra", "textstream_fra_1", "textstream_deu"];
    assert_eq!(order(texts, ByName), sorted);
}

#[test]
fn text_follows_the_same_rule_after_audio() {
    let text = |language| track(TrackKind::Text, language, true);
    let files = vec![vec![text("deu"), audio("deu")], vec![text("eng"), audio("eng")], vec![video("eng")]];
    let sorted = ["audio_eng", "audio_deu", "textstream_eng", "textstream_deu"];
    assert_eq!(order(files, ByName), sorted);
}

/// URLs that were served before keep their names.
#[test]
fn the_order_does_not_change_names() {
    let files = vec![vec![audio("eng")], vec![video("und"), audio("eng")]];
    assert_eq!(order(files, ByName), ["audio_eng_1", "audio_eng"]);
}
