use super::{native::MAX_TRACKS, *};
use crate::selection::{Clip, DashText, Extent, SampleOrder, filter::tests::any_filter};
use latemux_index::title::TrackName;
use proptest::prelude::*;
use std::time::Duration;

fn track(stem: &str, bitrate: u64) -> TrackName {
    TrackName { stem: stem.to_owned(), bitrate }
}

fn parsed(url: &str) -> Option<(String, Resource)> {
    let (path, query) = url.split_once('?').map_or((url, None), |(p, q)| (p, Some(q)));
    Address::parse(path, query).ok().map(|a| (a.base, a.resource))
}

#[test]
fn every_form_of_the_table_is_parsed() {
    use DashTemplate::{Number, Time};
    use HlsContainer::{Auto, Cmaf};
    let video = || track("video", 400_000);
    let audio = || track("audio_eng", 128_000);
    for (url, base, resource) in [
        ("/x.mp4/.mpd", "x.mp4", Resource::DashManifest(Time)),
        ("/a/b/x/any-thing.mpd", "a/b/x", Resource::DashManifest(Time)),
        ("/x/.mpd?mpd_segment_template=number", "x", Resource::DashManifest(Number)),
        ("/x/dash/x-video=400000.dash", "x", Resource::DashInit(video())),
        ("/x/dash/x-video=400000-0.dash", "x", Resource::DashSegmentAt(video(), 0)),
        ("/x/dash/a-b-audio_eng=128000-96256.dash", "x", Resource::DashSegmentAt(audio(), 96256)),
        ("/x/dash/x-video=400000-7.m4s", "x", Resource::DashSegment(video(), 7)),
        ("/x/.m3u8", "x", Resource::HlsMultivariant(Auto)),
        ("/x/y.m3u8?hls_fmp4", "x", Resource::HlsMultivariant(Cmaf)),
        ("/x/y.m3u8?foo=1&hls_fmp4=true", "x", Resource::HlsMultivariant(Cmaf)),
        ("/x/y.m3u8?hls_fmp4=1&bar", "x", Resource::HlsMultivariant(Cmaf)),
        ("/x/y.m3u8?hls_fmp4=false", "x", Resource::HlsMultivariant(Auto)),
        ("/x/x-audio_eng=128000-video=400000.m3u8", "x", Resource::HlsPlaylist(vec![audio(), video()], Auto)),
        ("/x/x-audio_eng=128000-video=400000-12.ts", "x", Resource::HlsTsSegment(vec![audio(), video()], 12)),
        ("/x/-video=400000.m3u8", "x", Resource::HlsPlaylist(vec![video()], Auto)),
        ("/x/hls/x-video=400000.m4s", "x", Resource::HlsInit(vec![video()])),
        ("/x/hls/x-video=400000-3.m4s", "x", Resource::HlsSegment(vec![video()], 3)),
        ("/x/hls/x-video=400000-lead.m4s", "x", Resource::HlsLeadInit(video())),
        ("/x/x-textstream_eng=1000-3.webvtt", "x", Resource::HlsText(track("textstream_eng", 1000), 3, Auto)),
        ("/x/hls/x-textstream=1-3.webvtt", "x", Resource::HlsText(track("textstream", 1), 3, Cmaf)),
        ("/x/keyframes/x-video=400000.m3u8", "x", Resource::HlsIFramePlaylist(video(), Auto)),
        ("/x/keyframes/x-video=400000.m3u8?hls_fmp4", "x", Resource::HlsIFramePlaylist(video(), Cmaf)),
        ("/x/keyframes/x-video=400000-1.ts", "x", Resource::HlsIFrameTs(video(), IFrameNumber::first_of(1))),
        (
            "/x/keyframes/x-video=400000-1-3.ts",
            "x",
            Resource::HlsIFrameTs(video(), IFrameNumber { segment: 1, place: 3 }),
        ),
        ("/x/keyframes/x-video=400000-7.dash", "x", Resource::DashIFrame(video(), 7)),
        (
            "/x/keyframes/x-video=400000-1.m4s",
            "x",
            Resource::HlsIFrameCmaf(video(), IFrameNumber::first_of(1)),
        ),
        ("/x/images/x-thumbs=20000-7.jpg", "x", Resource::ThumbnailSheet(track("thumbs", 20000), 7)),
        ("/x/images/x-thumbs_1=20000.m3u8", "x", Resource::ThumbnailPlaylist(track("thumbs_1", 20000))),
        ("/x/x-thumbs.vtt?vbegin=3", "x", Resource::Storyboard),
        // Titles in folders of this name.
        ("/images/x-video=400000.m3u8", "images", Resource::HlsPlaylist(vec![video()], Auto)),
        ("/images/.m3u8", "images", Resource::HlsMultivariant(Auto)),
        ("/x/dash/x-audio_pt-BR=1.dash", "x", Resource::DashInit(track("audio_pt-BR", 1))),
        ("/x/dash/x-other=1.dash", "x", Resource::DashInit(track("other", 1))),
        ("/x/dash/x=2-video=1.dash", "x", Resource::DashInit(track("video", 1))),
        ("/x_,360,720,.mp4.urlset/.mpd", "x_,360,720,.mp4.urlset", Resource::DashManifest(Time)),
        ("/a%20b/%C3%A9.mp4/.mpd", "a b/é.mp4", Resource::DashManifest(Time)),
        ("/x%2525/.mpd", "x%25", Resource::DashManifest(Time)),
        ("/.mpd", "", Resource::DashManifest(Time)),
        // Folders with these names are titles like any other.
        ("/x/dash/.mpd", "x/dash", Resource::DashManifest(Time)),
        ("/x/keyframes/.mpd", "x/keyframes", Resource::DashManifest(Time)),
        ("/x/keyframes/.m3u8", "x/keyframes", Resource::HlsMultivariant(Auto)),
        ("/x/dash/x-video=400000-1.ts", "x/dash", Resource::HlsTsSegment(vec![video()], 1)),
        ("/x/hls/x-video=400000.m3u8", "x/hls", Resource::HlsPlaylist(vec![video()], Auto)),
        ("/x/Manifest", "x", Resource::SmoothManifest),
        ("/x.mp4/manifest", "x.mp4", Resource::SmoothManifest),
        ("/x/QualityLevels(400000)/Fragments(video=0)", "x", Resource::SmoothFragment(video(), 0)),
        (
            "/x/QualityLevels%28128000%29/Fragments%28audio_eng%3D20000000%29",
            "x",
            Resource::SmoothFragment(audio(), 20_000_000),
        ),
        ("/x/.f4m", "x", Resource::HdsManifest),
        ("/x/any.f4m", "x", Resource::HdsManifest),
        ("/x/x-audio_eng=128000-video=400000.abst", "x", Resource::HdsBootstrap(vec![audio(), video()])),
        (
            "/x/x-audio_eng=128000-video=400000-Seg1-Frag12",
            "x",
            Resource::HdsFragment(vec![audio(), video()], 12),
        ),
    ] {
        assert_eq!(parsed(url), Some((base.to_owned(), resource)), "{url}");
    }
}

#[test]
fn other_paths_are_refused() {
    for url in [
        "/",
        "",
        "/x",
        "/x/",
        "/x/MANIFEST",
        "/x/QualityLevels(400000)/Fragments(video=00)",
        "/x/QualityLevels(400000)/Fragments(=0)",
        "/x/QualityLevels(400000)/Fragments(video=0",
        "/x/QualityLevels(0400000)/Fragments(video=0)",
        "/x/Fragments(video=0)",
        "/Fragments(video=0)",
        "/x/x-video=400000-Seg2-Frag1",
        "/x/x-video=400000-Seg1-Frag0",
        "/x/x-Seg1-Frag1",
        "/x/x.abst",
        "/x/x-textstream=1-0.webvtt",
        "/x/x-textstream=1.webvtt",
        "/x/dash/x-video=0400000.dash",
        "/x/dash/x-video=+4.dash",
        "/x/dash/x-video=400000-.dash",
        "/x/dash/x-video=400000-00.dash",
        "/x/dash/x-video=400000-18446744073709551616.dash",
        "/x/dash/x-video=18446744073709551616.dash",
        "/x/dash/x-video=400000-0.m4s",
        "/x/dash/x-video=400000-4294967296.m4s",
        "/x/dash/x-=1.dash",
        "/x/dash/video=1.dash",
        "/x/dash/x-video=1.mp4",
        "/x/x-video=04.m3u8",
        "/x/x-video=4-01.ts",
        "/x/x-a=1-a=1-a=1-a=1-a=1-a=1-a=1-a=1-a=1-a=1.m3u8",
        "/../x/.mpd",
        "/x/%2e%2e/.mpd",
        "/x/./.mpd",
        "/x//.mpd",
        "/x%2Fy/.mpd",
        "/x%5cy/.mpd",
        "/x%00/.mpd",
        "/x%/.mpd",
        "/x%4/.mpd",
        "/x%zz/.mpd",
        "/x%ff/.mpd",
    ] {
        assert_eq!(parsed(url), None, "{url}");
    }
}

#[test]
fn printed_names_do_not_depend_on_the_request() {
    for (base, name) in [
        ("x.mp4", "x"),
        ("a/b/x.y.mp4", "x.y"),
        ("folder", "folder"),
        (".hidden", ".hidden"),
        ("x_,360,720,.mp4.urlset", "x_%2C360%2C720%2C"),
        ("video=400.mp4", "video_400"),
        ("my-video_1-hd.ism", "my_video_1-hd"),
        ("a-audio=1--textstream_.mp4", "a_audio_1-_textstream_"),
        ("50$ off", "50%24%20off"),
        ("", "title"),
    ] {
        assert_eq!(name_of(base), name, "{base}");
    }
    let a = Address::parse("/x.mp4/some-name.mpd", None).unwrap();
    assert_eq!(a.name(), "x");
    assert_eq!(a.to_url(), "/x.mp4/.mpd");
}

#[test]
fn a_name_is_never_taken_for_the_start_of_a_track() {
    for base in ["my-video_1-hd.ism", "my-video=1-.mp4", "my-video-audio-video=1-hd.mp4"] {
        let address = Address::new(base, Resource::DashInit(track("English", 1)));
        assert_eq!(Address::parse(&address.to_url(), None), Ok(address), "{base}");
    }
    let playlist = Resource::HlsPlaylist(vec![track("audio", 2)], HlsContainer::Auto);
    let address = Address::new("x-Seg1-Frag", playlist);
    assert_eq!(Address::parse(&address.to_url(), None), Ok(address));
}

#[test]
fn iframe_playlists_point_one_folder_up() {
    let video = || track("video", 400_000);
    let playlist = Address::new("x", Resource::HlsIFramePlaylist(video(), HlsContainer::Cmaf));
    let links = Links::new(&playlist);
    assert_eq!(links.hls_init(vec![video()]), "../hls/x-video=400000.m4s");
    let frame = Resource::HlsIFrameCmaf(video(), IFrameNumber::first_of(2));
    assert_eq!(links.hls_segment(&frame, Extent::Whole), "x-video=400000-2.m4s");
    let multivariant = Address::new("x", Resource::HlsMultivariant(HlsContainer::Cmaf));
    let links = Links::new(&multivariant);
    let url = links.hls_iframe_playlist(video(), HlsContainer::Cmaf);
    assert_eq!(url, "keyframes/x-video=400000.m3u8?hls_fmp4");
}

fn any_track() -> impl Strategy<Value = TrackName> {
    let stem = prop_oneof![
        "(video|audio|textstream)(_[a-z]{2,3}(-[A-Z]{2,4})?)?(_[1-9])?",
        // Names that a server manifest may give: any characters but the two separators.
        "[^-=/\\\\\\p{Cc}]{1,12}",
    ];
    (stem, any::<u64>()).prop_map(|(stem, bitrate)| TrackName { stem, bitrate })
}

fn any_thumbs() -> impl Strategy<Value = TrackName> {
    ("thumbs(_[1-9])?", any::<u64>()).prop_map(|(stem, bitrate)| TrackName { stem, bitrate })
}

fn any_resource() -> impl Strategy<Value = Resource> {
    let container = || prop_oneof![Just(HlsContainer::Auto), Just(HlsContainer::Cmaf)];
    let number = || 1..=u32::MAX;
    let tracks = || prop::collection::vec(any_track(), 1..=MAX_TRACKS);
    prop_oneof![
        prop_oneof![Just(DashTemplate::Time), Just(DashTemplate::Number)].prop_map(Resource::DashManifest),
        any_track().prop_map(Resource::DashInit),
        (any_track(), any::<u64>()).prop_map(|(t, time)| Resource::DashSegmentAt(t, time)),
        (any_track(), number()).prop_map(|(t, n)| Resource::DashSegment(t, n)),
        container().prop_map(Resource::HlsMultivariant),
        (tracks(), container()).prop_map(|(t, c)| Resource::HlsPlaylist(t, c)),
        (tracks(), number()).prop_map(|(t, n)| Resource::HlsTsSegment(t, n)),
        (any_track(), number(), container()).prop_map(|(t, n, c)| Resource::HlsText(t, n, c)),
        tracks().prop_map(Resource::HlsInit),
        any_track().prop_map(Resource::HlsLeadInit),
        (tracks(), number()).prop_map(|(t, n)| Resource::HlsSegment(t, n)),
        (any_track(), container()).prop_map(|(t, c)| Resource::HlsIFramePlaylist(t, c)),
        (any_track(), iframe_number()).prop_map(|(t, n)| Resource::HlsIFrameTs(t, n)),
        (any_track(), iframe_number()).prop_map(|(t, n)| Resource::HlsIFrameCmaf(t, n)),
        (any_track(), number()).prop_map(|(t, n)| Resource::DashIFrame(t, n)),
        (any_thumbs(), number()).prop_map(|(t, n)| Resource::ThumbnailSheet(t, n)),
        any_thumbs().prop_map(Resource::ThumbnailPlaylist),
        Just(Resource::Storyboard),
        Just(Resource::SmoothManifest),
        (any_track(), any::<u64>()).prop_map(|(t, time)| Resource::SmoothFragment(t, time)),
        Just(Resource::HdsManifest),
        tracks().prop_map(Resource::HdsBootstrap),
        (tracks(), number()).prop_map(|(t, n)| Resource::HdsFragment(t, n)),
    ]
}

fn iframe_number() -> impl Strategy<Value = IFrameNumber> {
    (1..=u32::MAX, 1..=u32::MAX).prop_map(|(segment, place)| IFrameNumber { segment, place })
}

fn any_base() -> impl Strategy<Value = String> {
    let component = "[^/\\\\\\p{Cc}]{1,12}".prop_filter("no dots alone", |c| c != "." && c != "..");
    prop::collection::vec(component, 0..4).prop_map(|c| c.join("/"))
}

fn any_selection() -> impl Strategy<Value = Selection> {
    let time = || (0_u64..1_000_000, 0_u32..1_000_000_000).prop_map(|(s, ns)| Duration::new(s, ns));
    let clip = (prop::option::of(time()), prop::option::of(time()))
        .prop_map(|(begin, end)| Clip::new(begin, end).unwrap_or_default());
    let minimum = prop::option::of((1_u64..=600_000).prop_map(Duration::from_millis));
    (prop::option::of(any_filter()), clip, minimum).prop_map(|(filter, clip, minimum_segment)| Selection {
        filter,
        clip,
        minimum_segment,
        ..Selection::default()
    })
}

#[test]
fn segments_of_one_track_in_iso_boxes_have_an_order_of_samples() {
    let read = |url: &str, query: &str| {
        let address = Address::parse(url, Some(query)).map_err(|error| error.reason())?;
        Ok::<_, &str>((address.selection.order, address.to_url()))
    };
    let ordered = ["/x/dash/x-video=1-9.dash", "/x/dash/x-video=1-9.m4s", "/x/hls/x-video=1-9.m4s"];
    for url in ordered {
        assert_eq!(read(url, "order=priority"), Ok((SampleOrder::Priority, format!("{url}?order=priority"))));
        assert_eq!(read(url, "order=decode"), Ok((SampleOrder::Decode, url.to_owned())));
        assert_eq!(read(url, "order="), Ok((SampleOrder::Decode, url.to_owned())));
        assert_eq!(read(url, "order=random"), Err("parameter_malformed"));
    }
    let without = [
        "/x/.mpd",
        "/x/.m3u8",
        "/x/dash/x-video=1.dash",
        "/x/hls/x-video=1.m4s",
        "/x/hls/x-video=1-audio=2-9.m4s",
        "/x/x-video=1-9.ts",
        "/x/keyframes/x-video=1-9.m4s",
        "/x/QualityLevels(1)/Fragments(video=9)",
    ];
    for url in without {
        for query in ["order=priority", "order=random"] {
            assert_eq!(read(url, query), Ok((SampleOrder::Decode, url.to_owned())), "{url}?{query}");
        }
    }
}

#[test]
fn urls_of_dash_state_the_form_of_text() {
    let read = |url: &str, query: &str| {
        let address = Address::parse(url, Some(query)).map_err(|error| error.reason())?;
        Ok::<_, &str>((address.selection.text, address.to_url()))
    };
    for url in ["/x/.mpd", "/x/dash/x-text=1.dash", "/x/dash/x-text=1-9.dash", "/x/dash/x-text=1-9.m4s"] {
        assert_eq!(read(url, "text=stpp"), Ok((DashText::Stpp, format!("{url}?text=stpp"))));
        assert_eq!(read(url, "text="), Ok((DashText::Stored, url.to_owned())));
        assert_eq!(read(url, "text=srt"), Err("parameter_malformed"));
    }
    for url in ["/x/.m3u8", "/x/hls/x-text=1-9.m4s", "/x/x-text=1-9.webvtt", "/x/Manifest"] {
        for query in ["text=stpp", "text=srt"] {
            assert_eq!(read(url, query), Ok((DashText::Stored, url.to_owned())), "{url}?{query}");
        }
    }
}

#[test]
fn a_filter_is_parsed_in_every_encoding() {
    let read = |query: &str| {
        let filter = Address::parse("/x/.m3u8", Some(query)).map(|address| address.selection.filter);
        filter.map(|filter| filter.map(|f| f.to_string())).map_err(|e| e.reason())
    };
    let text = r#"type=="audio"&&systemBitrate<=64000"#;
    for query in [
        "filter=type%3D%3D%22audio%22%26%26systemBitrate%3C%3D64000",
        "filter=type==%22audio%22&&systemBitrate%3c=64000",
        "a=b&filter=(type==%22audio%22&&systemBitrate%3c=64000)&hls_fmp4",
        "filter=+type+==+%22audio%22+%26%26+systemBitrate+%3c=+64000",
    ] {
        assert_eq!(read(query), Ok(Some(text.to_owned())), "{query}");
    }
    let query = "hls_fmp4&filter=type=='audio'&&trackID==1&vend=2";
    let address = Address::parse("/x/.m3u8", Some(query)).unwrap();
    let url = "/x/.m3u8?hls_fmp4&filter=type%3D%3D%22audio%22%26%26trackID%3D%3D1&vend=2";
    assert_eq!(address.to_url(), url);
    assert_eq!(read("filter="), Ok(None));
    for query in ["filter=type", "filter=%ff", "filter=type==%22audio%22&&hls_fmp4", "filter=%26%26"] {
        assert_eq!(read(query), Err("filter_malformed"), "{query}");
    }
}

#[test]
fn a_clip_is_parsed_or_refused() {
    let read = |query: &str| Address::parse("/x/.mpd", Some(query)).map(|address| address.selection.clip);
    let clip = |begin: Option<u64>, end: Option<u64>| {
        Ok(Clip::new(begin.map(Duration::from_millis), end.map(Duration::from_millis)).unwrap())
    };
    for (query, expected) in [
        ("vbegin=1.5&vend=20", clip(Some(1500), Some(20_000))),
        ("vbegin=01.500", clip(Some(1500), None)),
        ("vend=0.001", clip(None, Some(1))),
        ("vbegin=0&vend=", clip(None, None)),
        ("vbegin=1&vbegin=2", clip(Some(2000), None)),
        ("vbegin=1.0000000009", clip(Some(1000), None)),
    ] {
        assert_eq!(read(query), expected, "{query}");
    }
    for query in [
        "vbegin=NaN",
        "vbegin=-1",
        "vbegin=+1",
        "vbegin=1e3",
        "vbegin=1.",
        "vbegin=.5",
        "vbegin=1,5",
        "vbegin=inf",
        "vend=99999999999999999999999",
        "vend=1000000000.1",
        "vbegin=2&vend=2",
        "vbegin=2&vend=1.999999999",
        "vend=0",
        "vbegin=%31",
    ] {
        assert_eq!(read(query).map_err(|e| e.reason()), Err("clip_malformed"), "{query}");
    }
    // A path that is no address is refused as such, whatever its query.
    assert_eq!(Address::parse("/x", Some("vend=0")), Err(AddressError::NoSuchUrl));
}

#[test]
fn urls_carry_the_part_of_the_selection_that_their_bytes_depend_on() {
    let query = "hls_fmp4&vbegin=1.5&hls_minimum_fragment_length=8";
    let address = Address::parse("/x/.m3u8", Some(query)).unwrap();
    let links = Links::new(&address);
    let video = || track("video", 400_000);
    assert_eq!(address.to_url(), format!("/x/.m3u8?{query}"));
    assert_eq!(links.hls_playlist(vec![video()], HlsContainer::Cmaf), format!("x-video=400000.m3u8?{query}"));
    assert_eq!(links.hls_init(vec![video()]), "hls/x-video=400000.m4s");
    let segment = Resource::HlsSegment(vec![video()], 3);
    assert_eq!(links.hls_segment(&segment, Extent::Whole), "hls/x-video=400000-3.m4s");
    assert_eq!(
        links.hls_segment(&segment, Extent::Selected),
        "hls/x-video=400000-3.m4s?vbegin=1.5&hls_minimum_fragment_length=8"
    );
}

proptest! {
    #[test]
    fn a_printed_url_parses_to_its_address(
        base in any_base(),
        resource in any_resource(),
        selection in any_selection(),
        by_priority in any::<bool>(),
    ) {
        let by_priority = by_priority && resource.has_sample_order();
        let order = if by_priority { SampleOrder::Priority } else { SampleOrder::Decode };
        let selection = Selection { order, ..selection };
        let address = Address { selection, ..Address::new(base, resource) };
        let url = address.to_url();
        let (path, query) = url.split_once('?').map_or((url.as_str(), None), |(p, q)| (p, Some(q)));
        prop_assert_eq!(Address::parse(path, query), Ok(address), "{}", url);
    }

    #[test]
    fn a_parsed_path_prints_to_its_address(path in "/?([a-z.%]{0,4}/)?(dash/|hls/|keyframes/)?[-=a-z0-9_]{0,24}(\\.mpd|\\.m3u8|\\.dash|\\.m4s|\\.ts|\\.f4m|\\.abst|-Seg1-Frag[0-9]{1,3})") {
        if let Ok(address) = Address::parse(&path, None) {
            let url = address.to_url();
            let (path, query) = url.split_once('?').map_or((url.as_str(), None), |(p, q)| (p, Some(q)));
            prop_assert_eq!(Address::parse(path, query), Ok(address));
        }
    }

    #[test]
    fn no_input_causes_a_panic(path in "\\PC*", query in "\\PC*") {
        let _ = Address::parse(&path, Some(&query));
    }
}
