//! Labels and roles that files state, as ffmpeg writes them, in the manifests of all protocols.

use crate::player::{BASE, fetch, multivariant};
use latemux_testmedia::{
    origin::Origin,
    recipe::{folder, make},
};
use std::{fs, path::PathBuf, time::Duration};

/// Makes a film with five tracks of audio and four of text, for each of the purposes that ffmpeg
/// can state.
fn film() -> PathBuf {
    let text = folder().join(format!("labels-{}.srt", std::process::id()));
    fs::write(&text, "1\n00:00:01,000 --> 00:00:02,000\nHello\n").unwrap();
    let sine = "-f lavfi -i sine=frequency=300:sample_rate=48000:duration=4 ".repeat(5);
    let texts = format!("-i {} ", text.display()).repeat(4);
    let maps: String = (0..10).map(|input| format!("-map {input} ")).collect();
    let languages: String = (0..5).map(|i| format!("-metadata:s:a:{i} language=eng ")).collect();
    let of_text: String = (0..4).map(|i| format!("-metadata:s:s:{i} language=eng ")).collect();
    let path = make(
        "labels",
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=160x90:rate=25:duration=4 {sine}{texts}{maps}{languages}{of_text} \
             -c:v libx264 -preset ultrafast -g 50 -pix_fmt yuv420p -c:a aac -ac 2 -c:s mov_text \
             -metadata:s:v:0 title=Picture -metadata:s:a:1 title=\"A\"&Ω \
             -disposition:a:0 visual_impaired+default -disposition:a:1 default -disposition:a:2 comment+default \
             -disposition:a:3 dub+default -disposition:a:4 default \
             -disposition:s:0 forced+default -disposition:s:1 hearing_impaired+default \
             -disposition:s:2 default -disposition:s:3 comment+default -metadata:s:s:3 title=Remarks"
        ),
    );
    let _ = fs::remove_file(text);
    path
}

#[test]
fn titles_and_dispositions_of_ffmpeg_are_labels_and_roles() {
    let mut origin = Origin::open(&[film()], Duration::from_secs(2));
    let (text, playlist) = multivariant(&mut origin, "");
    let named = |kind: &str| -> Vec<(String, String, bool, bool)> {
        let of_kind = playlist.alternatives.iter().filter(|a| a.group_id == kind);
        let row = |a: &m3u8_rs::AlternativeMedia| {
            let characteristics = a.characteristics.clone().unwrap_or_default();
            (a.name.clone(), characteristics.replace("public.accessibility.", ""), a.default, a.autoselect)
        };
        of_kind.map(row).collect()
    };
    let row = |name: &str, characteristics: &str, default, autoselect| {
        (name.to_owned(), characteristics.to_owned(), default, autoselect)
    };
    // Plain audio plays by default, though the file begins with that for the blind.
    assert_eq!(
        named("audio"),
        [
            row("'A'&Ω", "", true, true),
            row("eng (dubbed)", "", false, true),
            row("eng", "", false, false),
            row("eng (described)", "describes-video", false, true),
            row("eng (commentary)", "", false, true),
        ],
        "{text}"
    );
    let deaf = "transcribes-spoken-dialog,describes-music-and-sound";
    assert_eq!(
        named("subtitles"),
        [
            row("eng", "", false, true),
            row("eng (for the deaf)", deaf, false, true),
            row("eng (forced)", "", false, true),
            row("Remarks", "", false, true),
        ],
        "{text}"
    );
    assert_eq!(text.matches("FORCED=YES").count(), 1, "{text}");

    let mpd = String::from_utf8(fetch(&mut origin, &format!("{BASE}.mpd")).unwrap().bytes).unwrap();
    let document = roxmltree::Document::parse(&mpd).unwrap();
    let sets = document
        .descendants()
        .filter(|node| node.has_tag_name(("urn:mpeg:dash:schema:mpd:2011", "AdaptationSet")));
    let stated: Vec<String> = sets
        .map(|set| {
            let known = set.children().filter_map(|child| match child.tag_name().name() {
                "Label" => Some(format!("Label={}", child.text().unwrap())),
                name @ ("Accessibility" | "Role") => {
                    let scheme = child.attribute("schemeIdUri").unwrap().rsplit(':').nth(1).unwrap();
                    Some(format!("{name}={scheme}:{}", child.attribute("value").unwrap()))
                }
                _ => None,
            });
            known.collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(
        stated,
        [
            "Role=role:main",
            "Label=\"A\"&Ω Role=role:main",
            "Role=role:dub",
            "Role=role:main",
            "Accessibility=AudioPurposeCS:1 Role=role:description",
            "Role=role:commentary",
            "Role=role:subtitle",
            "Role=role:caption",
            "Role=role:forced-subtitle",
            "Label=Remarks Role=role:commentary",
            "",
        ],
        "{mpd}"
    );
    let smooth = String::from_utf8(fetch(&mut origin, &format!("{BASE}Manifest")).unwrap().bytes).unwrap();
    let subtypes: Vec<&str> = smooth.split("Subtype=\"").skip(1).map(|rest| &rest[..4]).collect();
    assert_eq!(subtypes, ["DESC", "SUBT", "CAPT", "SUBT", "SUBT"], "{smooth}");
}
