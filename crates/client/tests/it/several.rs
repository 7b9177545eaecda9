//! Manifests of several periods, timelines and init segments, and manifests with text.

use crate::manifests::{known, listed, read, sidx};
use latemux_client::presentation::{Container, Index, MediaKind, Presentation};

/// Returns three periods. The second one is shorter than its timeline and has no audio; the third
/// one states its start.
pub(crate) fn periods() -> String {
    let set = |kind: &str, inside: &str| {
        format!(r#"<AdaptationSet contentType="{kind}" mimeType="{kind}/mp4">{inside}</AdaptationSet>"#)
    };
    let template = |scale: u64, offset: u64, lines: &str| {
        format!(
            r#"<SegmentTemplate timescale="{scale}" presentationTimeOffset="{offset}" initialization="$RepresentationID$.mp4" media="$RepresentationID$-$Time$.m4s"><SegmentTimeline>{lines}</SegmentTimeline></SegmentTemplate>"#
        )
    };
    let first = template(1000, 0, r#"<S t="0" d="4000" r="1"/>"#);
    let second = template(90_000, 900_000, r#"<S t="900000" d="270000" r="5"/>"#);
    let third = template(1, 0, r#"<S t="0" d="5"/>"#);
    let two = r#"<Representation id="hi" bandwidth="900"/><Representation id="lo" bandwidth="100"/>"#;
    // Renditions continue by name, even if their bit rates are in another order.
    let turned = r#"<Representation id="hi" bandwidth="90"/><Representation id="lo" bandwidth="950"/>"#;
    let other = r#"<Representation id="ad" bandwidth="500"/><Representation id="ad-hi" bandwidth="1000"/>"#;
    format!(
        r#"<MPD type="static" mediaPresentationDuration="PT20S">
        <Period duration="PT8S"><BaseURL>a/</BaseURL>{}{}</Period>
        <Period duration="PT5S"><BaseURL>b/</BaseURL>{}</Period>
        <Period start="PT15S"><BaseURL>c/</BaseURL>{}{}</Period></MPD>"#,
        set("video", &format!("{first}{two}")),
        set("audio", &format!(r#"{first}<Representation id="s"/>"#)),
        set("video", &format!("{second}{other}")),
        set("video", &format!("{third}{turned}")),
        set("audio", &format!(r#"{third}<Representation id="s"/>"#)),
    )
}

#[test]
fn dash_periods_are_joined() {
    let presentation = read(&periods()).unwrap();
    assert_eq!(
        presentation.sets.iter().map(|set| set.kind).collect::<Vec<_>>(),
        [MediaKind::Video, MediaKind::Audio]
    );
    assert_eq!(
        presentation.sets[0].renditions.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(),
        ["lo", "hi"]
    );
    // Without a rendition of the same name: the highest one whose bit rate is not above its own, or
    // else the lowest.
    let of = |name: &str, ad: &str| {
        vec![
            format!("title/a/{name}-0.m4s @0 +4"),
            format!("title/a/{name}-4000.m4s @4 +4"),
            format!("title/b/{ad}-900000.m4s @8 +3"),
            format!("title/b/{ad}-1170000.m4s @11 +3"),
            format!("title/c/{name}-0.m4s @15 +5"),
        ]
    };
    let low = known(&presentation, 0, 0);
    let high = known(&presentation, 0, 1);
    assert_eq!((listed(&low), listed(&high)), (of("lo", "ad"), of("hi", "ad")));
    let inits: Vec<String> =
        low.groups.iter().map(|group| group.init.as_ref().unwrap().url.to_string()).collect();
    let at = |path: &str| format!("http://media.example:8080/title/{path}");
    assert_eq!(inits, [at("a/lo.mp4"), at("b/ad.mp4"), at("c/lo.mp4")]);
    let timelines: Vec<(u32, Option<i64>, f64)> =
        low.groups.iter().map(|group| (group.timeline, group.origin, group.start)).collect();
    assert_eq!(timelines, [(0, Some(0), 0.0), (1, Some(900_000), 8.0), (2, Some(0), 15.0)]);
    assert_eq!(
        listed(&known(&presentation, 1, 0)),
        ["title/a/s-0.m4s @0 +4", "title/a/s-4000.m4s @4 +4", "title/c/s-0.m4s @15 +5"]
    );
    assert_eq!(
        (low.end(), low.at(-1.0), low.at(7.9), low.at(8.0), low.at(14.5), low.at(99.0)),
        (20.0, 0, 1, 2, 3, 4)
    );
    assert_eq!([0, 1, 2, 3, 4].map(|index| low.group_index(index)), [0, 0, 1, 1, 2]);
}

#[test]
fn dash_periods_may_have_a_segment_index_each() {
    let period = |name: &str| {
        format!(
            r#"<Period duration="PT5S"><AdaptationSet mimeType="video/mp4"><Representation id="v" bandwidth="1">
            <BaseURL>{name}.mp4</BaseURL><SegmentBase indexRange="1000-1055" timescale="10" presentationTimeOffset="5"/></Representation></AdaptationSet></Period>"#
        )
    };
    let presentation = read(&format!("<MPD>{}{}</MPD>", period("a"), period("b"))).unwrap();
    let Index::Joined(periods) = &presentation.sets[0].renditions[0].index else { panic!("one index") };
    let ends: Vec<f64> = periods
        .iter()
        .map(|period| {
            let Index::Deferred(deferred) = period else { panic!("{period:?}") };
            let segments = deferred.read(&deferred.resource.url, &sidx(false)).unwrap();
            assert!(listed(&segments)[0].starts_with("title/"));
            segments.time(0).unwrap().0
        })
        .collect();
    assert!((ends[1] - ends[0] - 5.0).abs() < 1e-9, "{ends:?}");
}

#[test]
fn hls_discontinuities_and_maps_start_groups() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"i.mp4\"\n#EXTINF:4,\na.m4s\n#EXTINF:3.5,\nb.m4s\n\
        #EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"ad.mp4\"\n#EXTINF:4,\nad.m4s\n#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"i.mp4\"\n#EXTINF:4,\nc.m4s\n\
        #EXT-X-MAP:URI=\"j.mp4\"\n#EXTINF:1,\nd.m4s\n#EXT-X-ENDLIST\n";
    let segments = known(&read(text).unwrap(), 0, 0);
    let expected = ["a.m4s @0 +4", "b.m4s @4 +3.5", "ad.m4s @7.5 +4", "c.m4s @11.5 +4", "d.m4s @15.5 +1"];
    assert_eq!(listed(&segments), expected.map(|line| format!("title/{line}")));
    let groups: Vec<(usize, u32, &str)> = segments
        .groups
        .iter()
        .map(|group| (group.first, group.timeline, group.init.as_ref().unwrap().url.path()))
        .collect();
    // A new map alone does not start a timeline.
    assert_eq!(
        groups,
        [(0, 0, "/title/i.mp4"), (2, 1, "/title/ad.mp4"), (3, 2, "/title/i.mp4"), (4, 2, "/title/j.mp4")]
    );
    // A range without offset continues the one before in the same file and group.
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n#EXT-X-BYTERANGE:188@0\nall.ts\n#EXT-X-DISCONTINUITY\n#EXTINF:2,\n#EXT-X-BYTERANGE:188@376\nall.ts\n#EXTINF:2,\n#EXT-X-BYTERANGE:188\nall.ts\n#EXT-X-ENDLIST\n";
    assert_eq!(
        listed(&known(&read(text).unwrap(), 0, 0)),
        ["title/all.ts 0-187 @0 +2", "title/all.ts 376-563 @2 +2", "title/all.ts 564-751 @4 +2"]
    );
}

#[test]
fn text_of_each_protocol_is_found() {
    let text_of = |presentation: &Presentation| {
        let set = presentation.sets.iter().position(|set| set.kind == MediaKind::Text)?;
        let rendition = presentation.sets[set].renditions[0].clone();
        Some(match &rendition.index {
            Index::Known(segments) => (segments.groups[0].container, listed(segments)),
            _ => (Container::Opaque, vec![rendition.name]),
        })
    };
    let with = |set: &str| {
        let video = r#"<AdaptationSet contentType="video"><SegmentTemplate media="$Number$" duration="10"/><Representation id="v" bandwidth="1"/></AdaptationSet>"#;
        read(&format!(r#"<MPD mediaPresentationDuration="PT10S"><Period>{video}{set}</Period></MPD>"#))
            .unwrap()
    };
    let sets = [
        // A single document for the whole title, WebVTT and TTML.
        (
            r#"<AdaptationSet mimeType="text/vtt"><Representation id="t"><BaseURL>t.vtt</BaseURL></Representation></AdaptationSet>"#,
            (Container::WebVtt, vec!["title/t.vtt @0 +10".to_owned()]),
        ),
        (
            r#"<AdaptationSet><Representation id="t" mimeType="application/ttml+xml"><BaseURL>t.ttml</BaseURL></Representation></AdaptationSet>"#,
            (Container::Ttml, vec!["title/t.ttml @0 +10".to_owned()]),
        ),
        // Text in segments, and in fragments. The main set is chosen, not the first.
        (
            r#"<AdaptationSet mimeType="text/vtt"><SegmentTemplate media="t$Number$.vtt" duration="5"/><Representation id="t"/></AdaptationSet>"#,
            (Container::WebVtt, vec!["title/t1.vtt @0 +5".to_owned(), "title/t2.vtt @5 +5".to_owned()]),
        ),
        (
            r#"<AdaptationSet mimeType="text/vtt"/><AdaptationSet mimeType="application/mp4" codecs="stpp.ttml.im1t"><Role value="main"/><SegmentTemplate media="t$Number$.mp4" duration="10"/><Representation id="t"/></AdaptationSet>"#,
            (Container::Cmaf, vec!["title/t1.mp4 @0 +10".to_owned()]),
        ),
    ];
    for (set, expected) in sets {
        assert_eq!(text_of(&with(set)), Some(expected), "{set}");
    }
    // Sets that are not text, or cannot be read, are left out.
    for set in [
        r#"<AdaptationSet contentType="image" mimeType="image/jpeg"/>"#,
        r#"<AdaptationSet mimeType="text/vtt"/>"#,
    ] {
        assert_eq!(text_of(&with(set)), None, "{set}");
    }
    let master = "#EXTM3U\n#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"fr\",URI=\"fr.m3u8\"\n\
        #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"en\",DEFAULT=YES,URI=\"en.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=1x1,SUBTITLES=\"s\"\nv.m3u8\n";
    assert_eq!(text_of(&read(master).unwrap()), Some((Container::Opaque, vec!["en.m3u8".to_owned()])));
    let media = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n0.vtt?a=b\n#EXT-X-ENDLIST\n";
    assert_eq!(known(&read(media).unwrap(), 0, 0).groups[0].container, Container::WebVtt);
    let smooth = |attributes: &str| {
        let stream = |kind: &str| {
            format!(
                r#"<StreamIndex {kind} Url="{{bitrate}}/{{start time}}"><QualityLevel Bitrate="1"/><c t="0" d="20000000"/></StreamIndex>"#
            )
        };
        read(&format!(
            "<SmoothStreamingMedia>{}{}</SmoothStreamingMedia>",
            stream(r#"Type="video""#),
            stream(attributes)
        ))
        .unwrap()
    };
    let subtitles = text_of(&smooth(r#"Type="text" Subtype="CAPT""#));
    assert_eq!(subtitles, Some((Container::Smooth, vec!["title/1/0 @0 +2".to_owned()])));
    assert_eq!(text_of(&smooth(r#"Type="text" Subtype="SCMD""#)), None);
}
