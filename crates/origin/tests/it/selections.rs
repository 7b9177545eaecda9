//! Filters, clips and joined segments over HTTP: playlists pass them on, and malformed ones are
//! refused.

use crate::{
    client::{fetch, get},
    server::{Server, crawl_from, library},
};

/// `type=="audio"||MaxHeight<=180`
const FILTER: &str = "filter=type%3D%3D%22audio%22%7C%7CMaxHeight%3C%3D180";

#[tokio::test]
async fn playlists_carry_the_selection_and_all_segments_exist() {
    let server = Server::start(library()).await;
    let at = server.address;
    for base in ["/harbour", "/fragmented.mp4"] {
        for selection in [FILTER, "vbegin=5&vend=11.5", "hls_minimum_fragment_length=9", "vbegin=4&vend=12"] {
            let starts = ["/.m3u8?", "/.m3u8?hls_fmp4&"].map(|start| format!("{base}{start}{selection}"));
            let urls = crawl_from(at, &starts).await;
            let (playlists, segments): (Vec<&String>, Vec<&String>) =
                urls.iter().partition(|url| url.contains(".m3u8"));
            assert!(playlists.len() > 3 && segments.len() > 3, "{selection}: {urls:?}");
            // A clip is passed on with the times at which the title is cut.
            let passed_on = if selection.starts_with("vbegin") { "vbegin=" } else { selection };
            assert!(playlists.iter().all(|url| url.contains(passed_on)), "{playlists:?}");
            assert!(segments.iter().all(|url| !url.contains("filter")), "{segments:?}");
            for url in segments {
                assert_eq!(get(at, url).await.status, 200, "{url}");
            }
        }
    }
}

#[tokio::test]
async fn all_spellings_of_a_filter_select_the_same() {
    let server = Server::start(library()).await;
    let at = server.address;
    let plain = fetch(at, &format!("/harbour/.m3u8?{FILTER}")).await;
    let text = String::from_utf8(plain.to_vec()).unwrap();
    assert_eq!(text.matches("#EXT-X-STREAM-INF").count(), 1, "{text}");
    assert_ne!(plain, fetch(at, "/harbour/.m3u8").await);
    for query in [
        "filter=(type==%22audio%22)||(MaxHeight%3C=180)",
        "filter=type+%3D%3D+%27audio%27+%7C%7C+MaxHeight+%3c%3d+180",
        "filter=type==%22audio%22||type==%22video%22&&MaxHeight%3C=180",
    ] {
        let other = fetch(at, &format!("/harbour/.m3u8?{query}")).await;
        // URLs in the playlist repeat the filter as it was spelled.
        let strip = |text: &[u8]| {
            let text = String::from_utf8(text.to_vec()).unwrap();
            let lines = text.lines().map(|l| l.split_once("?filter").map_or(l, |(l, _)| l).to_owned());
            lines.collect::<Vec<_>>()
        };
        assert_eq!(strip(&other), strip(&plain), "{query}");
    }
}

#[tokio::test]
async fn malformed_selections_are_refused_with_their_reason() {
    let server = Server::start(library()).await;
    let long = format!("filter={}", "(".repeat(4000));
    let deep = format!("filter={}", "(".repeat(100));
    for (query, status, reason) in [
        ("filter=type", 400, "filter_malformed"),
        ("filter=type%3D%3Dvideo", 400, "filter_malformed"),
        ("filter=duration%3E1", 400, "filter_malformed"),
        ("filter=%FF", 400, "filter_malformed"),
        (&long, 400, "filter_malformed"),
        (&deep, 400, "filter_malformed"),
        ("filter=trackID%3D%3D99", 404, "filter_selects_nothing"),
        ("vbegin=3&vend=2", 400, "clip_malformed"),
        ("vbegin=NaN", 400, "clip_malformed"),
        ("vbegin=-1", 400, "clip_malformed"),
        ("vend=99999999999999999999", 400, "clip_malformed"),
        ("vbegin=100000", 404, "clip_empty"),
        ("hls_minimum_fragment_length=x", 400, "parameter_malformed"),
        ("hls_minimum_fragment_length=601", 400, "parameter_malformed"),
    ] {
        for path in ["/harbour/.mpd", "/harbour/.m3u8", "/harbour/Manifest", "/harbour/.f4m"] {
            let response = get(server.address, &format!("{path}?{query}")).await;
            assert_eq!(
                (response.status.as_u16(), response.reason().as_str()),
                (status, reason),
                "{path} {query}"
            );
        }
    }
    // A path that is no resource is refused as such, whatever its query.
    assert_eq!(get(server.address, "/harbour/x.html?filter=x").await.reason(), "no_such_url");
}
