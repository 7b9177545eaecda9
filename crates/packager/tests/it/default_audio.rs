//! The audio that plays by default is the same in all protocols.

use crate::{
    hds,
    player::{BASE, fetch, multivariant},
    smooth,
};
use latemux_testmedia::origin::Origin;
use latemux_testmedia::recipe::{aac, make};
use std::time::Duration;

#[test]
fn the_default_language_does_not_follow_file_names_and_is_the_same_in_all_protocols() {
    let video = make(
        "default-video",
        "mp4",
        "-f lavfi -i testsrc2=size=160x90:rate=25:duration=6 -c:v libx264 -preset ultrafast -g 50 \
         -keyint_min 50 -sc_threshold 0 -pix_fmt yuv420p -metadata:s:v:0 language=eng",
    );
    let files = [aac("default-a-deu", "deu", ""), aac("default-b-eng", "eng", ""), video];
    let mut origin = Origin::open(&files, Duration::from_secs(2));
    for query in ["", "?hls_fmp4"] {
        let (text, playlist) = multivariant(&mut origin, query);
        let defaults: Vec<_> =
            playlist.alternatives.iter().map(|a| (a.language.as_deref(), a.default)).collect();
        assert_eq!(defaults, [(Some("en"), true), (Some("de"), false)], "{text}");
    }
    let mpd = String::from_utf8(fetch(&mut origin, &format!("{BASE}.mpd")).unwrap().bytes).unwrap();
    let mpd = dash_mpd_core::parse(&mpd).unwrap();
    // The set of I-frames has no role.
    let sets = mpd.periods[0].adaptations.iter().filter(|set| !set.Role.is_empty());
    let roles: Vec<_> =
        sets.map(|set| (set.lang.as_deref(), set.Role[0].value.as_deref().unwrap())).collect();
    assert_eq!(roles, [(Some("en"), "main"), (Some("en"), "main"), (Some("de"), "alternate")]);
    let (_, levels) = smooth::play_at(&mut origin, "");
    let streams: Vec<_> = levels.iter().map(|level| level.stream["Name"].as_str()).collect();
    assert_eq!(streams, ["video_eng", "audio_eng", "audio_deu"]);
    let media = hds::play_at(&mut origin, "");
    assert!(media[0].attributes["url"].starts_with("x-audio_eng="), "{:?}", media[0].attributes);
    assert_eq!(media[1].attributes["lang"], "deu");
}
