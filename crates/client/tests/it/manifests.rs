//! Manifests written by hand from the standards, with every kind of segment addressing.

use crate::several::periods;
use latemux_client::{
    manifest::{self, ManifestError},
    presentation::{Container, Index, MediaKind, Presentation, Protocol, Rendition, Segments},
};
use proptest::prelude::*;
use std::sync::Arc;
use url::Url;

const AT: &str = "http://media.example:8080/title/manifest";

pub(crate) fn read(text: &str) -> Result<Presentation, ManifestError> {
    manifest::read(&Url::parse(AT).unwrap(), text.as_bytes())
}

/// Returns the segments of a rendition, by the indexes of its set and of the rendition.
pub(crate) fn known(presentation: &Presentation, set: usize, rendition: usize) -> Arc<Segments> {
    match &presentation.sets[set].renditions[rendition].index {
        Index::Known(segments) => segments.clone(),
        other => panic!("{other:?}"),
    }
}

/// Reads a body as the deferred list of a rendition. Also returns the list's address.
fn deferred(rendition: &Rendition, body: &[u8]) -> (String, Result<Segments, ManifestError>) {
    let Index::Deferred(deferred) = &rendition.index else { panic!("known already") };
    let resource = &deferred.resource;
    let range = resource.range.map(|range| format!(" {range}")).unwrap_or_default();
    (format!("{}{range}", resource.url), deferred.read(&resource.url, body))
}

/// Returns the address of each segment, with its range, start and duration.
pub(crate) fn listed(segments: &Segments) -> Vec<String> {
    let one = |i| {
        let resource = segments.resource(i).unwrap();
        let (start, duration) = segments.time(i).unwrap();
        let range = resource.range.map(|range| format!(" {range}")).unwrap_or_default();
        let url = resource.url.as_str().strip_prefix("http://media.example:8080/").unwrap().to_owned();
        format!("{url}{range} @{start} +{duration}")
    };
    (0..segments.entries.len()).map(one).collect()
}

fn init(segments: &Segments) -> String {
    let init = segments.groups[0].init.as_ref().unwrap();
    format!("{}{}", init.url, init.range.map(|range| format!(" {range}")).unwrap_or_default())
}

fn mpd(inside: &str) -> String {
    format!(
        r#"<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT10S">
        <Period><AdaptationSet contentType="video" mimeType="video/mp4">{inside}</AdaptationSet></Period></MPD>"#
    )
}

#[test]
fn dash_templates_with_times_are_read() {
    let text = mpd(
        r#"<SegmentTemplate timescale="1000" presentationTimeOffset="500" initialization="$RepresentationID$.mp4" media="$RepresentationID$-$Time$.m4s">
             <SegmentTimeline><S t="500" d="4000" r="1"/><S d="2000"/></SegmentTimeline></SegmentTemplate>
           <Representation id="hi" bandwidth="900000"/><Representation id="lo" bandwidth="100000"/>"#,
    );
    let presentation = read(&text).unwrap();
    assert_eq!((presentation.protocol, presentation.sets[0].kind), (Protocol::Dash, MediaKind::Video));
    assert_eq!(presentation.sets[0].renditions[0].name, "lo", "by rising bit rate");
    let segments = known(&presentation, 0, 1);
    let expected = ["title/hi-500.m4s @0 +4", "title/hi-4500.m4s @4 +4", "title/hi-8500.m4s @8 +2"];
    assert_eq!(listed(&segments), expected);
    assert_eq!(init(&segments), "http://media.example:8080/title/hi.mp4");
    assert_eq!((segments.groups[0].origin, segments.groups[0].container), (Some(500), Container::Cmaf));
    assert_eq!((segments.at(0.0), segments.at(4.0), segments.at(7.9), segments.at(99.0)), (0, 1, 1, 2));
}

#[test]
fn dash_templates_inherit_from_outer_levels() {
    // Its adaptation set and period state what the representation omits.
    let text = r#"<MPD mediaPresentationDuration="PT10S"><BaseURL>../cdn/</BaseURL><Period>
        <SegmentTemplate timescale="10" startNumber="5"/>
        <AdaptationSet mimeType="audio/mp4"><BaseURL>a/</BaseURL>
          <SegmentTemplate media="n$Number%03d$.m4s"><SegmentTimeline><S d="30" r="-1"/></SegmentTimeline></SegmentTemplate>
          <Representation id="a" bandwidth="1"><SegmentTemplate initialization="i.mp4"/></Representation>
        </AdaptationSet></Period></MPD>"#;
    let segments = known(&read(text).unwrap(), 0, 0);
    let expected =
        ["cdn/a/n005.m4s @0 +3", "cdn/a/n006.m4s @3 +3", "cdn/a/n007.m4s @6 +3", "cdn/a/n008.m4s @9 +3"];
    assert_eq!(listed(&segments), expected);
    assert_eq!(init(&segments), "http://media.example:8080/cdn/a/i.mp4");
}

#[test]
fn dash_templates_with_a_duration_are_read() {
    let text = mpd(
        r#"<SegmentTemplate timescale="1000" duration="4000" startNumber="0" initialization="i.mp4" media="$Number$.m4s"/>
           <Representation id="v" bandwidth="1"/>"#,
    );
    let segments = known(&read(&text).unwrap(), 0, 0);
    assert_eq!(listed(&segments), ["title/0.m4s @0 +4", "title/1.m4s @4 +4", "title/2.m4s @8 +2"]);
    assert!(segments.groups[0].tolerance > 2.0, "times may differ by half a segment");
}

#[test]
fn dash_lists_are_read() {
    let text = mpd(
        r#"<Representation id="v" bandwidth="1"><BaseURL>v.mp4</BaseURL><SegmentList timescale="10" duration="50">
             <Initialization range="0-99"/><SegmentURL mediaRange="100-199"/><SegmentURL media="other.m4s"/></SegmentList></Representation>"#,
    );
    let segments = known(&read(&text).unwrap(), 0, 0);
    assert_eq!(listed(&segments), ["title/v.mp4 100-199 @0 +5", "title/other.m4s @5 +5"]);
    assert_eq!(init(&segments), "http://media.example:8080/title/v.mp4 0-99");
}

/// Returns a `sidx` of two subsegments of 2 s. The first one starts 8 bytes after the box.
pub(crate) fn sidx(is_index: bool) -> Vec<u8> {
    let mut body: Vec<u8> = Vec::new();
    let mut put = |n: u32| body.extend(n.to_be_bytes());
    for n in [0x38, u32::from_be_bytes(*b"sidx"), 0, 1, 1000, 0, 8, 2] {
        put(n);
    }
    for size in [300 | u32::from(is_index) << 31, 400] {
        for n in [size, 2000, 0x9000_0000] {
            put(n);
        }
    }
    body
}

#[test]
fn dash_files_with_a_segment_index_are_read() {
    let text = mpd(r#"<Representation id="v" bandwidth="1"><BaseURL>v.mp4</BaseURL>
             <SegmentBase indexRange="100-155"><Initialization range="0-99"/></SegmentBase></Representation>"#);
    let presentation = read(&text).unwrap();
    let rendition = &presentation.sets[0].renditions[0];
    let (url, segments) = deferred(rendition, &sidx(false));
    assert_eq!(url, "http://media.example:8080/title/v.mp4 100-155");
    let segments = segments.unwrap();
    assert_eq!(listed(&segments), ["title/v.mp4 164-463 @0 +2", "title/v.mp4 464-863 @2 +2"]);
    assert_eq!(init(&segments), "http://media.example:8080/title/v.mp4 0-99");
    assert_eq!(deferred(rendition, &sidx(true)).1.unwrap_err().reason(), "manifest_unsupported");
    assert_eq!(deferred(rendition, b"<html>").1.unwrap_err().reason(), "manifest_invalid");
}

#[test]
fn dash_plays_the_main_audio_and_one_video_coding() {
    let template = r#"<SegmentTemplate duration="5" media="$RepresentationID$-$Number$"/>"#;
    let text = format!(
        r#"<MPD mediaPresentationDuration="PT10S"><Period>{template}
        <AdaptationSet contentType="audio" lang="fr"><Role schemeIdUri="urn:mpeg:dash:role:2011" value="alternate"/><Representation id="fr"/></AdaptationSet>
        <AdaptationSet contentType="audio" lang="en"><Role schemeIdUri="urn:mpeg:dash:role:2011" value="main"/><Representation id="en"/></AdaptationSet>
        <AdaptationSet contentType="video"><EssentialProperty schemeIdUri="http://dashif.org/guidelines/trickmode" value="1"/><Representation id="trick"/></AdaptationSet>
        <AdaptationSet contentType="video"><Representation id="avc" codecs="avc1.64001f"/><Representation id="hevc" codecs="hvc1.1.6.L93.B0"/></AdaptationSet>
        <AdaptationSet contentType="text"><Representation id="t"/></AdaptationSet></Period></MPD>"#
    );
    let presentation = read(&text).unwrap();
    let names: Vec<Vec<&str>> = presentation
        .sets
        .iter()
        .map(|set| set.renditions.iter().map(|r| r.name.as_str()).collect())
        .collect();
    assert_eq!(names, [vec!["avc"], vec!["en"], vec!["t"]]);
}

#[test]
fn hls_variants_with_an_audio_group_are_read() {
    let master = "#EXTM3U\n#EXT-X-VERSION:6\n\
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"fr\",LANGUAGE=\"fr\",URI=\"fr.m3u8\"\n\
        #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"en\",LANGUAGE=\"en\",DEFAULT=YES,URI=\"en.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360,CODECS=\"avc1.64001f,mp4a.40.2\",AUDIO=\"a\"\nhi.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=100000,AVERAGE-BANDWIDTH=90000,RESOLUTION=320x180,CODECS=\"avc1.64001f,mp4a.40.2\",AUDIO=\"a\"\nlo.m3u8\n\
        #EXT-X-STREAM-INF:BANDWIDTH=50000,CODECS=\"mp4a.40.2\",AUDIO=\"a\"\nsound.m3u8\n\
        #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=40000,URI=\"i.m3u8\"\n";
    let presentation = read(master).unwrap();
    assert_eq!(presentation.protocol, Protocol::Hls);
    let names: Vec<(MediaKind, Vec<(&str, u64)>)> = presentation
        .sets
        .iter()
        .map(|set| (set.kind, set.renditions.iter().map(|r| (r.name.as_str(), r.bandwidth)).collect()))
        .collect();
    let expected = [
        (MediaKind::Video, vec![("lo.m3u8", 90_000), ("hi.m3u8", 900_000)]),
        (MediaKind::Audio, vec![("en.m3u8", 0)]),
    ];
    assert_eq!(names, expected);

    let media = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"init.mp4\"\n\
        #EXTINF:4.0,\na.m4s\n#EXTINF:2.5,\nb.m4s\n#EXT-X-ENDLIST\n";
    let (url, segments) = deferred(&presentation.sets[0].renditions[0], media.as_bytes());
    assert_eq!(url, "http://media.example:8080/title/lo.m3u8");
    let segments = segments.unwrap();
    assert_eq!(listed(&segments), ["title/a.m4s @0 +4", "title/b.m4s @4 +2.5"]);
    assert_eq!(
        (segments.groups[0].container, init(&segments).as_str()),
        (Container::Cmaf, "http://media.example:8080/title/init.mp4")
    );
    let nested = deferred(&presentation.sets[0].renditions[0], master.as_bytes()).1;
    assert_eq!(nested.unwrap_err().reason(), "manifest_invalid");
}

#[test]
fn hls_segments_may_be_byte_ranges() {
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\
        #EXTINF:2,\n#EXT-X-BYTERANGE:188@376\nall.ts\n#EXTINF:2,\n#EXT-X-BYTERANGE:376\nall.ts\n\
        #EXTINF:1,\nlast.ts\n#EXT-X-ENDLIST\n";
    let presentation = read(text).unwrap();
    let segments = known(&presentation, 0, 0);
    let expected = ["title/all.ts 376-563 @0 +2", "title/all.ts 564-939 @2 +2", "title/last.ts @4 +1"];
    assert_eq!(listed(&segments), expected);
    assert_eq!((presentation.sets[0].kind, segments.groups[0].container), (MediaKind::Muxed, Container::Ts));
    let encrypted = text.replace(
        "#EXTINF:2,\n#EXT-X-BYTERANGE:188",
        "#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXTINF:2,\n#EXT-X-BYTERANGE:188",
    );
    assert_eq!(known(&read(&encrypted).unwrap(), 0, 0).groups[0].container, Container::Opaque);
}

#[test]
fn smooth_streaming_manifests_are_read() {
    let text = r#"<SmoothStreamingMedia MajorVersion="2" MinorVersion="2" Duration="60000000">
        <StreamIndex Type="video" Name="video" Url="QualityLevels({bitrate})/Fragments(video={start time})">
          <QualityLevel Index="0" Bitrate="900000"/><QualityLevel Index="1" Bitrate="300000"/>
          <c t="10000000" d="20000000" r="2"/><c/><c t="70000000" d="5000000"/></StreamIndex>
        <StreamIndex Type="audio" TimeScale="1000" Url="Q({bitrate})/F(a={start time})"><QualityLevel Bitrate="64000"/>
          <c d="2000"/><c d="1000"/></StreamIndex></SmoothStreamingMedia>"#;
    let presentation = read(text).unwrap();
    let video = known(&presentation, 0, 0);
    let at = |time: u64| format!("title/QualityLevels(300000)/Fragments(video={time})");
    let expected = [
        format!("{} @1 +2", at(10_000_000)),
        format!("{} @3 +2", at(30_000_000)),
        format!("{} @5 +2", at(50_000_000)),
        format!("{} @7 +0.5", at(70_000_000)),
    ];
    assert_eq!(listed(&video), expected);
    assert_eq!(
        listed(&known(&presentation, 1, 0)),
        ["title/Q(64000)/F(a=0) @0 +2", "title/Q(64000)/F(a=2000) @2 +1"]
    );
}

/// Returns bootstrap information of three fragments of 4 s, from number 2 on, and a last one of 1.5
/// s. A segment holds two fragments.
fn abst() -> Vec<u8> {
    let full = |kind: &[u8; 4], payload: Vec<u8>| {
        let mut out = u32::try_from(payload.len() + 12).unwrap().to_be_bytes().to_vec();
        out.extend(kind);
        out.extend([0; 4]);
        out.extend(payload);
        out
    };
    let mut asrt = vec![0, 0, 0, 0, 2];
    for n in [1_u32, 2, 2, 2] {
        asrt.extend(n.to_be_bytes());
    }
    let mut afrt = 1000_u32.to_be_bytes().to_vec();
    afrt.extend([0, 0, 0, 0, 3]);
    for (first, time, duration) in [(2_u32, 500_u64, 4000_u32), (5, 12_500, 1500), (0, 0, 0)] {
        afrt.extend(first.to_be_bytes());
        afrt.extend(time.to_be_bytes());
        afrt.extend(duration.to_be_bytes());
    }
    afrt.push(0);
    let mut abst = 1_u32.to_be_bytes().to_vec();
    abst.push(0);
    abst.extend(1000_u32.to_be_bytes());
    abst.extend([0; 16]);
    abst.extend(b"movie\0");
    abst.extend([0, 0, 0, 0, 1]);
    abst.extend(full(b"asrt", asrt));
    abst.push(1);
    abst.extend(full(b"afrt", afrt));
    full(b"abst", abst)
}

#[test]
fn hds_bootstrap_information_may_be_inline_or_external() {
    use base64::Engine as _;
    let inside = base64::engine::general_purpose::STANDARD.encode(abst());
    let manifest = |bootstrap: &str| {
        format!(
            r#"<manifest xmlns="http://ns.adobe.com/f4m/1.0"><streamType>recorded</streamType><baseURL>http://media.example:8080/b</baseURL>
            {bootstrap}<media bitrate="900" url="hi-" bootstrapInfoId="x"/><media bitrate="100" url="lo-" bootstrapInfoId="x"/>
            <media alternate="true" type="audio" url="fr-" bootstrapInfoId="x"/></manifest>"#
        )
    };
    let expected = [
        "b/lo-Seg1-Frag2 @0.5 +4",
        "b/lo-Seg1-Frag3 @4.5 +4",
        "b/lo-Seg2-Frag4 @8.5 +4",
        "b/lo-Seg2-Frag5 @12.5 +1.5",
    ];
    let presentation =
        read(&manifest(&format!("<bootstrapInfo profile='named' id='x'>\n  {inside}\n</bootstrapInfo>")))
            .unwrap();
    assert_eq!(presentation.sets[0].renditions.len(), 2);
    assert_eq!(listed(&known(&presentation, 0, 0)), expected);
    let presentation = read(&manifest("<bootstrapInfo profile='named' id='x' url='x.abst'/>")).unwrap();
    let (url, segments) = deferred(&presentation.sets[0].renditions[0], &abst());
    assert_eq!(url, "http://media.example:8080/b/x.abst");
    assert_eq!(listed(&segments.unwrap()), expected);
}

#[test]
fn unsupported_and_invalid_manifests_have_different_reasons() {
    let unsupported = [
        r#"<MPD type="dynamic"><Period/></MPD>"#.to_owned(),
        r#"<MPD type="static" xmlns:xlink="http://www.w3.org/1999/xlink"><Period xlink:href="p.xml"/></MPD>"#
            .to_owned(),
        mpd(r#"<Representation id="v" bandwidth="1"><BaseURL>v.mp4</BaseURL></Representation>"#),
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\na.ts\n".to_owned(),
        r#"<SmoothStreamingMedia IsLive="TRUE"/>"#.to_owned(),
        r#"<manifest xmlns="http://ns.adobe.com/f4m/2.0"><media href="other.f4m"/></manifest>"#.to_owned(),
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nfile:///etc/passwd\n".to_owned(),
    ];
    for text in unsupported {
        assert_eq!(read(&text).unwrap_err().reason(), "manifest_unsupported", "{text}");
    }
    let invalid = [
        mpd(r#"<SegmentTemplate media="$Number$"/><Representation id="v" bandwidth="1"/>"#),
        mpd(r#"<SegmentTemplate media="$Nr$" duration="1"/><Representation id="v" bandwidth="1"/>"#),
        mpd(r#"<SegmentTemplate timescale="0" media="$Number$" duration="1"/><Representation id="v" bandwidth="1"/>"#),
        r#"<MPD></MPD>"#.to_owned(),
        r#"<MPD type="static"><Period/><Period/></MPD>"#.to_owned(),
        "#EXTM3U\n#EXT-X-ENDLIST\n".to_owned(),
        r#"<SmoothStreamingMedia><StreamIndex Type="video" Url="{start time}"><c d="1"/></StreamIndex></SmoothStreamingMedia>"#.to_owned(),
        r#"<manifest><media url="x"/></manifest>"#.to_owned(),
        r#"<manifest><bootstrapInfo>%%%</bootstrapInfo><media url="x"/></manifest>"#.to_owned(),
    ];
    for text in invalid {
        assert_eq!(read(&text).unwrap_err().reason(), "manifest_invalid", "{text}");
    }
}

/// Such numbers once became the largest ones, so that segments had wrong names.
#[test]
fn numbers_that_overflow_are_refused() {
    let last = u64::MAX;
    let segments = |attributes: &str, inside: &str| {
        mpd(&format!(
            "<SegmentTemplate media='$Time$' {attributes}>{inside}</SegmentTemplate>\
             <Representation id='v' bandwidth='1'/>"
        ))
    };
    let chunks = format!(
        "<SmoothStreamingMedia><StreamIndex Type='video' Url='{{start time}}'><QualityLevel Bitrate='1'/>\
         <c t='7' d='{last}'/></StreamIndex></SmoothStreamingMedia>"
    );
    let kilobits = format!(
        "<manifest xmlns='http://ns.adobe.com/f4m/1.0'><bootstrapInfo id='x' url='x.abst'/>\
         <media bitrate='{last}' url='v-' bootstrapInfoId='x'/></manifest>"
    );
    for (text, what) in [
        (segments("", &format!("<SegmentTimeline><S t='7' d='{last}'/></SegmentTimeline>")), "a time"),
        (
            segments(&format!("startNumber='{last}'"), "<SegmentTimeline><S d='9'/></SegmentTimeline>"),
            "a segment number",
        ),
        (segments(&format!("startNumber='{last}' duration='4'"), ""), "a segment number"),
        (segments(&format!("presentationTimeOffset='{}' duration='4'", i64::MAX as u64 + 1), ""), "a time"),
        (chunks, "a time"),
        (kilobits, "a bit rate"),
    ] {
        assert_eq!(read(&text).unwrap_err().to_string(), format!("{what} that is too large"), "{text}");
    }
}

#[test]
fn too_many_segments_are_refused_before_allocation() {
    let texts = [
        mpd(
            r#"<SegmentTemplate media="$Time$"><SegmentTimeline><S d="1" r="99999999999"/></SegmentTimeline></SegmentTemplate>
            <Representation id="v" bandwidth="1"/>"#,
        ),
        mpd(r#"<SegmentTemplate timescale="999999999" duration="1" media="$Number$"/><Representation id="v" bandwidth="1"/>"#),
        r#"<SmoothStreamingMedia><StreamIndex Type="video" Url="{start time}"><QualityLevel Bitrate="1"/><c d="1" r="99999999999"/></StreamIndex></SmoothStreamingMedia>"#
            .to_owned(),
    ];
    for text in texts {
        assert_eq!(read(&text).unwrap_err().reason(), "manifest_too_large", "{text}");
    }
    let many = "<S d='1' r='99999'/>".repeat(200);
    let many = mpd(&format!(
        "<SegmentTemplate media='$Time$'><SegmentTimeline>{many}</SegmentTimeline></SegmentTemplate><Representation id='v' bandwidth='1'/>"
    ));
    assert_eq!(read(&many).unwrap_err().reason(), "manifest_too_large");
}

/// Returns one manifest of each kind, to be damaged at random positions.
fn examples() -> Vec<String> {
    use base64::Engine as _;
    let inside = base64::engine::general_purpose::STANDARD.encode(abst());
    vec![
        mpd(
            r#"<SegmentTemplate timescale="1000" media="$RepresentationID$-$Time%05d$"><SegmentTimeline><S t="5" d="4000" r="-1"/></SegmentTimeline></SegmentTemplate><Representation id="hi" bandwidth="9"/>"#,
        ),
        mpd(r#"<Representation id="v"><SegmentList duration="5"><SegmentURL mediaRange="100-199"/></SegmentList></Representation>"#),
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MAP:URI=\"i\",BYTERANGE=\"5@0\"\n#EXTINF:2,\n#EXT-X-BYTERANGE:188@376\na.ts\n#EXT-X-ENDLIST\n"
            .to_owned(),
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=900000,RESOLUTION=640x360,CODECS=\"avc1\"\nhi.m3u8\n".to_owned(),
        r#"<SmoothStreamingMedia TimeScale="10"><StreamIndex Type="video" Url="{start time}"><QualityLevel Bitrate="1"/><c t="1" d="1" r="3"/></StreamIndex></SmoothStreamingMedia>"#
            .to_owned(),
        format!("<manifest><bootstrapInfo>{inside}</bootstrapInfo><media url='x'/></manifest>"),
        periods(),
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MAP:URI=\"i\"\n#EXTINF:2,\na.mp4\n#EXT-X-DISCONTINUITY\n#EXT-X-MAP:URI=\"j\"\n#EXTINF:2,\nb.mp4\n#EXT-X-ENDLIST\n"
            .to_owned(),
    ]
}

proptest! {
    #[test]
    fn no_manifest_makes_it_panic(
        which in 0..8_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
    ) {
        let mut bytes = examples()[which].clone().into_bytes();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(presentation) = manifest::read(&Url::parse(AT).unwrap(), &bytes) {
            for rendition in presentation.sets.iter().flat_map(|set| &set.renditions) {
                if let Index::Known(segments) = &rendition.index {
                    prop_assert!(!segments.entries.is_empty());
                    let _ = (segments.resource(0), segments.time(0), segments.end(), segments.at(1.0));
                }
            }
        }
    }

    #[test]
    fn no_segment_index_or_bootstrap_makes_it_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        bootstrap in any::<bool>(),
    ) {
        let mut bytes = if bootstrap { abst() } else { sidx(false) };
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let text = if bootstrap {
            "<manifest><bootstrapInfo url='x'/><media url='x'/></manifest>".to_owned()
        } else {
            mpd("<Representation id='v'><SegmentBase indexRange='0-55'/></Representation>")
        };
        let presentation = read(&text).unwrap();
        let _ = deferred(&presentation.sets[0].renditions[0], &bytes).1;
    }
}
