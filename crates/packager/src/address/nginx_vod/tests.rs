use super::*;
use crate::address::{HlsContainer, IFrameNumber};
use latemux_index::{
    media::TrackKind::{self, Audio, Text, Video},
    title::TrackName,
};
use proptest::prelude::*;

fn settings() -> Settings {
    let prefix = |p: &str| Some(p.to_owned());
    let prefixes =
        Prefixes { hls: prefix("/hls/"), dash: prefix("/dash/"), mss: prefix("/mss/"), hds: prefix("/hds/") };
    Settings { prefixes, ..Settings::default() }
}

fn parsed(url: &str) -> Result<NginxVodAddress, AddressError> {
    let (path, query) = url.split_once('?').map_or((url, None), |(p, q)| (p, Some(q)));
    NginxVodAddress::parse(&settings(), path, query).expect("below a prefix")
}

fn picks(list: &str) -> Picks {
    Picks::parse(list).unwrap()
}

#[test]
fn every_form_of_the_table_is_parsed() {
    use HlsContainer::{Auto, Cmaf};
    for (url, base, resource) in [
        ("/hls/x.mp4/master.m3u8", "x.mp4", VodResource::HlsMaster(picks(""), Auto)),
        ("/hls/x.mp4/master-f1.m3u8", "x.mp4", VodResource::HlsMaster(picks("-f1"), Auto)),
        ("/hls/x.mp4/master.m3u8?hls_fmp4", "x.mp4", VodResource::HlsMaster(picks(""), Cmaf)),
        ("/hls/a/b/x.mp4/index.m3u8", "a/b/x.mp4", VodResource::HlsIndex(picks(""), Auto)),
        ("/hls/x.mp4/index-v1-a1.m3u8", "x.mp4", VodResource::HlsIndex(picks("-v1-a1"), Auto)),
        (
            "/hls/x,1,2,.mp4.urlset/index-f2-v1-a1.m3u8",
            "x,1,2,.mp4.urlset",
            VodResource::HlsIndex(picks("-f2-v1-a1"), Auto),
        ),
        ("/hls/x.mp4/iframes-v1-a1.m3u8", "x.mp4", VodResource::HlsIFrames(picks("-v1-a1"), Auto)),
        ("/hls/x.mp4/seg-1-v1-a1.ts", "x.mp4", VodResource::HlsTs(picks("-v1-a1"), 1)),
        ("/hls/x.mp4/seg-12-f3-v1-f1-a2.ts", "x.mp4", VodResource::HlsTs(picks("-f3-v1-f1-a2"), 12)),
        ("/hls/x.mp4/seg-1.ts", "x.mp4", VodResource::HlsTs(picks(""), 1)),
        ("/hls/x.mp4/seg-7-v1.m4s", "x.mp4", VodResource::HlsSegment(picks("-v1"), 7)),
        ("/hls/x.mp4/init-v1-a1.mp4", "x.mp4", VodResource::HlsInit(picks("-v1-a1"))),
        ("/hls/x.mp4/lead-v1.mp4", "x.mp4", VodResource::HlsLeadInit(picks("-v1"))),
        (
            "/hls/x.mp4/iframe-2-v1.ts",
            "x.mp4",
            VodResource::HlsIFrameTs(picks("-v1"), IFrameNumber::first_of(2)),
        ),
        (
            "/hls/x.mp4/iframe-2-3-v1.ts",
            "x.mp4",
            VodResource::HlsIFrameTs(picks("-v1"), IFrameNumber { segment: 2, place: 3 }),
        ),
        (
            "/hls/x.mp4/iframe-2-v1.m4s",
            "x.mp4",
            VodResource::HlsIFrameCmaf(picks("-v1"), IFrameNumber::first_of(2)),
        ),
        ("/dash/x.ism/manifest.mpd", "x.ism", VodResource::DashManifest(picks(""))),
        ("/dash/x/manifest-v0-a1.mpd", "x", VodResource::DashManifest(picks("-v0-a1"))),
        ("/dash/x/init-f1-v1-x3.mp4", "x", VodResource::DashInit(picks("-f1-v1"))),
        ("/dash/x/init-v1.mp4", "x", VodResource::DashInit(picks("-v1"))),
        ("/dash/x/fragment-106-f2-v1-x3.m4s", "x", VodResource::DashSegment(picks("-f2-v1"), 106)),
        ("/dash/x/frag-1-a1-x3.m4s", "x", VodResource::DashSegment(picks("-a1"), 1)),
        ("/mss/x/manifest", "x", VodResource::SmoothManifest(picks(""))),
        ("/mss/x/Manifest", "x", VodResource::SmoothManifest(picks(""))),
        ("/mss/x/manifest-f1", "x", VodResource::SmoothManifest(picks("-f1"))),
        (
            "/mss/x/QualityLevels(128000)/Fragments(audio_eng=20000000)",
            "x",
            VodResource::SmoothFragment(TrackName { stem: "audio_eng".into(), bitrate: 128_000 }, 20_000_000),
        ),
        ("/hds/x/manifest.f4m", "x", VodResource::HdsManifest(picks(""))),
        ("/hds/x/manifest-a1.f4m", "x", VodResource::HdsManifest(picks("-a1"))),
        ("/hds/x/bootstrap-v1-a1.abst", "x", VodResource::HdsBootstrap(picks("-v1-a1"))),
        ("/hds/x/frag-f1-v1-a1-Seg1-Frag3", "x", VodResource::HdsFragment(picks("-f1-v1-a1"), 3)),
        ("/hds/x/frag-v1-a1-Seg1-Frag3?token=1", "x", VodResource::HdsFragment(picks("-v1-a1"), 3)),
        ("/hls/master.m3u8", "", VodResource::HlsMaster(picks(""), Auto)),
    ] {
        let address = parsed(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!((address.base.as_str(), address.resource), (base, resource), "{url}");
        assert_eq!((address.selection, address.tracks), (Selection::default(), Picks::default()));
    }
}

#[test]
fn parameters_are_found_anywhere_in_the_path() {
    for url in [
        "/hls/a/x.mp4/clipFrom/1000/clipTo/60000/tracks/v1-a2/index.m3u8",
        "/hls/tracks/v1-a2/clipTo/60000/a/clipFrom/1000/x.mp4/index.m3u8",
    ] {
        let address = parsed(url).unwrap();
        assert_eq!(address.base, "a/x.mp4");
        let clip = Clip::new(Some(Duration::from_secs(1)), Some(Duration::from_secs(60)));
        assert_eq!(Ok(address.selection.clip), clip);
        let tracks = [Pick::Track(Video, 1), Pick::Track(Audio, 2)];
        assert_eq!(address.tracks.as_slice(), tracks);
        let printed = "/hls/a/x.mp4/clipFrom/1000/clipTo/60000/tracks/v1-a2/index.m3u8";
        assert_eq!(address.to_url(&settings()).as_deref(), Some(printed));
    }
    let address = parsed("/mss/x/clipTo/5/QualityLevels(1)/Fragments(video=0)").unwrap();
    assert_eq!(address.base, "x");
    assert_eq!(address.selection.clip.end(), Some(Duration::from_millis(5)));
}

#[test]
fn errors_have_the_reason_of_their_cause() {
    let long = format!("/hls/{}/master.m3u8", "x".repeat(MAX_PATH));
    let many = format!("/hls/x/master{}.m3u8", "-v1".repeat(200));
    for (url, reason) in [
        ("/hls/x.mp4/seg-0-v1-a1.ts", "index_zero"),
        ("/hls/x.mp4/seg-1-f0-v1.ts", "index_zero"),
        ("/dash/x/fragment-0-v1.m4s", "index_zero"),
        ("/hds/x/frag-v1-Seg1-Frag0", "index_zero"),
        ("/hls/x.mp4/seg-1-q1.ts", "bad_tracks"),
        ("/hls/x.mp4/seg-1-v.ts", "bad_tracks"),
        ("/hls/x.mp4/seg-1-v01.ts", "bad_tracks"),
        ("/hls/x.mp4/seg-1-v1-.ts", "bad_tracks"),
        ("/hls/x.mp4/seg-1-v4294967296.ts", "bad_tracks"),
        ("/hls/x.mp4/master-leng.m3u8", "bad_tracks"),
        ("/hls/x.mp4/index-sseq1-v1.m3u8", "bad_tracks"),
        ("/hls/x.mp4/tracks/x1/master.m3u8", "bad_tracks"),
        ("/hls/x.mp4/tracks/v1/tracks/a1/master.m3u8", "bad_tracks"),
        ("/hls/x.mp4/tracks/master.m3u8", "bad_tracks"),
        ("/hls/x.mp4/clipFrom/soon/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/clipFrom/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/clipTo/5/clipTo/6/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/clipFrom/9/clipTo/9/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/clipTo/1/clipFrom/9/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/clipTo/0/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/clipTo/18446744073709551615/master.m3u8", "clip_malformed"),
        ("/hls/x.mp4/master.m3u8?vbegin=1", "clip_malformed"),
        (&long, "url_too_long"),
        (&many, "url_too_long"),
        ("/hls/", "no_such_url"),
        ("/hls/x.mp4", "no_such_url"),
        ("/hls/x.mp4/", "no_such_url"),
        ("/hls/x.mp4/.m3u8", "no_such_url"),
        ("/hls/x.mp4/manifest.mpd", "no_such_url"),
        ("/hls/x.mp4/masters.m3u8", "no_such_url"),
        ("/hls/x.mp4/seg-v1.ts", "no_such_url"),
        ("/hls/x.mp4/seg-4294967296-v1.ts", "no_such_url"),
        ("/hls/x.mp4/init-v1.m4s", "no_such_url"),
        ("/hls/../x.mp4/master.m3u8", "no_such_url"),
        ("/hls//x.mp4/master.m3u8", "no_such_url"),
        ("/hls/%2e%2e/x.mp4/master.m3u8", "no_such_url"),
        ("/hls/x%2fy.mp4/master.m3u8", "no_such_url"),
        ("/hls/x%00/master.m3u8", "no_such_url"),
        ("/dash/x/seg-1-v1.ts", "no_such_url"),
        ("/hds/x/frag-v1-Seg2-Frag1", "no_such_url"),
        ("/hds/x/frag-v1-Seg1-Frag", "no_such_url"),
        ("/mss/x/QualityLevels(1)/Fragments(video=x)", "no_such_url"),
    ] {
        let error = parsed(url).expect_err(url);
        assert_eq!(error.reason(), reason, "{url}: {error}");
    }
}

#[test]
fn paths_outside_of_all_prefixes_are_left_to_the_native_form() {
    let parse = |settings: &Settings, path: &str| NginxVodAddress::parse(settings, path, None);
    assert_eq!(parse(&Settings::default(), "/hls/x.mp4/master.m3u8"), None);
    assert_eq!(parse(&settings(), "/x.mp4/master.m3u8"), None);
    assert_eq!(parse(&settings(), "/hls"), None);
    // The longest prefix decides. Below `/`, only paths with a name of this form are taken.
    let mut nested = settings();
    nested.prefixes.hls = Some("/".to_owned());
    nested.prefixes.hds = Some("/dash/".to_owned());
    assert!(matches!(parse(&nested, "/x.mp4/index.m3u8"), Some(Ok(a)) if a.base == "x.mp4"));
    assert!(matches!(parse(&nested, "/x.mp4/seg-0.ts"), Some(Err(AddressError::IndexZero))));
    assert_eq!(parse(&nested, "/x.mp4/.m3u8"), None);
    assert!(matches!(parse(&nested, "/dash/x/manifest.f4m"), Some(Ok(_))));
    assert!(matches!(parse(&nested, "/dash/x/manifest.mpd"), Some(Ok(a)) if a.base == "x"));
    assert_eq!(parse(&nested, "/dash/x/index.m3u8"), Some(Err(AddressError::NoSuchUrl)));
}

#[test]
fn names_of_files_can_be_configured() {
    let mut other = settings();
    other.container = HlsContainer::Cmaf;
    other.names.hls_master = "playlist".to_owned();
    other.names.hls_segment = "nv-seg".to_owned();
    other.check().unwrap();
    let parse = |path: &str, query| NginxVodAddress::parse(&other, path, query).unwrap();
    let master = parse("/hls/x/playlist.m3u8", None).unwrap();
    assert_eq!(master.resource, VodResource::HlsMaster(picks(""), HlsContainer::Cmaf));
    assert_eq!(master.to_url(&other).unwrap(), "/hls/x/playlist.m3u8");
    let master = parse("/hls/x/playlist.m3u8", Some("hls_fmp4=false")).unwrap();
    assert_eq!(master.to_url(&other).unwrap(), "/hls/x/playlist.m3u8?hls_fmp4=false");
    assert_eq!(parse("/hls/x/nv-seg-1-v1.ts", None).unwrap().resource, VodResource::HlsTs(picks("-v1"), 1));
    assert_eq!(parse("/hls/x/master.m3u8", None), Err(AddressError::NoSuchUrl));
}

#[test]
fn wrong_settings_are_named() {
    for (key, change) in [
        ("hls", (|p: &mut Settings| p.prefixes.hls = Some("hls/".into())) as fn(&mut Settings)),
        ("dash", |p| p.prefixes.dash = Some("/dash".into())),
        ("mss", |p| p.prefixes.mss = Some("/a//b/".into())),
        ("hds", |p| p.prefixes.hds = Some("/../".into())),
        ("hls", |p| p.prefixes.hls = Some("/a b/".into())),
        ("hls", |p| p.prefixes.hls = Some("//".into())),
        ("hls", |p| p.prefixes.hls = Some(String::new())),
        ("hls", |p| p.prefixes.hls = Some("/_/".into())),
        ("hls_index", |p| p.names.hls_index = "master".into()),
        ("hls_index", |p| p.names.hls_index = "master-2".into()),
        ("hls_segment", |p| p.names.hls_segment = "a/b".into()),
        ("hds_fragment", |p| p.names.hds_fragment = String::new()),
    ] {
        let mut bad = settings();
        change(&mut bad);
        let error = bad.check().unwrap_err();
        assert!(error.starts_with(&format!("{key} = ")), "{error}");
    }
    settings().check().unwrap();
    let mut root = settings();
    root.prefixes = Prefixes { hls: Some("/".into()), dash: Some("/".into()), ..Prefixes::default() };
    root.check().unwrap();
}

fn any_picks() -> impl Strategy<Value = Picks> {
    let kind = prop_oneof![Just(Video), Just(Audio), Just(Text)];
    let pick = prop_oneof![
        (1..=u32::MAX).prop_map(Pick::File),
        (kind, any::<u32>()).prop_map(|(kind, n): (TrackKind, u32)| Pick::Track(kind, n)),
    ];
    prop::collection::vec(pick, 0..6).prop_map(Picks::new)
}

fn any_resource() -> impl Strategy<Value = VodResource> {
    let container = || prop_oneof![Just(HlsContainer::Auto), Just(HlsContainer::Cmaf)];
    let listed = || (any_picks(), container());
    let numbered = || (any_picks(), 1..=u32::MAX);
    let place = || (1..=u32::MAX, 1..=u32::MAX).prop_map(|(segment, place)| IFrameNumber { segment, place });
    let frame = || (any_picks(), place());
    let track =
        ("[^=/\\\\\\p{Cc}]{1,12}", any::<u64>()).prop_map(|(stem, bitrate)| TrackName { stem, bitrate });
    prop_oneof![
        listed().prop_map(|(p, c)| VodResource::HlsMaster(p, c)),
        listed().prop_map(|(p, c)| VodResource::HlsIndex(p, c)),
        listed().prop_map(|(p, c)| VodResource::HlsIFrames(p, c)),
        numbered().prop_map(|(p, n)| VodResource::HlsTs(p, n)),
        numbered().prop_map(|(p, n)| VodResource::HlsSegment(p, n)),
        (any_picks(), 1..=u32::MAX, container()).prop_map(|(p, n, c)| VodResource::HlsText(p, n, c)),
        any_picks().prop_map(VodResource::HlsInit),
        any_picks().prop_map(VodResource::HlsLeadInit),
        frame().prop_map(|(p, n)| VodResource::HlsIFrameTs(p, n)),
        frame().prop_map(|(p, n)| VodResource::HlsIFrameCmaf(p, n)),
        any_picks().prop_map(VodResource::DashManifest),
        any_picks().prop_map(VodResource::DashInit),
        numbered().prop_map(|(p, n)| VodResource::DashSegment(p, n)),
        any_picks().prop_map(VodResource::SmoothManifest),
        (track, any::<u64>()).prop_map(|(t, time)| VodResource::SmoothFragment(t, time)),
        any_picks().prop_map(VodResource::HdsManifest),
        any_picks().prop_map(VodResource::HdsBootstrap),
        numbered().prop_map(|(p, n)| VodResource::HdsFragment(p, n)),
    ]
}

fn any_base() -> impl Strategy<Value = String> {
    let component = "[^/\\\\\\p{Cc}]{1,12}"
        .prop_filter("another meaning", |c| ![".", "..", CLIP_FROM, CLIP_TO, TRACKS].contains(&c.as_str()));
    prop::collection::vec(component, 0..4).prop_map(|c| c.join("/"))
}

fn any_address() -> impl Strategy<Value = NginxVodAddress> {
    let millis = || prop::option::of((0..1_000_000_000_000_u64).prop_map(Duration::from_millis));
    let clip = (millis(), millis()).prop_filter_map("not reversed", |(from, to)| Clip::new(from, to).ok());
    let minimum = prop::option::of((1..600_000_u64).prop_map(Duration::from_millis));
    (any_base(), clip, minimum, any_picks(), any_resource()).prop_map(
        |(base, clip, minimum_segment, tracks, resource)| {
            let selection = Selection { clip, minimum_segment, ..Selection::default() };
            NginxVodAddress { base, selection, tracks, resource }
        },
    )
}

proptest! {
    #[test]
    fn a_printed_url_parses_to_its_address(address in any_address(), cmaf in any::<bool>()) {
        let container = if cmaf { HlsContainer::Cmaf } else { HlsContainer::Auto };
        let settings = Settings { container, ..settings() };
        let url = address.to_url(&settings).unwrap();
        let (path, query) = url.split_once('?').map_or((url.as_str(), None), |(p, q)| (p, Some(q)));
        prop_assert_eq!(NginxVodAddress::parse(&settings, path, query), Some(Ok(address)), "{}", url);
    }

    #[test]
    fn a_parsed_path_prints_to_its_address(
        path in "/(hls|dash|mss|hds)/([a-z]{1,3}/)?((clipFrom|clipTo)/[0-9]{1,3}/)?(tracks/[va][0-9]/)?\
                 (master|index|iframes|seg|init|manifest|fragment|frag|bootstrap|iframe)(-[0-9]{1,2})?(-[fvatx][0-9]){0,3}\
                 (\\.m3u8|\\.ts|\\.m4s|\\.mp4|\\.mpd|\\.f4m|\\.abst|-Seg1-Frag[0-9])?"
    ) {
        let settings = settings();
        if let Some(Ok(address)) = NginxVodAddress::parse(&settings, &path, None) {
            let url = address.to_url(&settings).unwrap();
            prop_assert_eq!(NginxVodAddress::parse(&settings, &url, None), Some(Ok(address)));
        }
    }

    #[test]
    fn no_input_causes_a_panic(path in "/(hls/|dash/|mss/|hds/)?\\PC*", query in "\\PC*") {
        let _ = NginxVodAddress::parse(&settings(), &path, Some(&query));
    }
}
