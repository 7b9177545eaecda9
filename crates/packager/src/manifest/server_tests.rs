use super::*;
use proptest::prelude::*;
use std::time::Instant;

const UNIFIED: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<!-- Created with Unified Streaming Platform(version=1.11.20) -->
<smil xmlns="http://www.w3.org/2001/SMIL20/Language">
  <head>
    <meta name="clientManifestRelativePath" content="harbour.ismc" />
    <meta name="creator" content="Unified Streaming Platform (USP)" />
    <meta name="hls_client_manifest_version" content="4" />
  </head>
  <body>
    <switch>
      <audio src="harbour-audio.isma" systemBitrate="128000" systemLanguage="eng">
        <param name="trackID" value="1" valueType="data" />
        <param name="trackName" value="audio" valueType="data" />
        <param name="timescale" value="48000" valueType="data" />
        <param name="FourCC" value="AACL" valueType="data" />
        <param name="CodecPrivateData" value="1190" valueType="data" />
        <param name="AudioTag" value="255" valueType="data" />
        <param name="Channels" value="2" valueType="data" />
        <param name="SamplingRate" value="48000" valueType="data" />
        <param name="BitsPerSample" value="16" valueType="data" />
        <param name="PacketSize" value="4" valueType="data" />
      </audio>
      <video src="harbour&amp;1080.ismv" systemBitrate="5200000">
        <param name="trackid" value=" 2 " valuetype="data" />
        <param name="trackName" value="camera-1" valueType="data" />
        <param name="avc_profile" value="100" valueType="data" />
      </video>
      <ref src="nobody" />
      <textstream src="harbour.ismt" systemBitrate="1000" systemLanguage="pt-BR">
        <param name="trackID" value="1" valueType="data" />
      </textstream>
    </switch>
  </body>
</smil>"#;

#[test]
fn a_manifest_of_unified_streaming_is_parsed() {
    let manifest = parse(UNIFIED.as_bytes()).unwrap();
    let shown: Vec<_> = manifest
        .elements
        .iter()
        .map(|e| (e.kind, e.src.as_str(), e.track_id, e.track_name(&Language::unknown()).to_string(), e.line))
        .collect();
    assert_eq!(
        shown,
        [
            (TrackKind::Audio, "harbour-audio.isma", 1, "audio_eng=128000".to_owned(), 11),
            (TrackKind::Video, "harbour&1080.ismv", 2, "camera_1=5200000".to_owned(), 23),
            (TrackKind::Text, "harbour.ismt", 1, "textstream_pt-BR=1000".to_owned(), 29),
        ]
    );
    let bom = format!("\u{feff}{UNIFIED}");
    assert_eq!(parse(bom.as_bytes()), Ok(manifest));
}

#[test]
fn labels_and_purposes_are_read_and_replace_those_of_the_file() {
    let read = |kind: &str, params: &[(&str, &str)]| {
        let params: String = params
            .iter()
            .map(|(name, value)| format!("<param name=\"{name}\" value=\"{value}\"/>"))
            .collect();
        let element = format!(
            "<{kind} src=\"a.mp4\" systemBitrate=\"1\"><param name=\"trackID\" value=\"1\"/>{params}</{kind}>"
        );
        parse(with(&element).as_bytes()).map(|manifest| {
            let element = manifest.elements.into_iter().next().unwrap();
            (element.label, element.role, element.forced)
        })
    };
    assert_eq!(read("audio", &[]), Ok((None, None, None)));
    let label = Some("Director's & more".to_owned());
    assert_eq!(read("audio", &[("label", " Director's &amp; more ")]), Ok((label, None, None)));
    for (kind, params, role, forced) in [
        ("audio", &[("role", "description")][..], Some(Role::Description), Some(false)),
        (
            "audio",
            &[("accessibility", "public.accessibility.describes-video")],
            Some(Role::Description),
            None,
        ),
        ("audio", &[("role", "main")], Some(Role::Plain), Some(false)),
        ("textstream", &[("role", "caption,forced-subtitle")], Some(Role::Captions), Some(true)),
        (
            "textstream",
            &[("accessibility", "transcribes-spoken-dialog describes-music-and-sound")],
            Some(Role::Captions),
            None,
        ),
        ("textstream", &[("forced", "TRUE")], None, Some(true)),
        ("textstream", &[("role", "forced-subtitle"), ("forced", "false")], Some(Role::Plain), Some(false)),
    ] {
        assert_eq!(read(kind, params), Ok((None, role, forced)), "{params:?}");
    }
    let long = "x".repeat(513);
    for (params, problem) in [
        ([("role", "captions")], "unknown role \"captions\""),
        ([("accessibility", "sdh")], "unknown accessibility \"sdh\""),
        ([("forced", "maybe")], "wrong value \"maybe\" of forced"),
        ([("label", &*long)], "the label has 513 bytes"),
    ] {
        let error = read("textstream", &params).unwrap_err();
        assert_eq!(error.reason(), "manifest_malformed");
        assert!(error.to_string().ends_with(problem), "{error}");
    }
}

#[test]
fn captions_of_video_are_listed_or_refused() {
    let read = |kind: &str, list: &str| {
        let element = format!(
            "<{kind} src=\"a.mp4\" systemBitrate=\"1\"><param name=\"trackID\" value=\"1\"/>\
             <param name=\"captions\" value=\"{list}\"/></{kind}>"
        );
        parse(with(&element).as_bytes()).map(|manifest| {
            let listed = manifest.elements[0].captions.clone().unwrap();
            listed.iter().map(|of| format!("{}={}", of.channel, of.language)).collect::<Vec<_>>().join(";")
        })
    };
    for (list, want) in
        [("CC1=eng;SERVICE1=spa", "CC1=eng;SERVICE1=spa"), (" CC3=pt-BR , ", "CC3=pt-BR"), ("", "")]
    {
        assert_eq!(read("video", list).as_deref(), Ok(want), "{list}");
    }
    for (kind, list, problem) in [
        ("video", "CC5=eng", "wrong captions \"CC5=eng\": not CC1 to CC4 or SERVICE1 to SERVICE63"),
        ("video", "CC1", "wrong captions \"CC1\": no language"),
        ("video", "CC1=und", "wrong captions \"CC1=und\": no language"),
        ("video", "CC1=eng;CC1=spa", "CC1 is listed twice in captions"),
        ("audio", "CC1=eng", "captions of something else than video"),
    ] {
        let error = read(kind, list).unwrap_err();
        assert!(error.reason() == "manifest_malformed" && error.to_string().ends_with(problem), "{error}");
    }
}

fn refused(xml: &str) -> (&'static str, String) {
    let error = parse(xml.as_bytes()).unwrap_err();
    (error.reason(), error.to_string())
}

fn with(element: &str) -> String {
    format!("<smil xmlns=\"{}\"><body><switch>\n{element}\n</switch></body></smil>", parse::SMIL)
}

#[test]
fn errors_name_the_wrong_element() {
    let id = "<param name=\"trackID\" value=\"1\"/>";
    for (element, message) in [
        (format!("<video systemBitrate=\"1\">{id}</video>"), "<video> in line 2: no src"),
        (format!("<audio src=\"\" systemBitrate=\"1\">{id}</audio>"), "<audio> in line 2: no src"),
        (format!("<video src=\"a.mp4\">{id}</video>"), "<video src=\"a.mp4\"> in line 2: no systemBitrate"),
        (
            format!("<video src=\"a.mp4\" systemBitrate=\"fast\">{id}</video>"),
            "<video src=\"a.mp4\"> in line 2: wrong systemBitrate \"fast\"",
        ),
        (
            format!("<video src=\"a.mp4\" systemBitrate=\"0\">{id}</video>"),
            "<video src=\"a.mp4\"> in line 2: wrong systemBitrate \"0\"",
        ),
        (
            "<audio src=\"a.mp4\" systemBitrate=\"1\"/>".to_owned(),
            "<audio src=\"a.mp4\"> in line 2: no param trackID",
        ),
        (
            "<audio src=\"a.mp4\" systemBitrate=\"1\"><param name=\"trackID\" value=\"0\"/></audio>"
                .to_owned(),
            "<audio src=\"a.mp4\"> in line 2: wrong trackID \"0\"",
        ),
        (
            "<audio src=\"a.mp4\" systemBitrate=\"1\"><param name=\"trackID\" value=\"4294967297\"/></audio>"
                .to_owned(),
            "<audio src=\"a.mp4\"> in line 2: wrong trackID \"4294967297\"",
        ),
    ] {
        assert_eq!(refused(&with(&element)), ("manifest_malformed", message.to_owned()));
    }
    for xml in ["", "<a/>", "<smil/>", "<smil><body><switch/></body></smil>", "not XML", "<smil><body>"] {
        assert_eq!(refused(xml).0, "manifest_malformed", "{xml}");
    }
    assert_eq!(parse(&[0xff, 0xfe, b'<', 0]).unwrap_err().reason(), "manifest_malformed");
}

#[test]
fn hostile_documents_are_refused_quickly() {
    let started = Instant::now();
    let laughs = "<!DOCTYPE smil [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\">]><smil>&b;</smil>";
    let (reason, message) = refused(laughs);
    assert_eq!(reason, "manifest_malformed");
    assert!(message.contains("DTD"), "{message}");
    let outside = "<!DOCTYPE smil SYSTEM \"file:///etc/passwd\"><smil/>";
    assert_eq!(refused(outside).0, "manifest_malformed");
    assert!(refused(&with("<video src=\"&x;\"/>")).1.contains("entity"));
    assert_eq!(parse(&vec![b' '; MAX_BYTES + 1]).unwrap_err().reason(), "manifest_too_large");

    let deep = format!("{}{}", "<a>".repeat(140_000), "</a>".repeat(140_000));
    assert_ne!(refused(&deep).0, "");
    let deep = format!("<smil>{}{}</smil>", "<a>".repeat(40), "</a>".repeat(40));
    assert_eq!(refused(&deep), ("manifest_too_large", "levels of elements: more than 32".to_owned()));
    let many: String = (0..90_000).map(|i| format!(" a{i}=\"\"")).collect();
    assert_eq!(refused(&format!("<smil{many}/>")).0, "manifest_too_large");
    let nested: String = (0..20_000).map(|i| format!("<a xmlns:n{i}=\"{i}\">")).collect();
    assert_eq!(refused(&nested).0, "manifest_too_large");
    let wide = with(
        &"<video src=\"a\" systemBitrate=\"1\"><param name=\"trackID\" value=\"1\"/></video>".repeat(2000),
    );
    assert_eq!(refused(&wide).0, "manifest_too_large");
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn no_input_causes_a_panic(bytes: Vec<u8>, text in "[<>/=\"a-z !&;\\[\\]-]{0,60}") {
        let _ = parse(&bytes);
        let _ = parse(text.as_bytes());
        let _ = parse(with(&text).as_bytes());
    }

    #[test]
    fn every_name_can_be_parsed_from_a_url(
        name in proptest::option::of(".{0,80}|[a-z-]{1,9}|-?(audio|video)-x"),
        language in "[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,2}|video|x-audio-video",
        bitrate in 1..=1_000_000_000_000_u64,
    ) {
        let language = Language::new(&language).unwrap();
        for kind in [TrackKind::Video, TrackKind::Audio, TrackKind::Text] {
            let named = track_name(kind, name.as_deref(), &language, bitrate);
            for base in ["x", "d/video-1.ism"] {
                let resource = Resource::DashSegmentAt(named.clone(), 7);
                let url = Address::new(base.to_owned(), resource.clone()).to_url();
                prop_assert_eq!(Address::parse(&url, None).map(|a| a.resource), Ok(resource));
            }
        }
    }
}
