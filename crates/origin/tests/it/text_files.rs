//! Files of text beside the media: they become tracks, without being media themselves.

use crate::{
    client::get,
    server::{Server, config, key, library, sample},
};
use latemux_origin::{OriginConfig, config::TextConfig};
use latemux_storage::Memory;
use std::{sync::Arc, time::Duration};

pub(crate) const SUBRIP: &str = "1\n00:00:01,000 --> 00:00:02,500\nHello <i>there</i>\n\n\
    2\n00:00:02,000 --> 00:00:08,000\nOver a cut & more\n";
const WEBVTT: &str = "WEBVTT\n\nSTYLE\n::cue { color: red }\n\n00:01.000 --> 00:02.000 line:0\nUntertitel\n";
pub(crate) const TTML: &str = "<tt xmlns='http://www.w3.org/ns/ttml' xml:lang='fr'><body><div>\
    <p begin='1s' end='2s'>Bonjour</p></div></body></tt>";

pub(crate) fn film() -> Memory {
    let memory = Memory::new();
    memory.put(key("film/video.mp4"), sample("lighthouse.mp4"));
    memory.put(key("film/eng.srt"), SUBRIP);
    memory.put(key("film/film.deu.sdh.vtt"), WEBVTT);
    memory.put(key("film/signs.eng.forced.vtt"), WEBVTT);
    memory.put(key("film/other.ttml"), TTML);
    memory
}

pub(crate) async fn text(server: &Server, url: &str) -> String {
    let response = get(server.address, url).await;
    let body = String::from_utf8_lossy(&response.body).into_owned();
    assert_eq!(response.status, 200, "{url}: {body}");
    body
}

#[tokio::test]
async fn text_files_of_a_folder_are_tracks_in_hls_and_dash() {
    let server = Server::start(Arc::new(film())).await;
    let master = text(&server, "/film/.m3u8").await;
    let media: Vec<&str> = master.lines().filter(|line| line.contains("TYPE=SUBTITLES")).collect();
    let has = |parts: &[&str]| media.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert_eq!(media.len(), 4, "{master}");
    assert!(has(&["LANGUAGE=\"en\"", "NAME=\"eng\"", "AUTOSELECT=YES", "film-textstream_eng="]), "{master}");
    assert!(has(&["LANGUAGE=\"en\"", "FORCED=YES", "NAME=\"eng (forced)\""]), "{master}");
    assert!(
        has(&["LANGUAGE=\"de\"", "transcribes-spoken-dialog", "NAME=\"deu (for the deaf)\""]),
        "{master}"
    );
    assert!(has(&["LANGUAGE=\"fr\""]), "{master}");
    let mpd = text(&server, "/film/.mpd").await;
    for wanted in ["lang=\"en\"", "value=\"forced-subtitle\"", "value=\"caption\"", "codecs=\"wvtt\""] {
        assert!(mpd.contains(wanted), "{wanted}: {mpd}");
    }
    assert!(mpd.contains("textstream_eng="), "URLs keep the code of the file: {mpd}");

    let playlist = text(&server, "/film/film-textstream_eng=1000.m3u8").await;
    let segments: Vec<&str> = playlist.lines().filter(|line| line.ends_with(".webvtt")).collect();
    assert_eq!(segments.len(), 1, "a cue is not cut: {playlist}");
    let mut all = String::new();
    for segment in &segments {
        let body = text(&server, &format!("/film/{segment}")).await;
        assert!(body.starts_with("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n"), "{body}");
        all += &body;
    }
    assert!(all.contains("\n00:00:01.000 --> 00:00:02.500\nHello <i>there</i>\n"), "{all}");
    assert!(all.contains("\n00:00:02.000 --> 00:00:08.000\nOver a cut &amp; more\n"), "{all}");
    let german = text(&server, "/film/hls/film-textstream_deu=1000-1.webvtt").await;
    assert!(german.contains("MPEGTS:0,") && german.contains("\nSTYLE\n::cue { color: red }\n"), "{german}");
    assert!(german.contains("00:00:01.000 --> 00:00:02.000 line:0\nUntertitel\n"), "{german}");
    let init = get(server.address, "/film/dash/film-textstream_eng=1000.dash").await;
    assert!(init.status == 200 && init.body.windows(6).any(|w| w == b"WEBVTT"));
}

#[tokio::test]
async fn a_changed_text_file_is_served_anew() {
    let memory = Arc::new(film());
    let config = OriginConfig { recheck_after: Duration::ZERO, ..config() };
    let server = Server::with(memory.clone(), config, None).await;
    let url = "/film/film-textstream_eng=1000-1.webvtt";
    let first = get(server.address, url).await;
    memory.put(key("film/eng.srt"), SUBRIP.replace("Hello", "Howdy"));
    // A manifest makes the origin look at the files again.
    text(&server, "/film/.m3u8").await;
    let body = text(&server, url).await;
    assert!(body.contains("Howdy"), "{body}");
    let again = get(server.address, url).await;
    assert_ne!(first.headers.get("etag"), again.headers.get("etag"));
}

#[tokio::test]
async fn a_text_alone_is_a_title_of_dash() {
    let server = Server::start(Arc::new(film())).await;
    assert!(text(&server, "/film/eng.srt/.mpd").await.contains("wvtt"));
}

#[tokio::test]
async fn a_server_manifest_names_text_without_a_track_id() {
    let memory = film();
    let ism = "<smil xmlns=\"http://www.w3.org/2001/SMIL20/Language\"><body><switch>\
        <video src=\"video.mp4\" systemBitrate=\"300000\"><param name=\"trackID\" value=\"1\"/></video>\
        <textstream src=\"other.ttml\" systemLanguage=\"fra\" systemBitrate=\"1000\"/>\
        </switch></body></smil>";
    memory.put(key("film/film.ism"), ism);
    memory.put(key("film/bad.ism"), ism.replace("other.ttml", "missing.ttml"));
    let server = Server::start(Arc::new(memory)).await;
    let master = text(&server, "/film/film.ism/.m3u8").await;
    assert!(master.contains("film-textstream_fra=1000.m3u8"), "{master}");
    assert_eq!(master.matches("TYPE=SUBTITLES").count(), 1, "{master}");
    assert_ne!(get(server.address, "/film/bad.ism/.m3u8").await.status, 200);
}

#[tokio::test]
async fn a_server_manifest_states_labels_and_purposes() {
    let memory = Arc::new(film());
    let ism = |params: &str| {
        format!(
            "<smil xmlns=\"http://www.w3.org/2001/SMIL20/Language\"><body><switch>\
            <video src=\"video.mp4\" systemBitrate=\"300000\"><param name=\"trackID\" value=\"1\"/></video>\
            <audio src=\"video.mp4\" systemBitrate=\"96000\"><param name=\"trackID\" value=\"2\"/>\
            <param name=\"role\" value=\"description\"/></audio>\
            <textstream src=\"film.deu.sdh.vtt\" systemBitrate=\"1000\">{params}</textstream>\
            </switch></body></smil>"
        )
    };
    memory.put(key("film/film.ism"), ism(""));
    let config = OriginConfig { recheck_after: Duration::ZERO, ..config() };
    let server = Server::with(memory.clone(), config, None).await;
    let master = text(&server, "/film/film.ism/.m3u8").await;
    assert!(master.contains("NAME=\"deu (for the deaf)\"") && !master.contains("FORCED"), "{master}");
    assert!(text(&server, "/film/film.ism/.mpd").await.contains("urn:tva:metadata:cs:AudioPurposeCS:2007"));
    let etag = |url: &'static str| {
        let address = server.address;
        async move { get(address, url).await.headers["etag"].clone() }
    };
    let before = etag("/film/film.ism/.mpd").await;
    let params = "<param name=\"label\" value=\"Zeichen &amp; Wunder\"/>\
                  <param name=\"role\" value=\"forced-subtitle\"/>";
    memory.put(key("film/film.ism"), ism(params));
    let master = text(&server, "/film/film.ism/.m3u8").await;
    let line = master.lines().find(|line| line.contains("TYPE=SUBTITLES")).unwrap();
    for wanted in ["NAME=\"Zeichen & Wunder\"", "FORCED=YES", "LANGUAGE=\"de\""] {
        assert!(line.contains(wanted), "{wanted}: {line}");
    }
    assert!(!line.contains("CHARACTERISTICS"), "the role replaces that of the file: {line}");
    assert_ne!(etag("/film/film.ism/.mpd").await, before);
    memory.put(key("film/film.ism"), ism("<param name=\"role\" value=\"captions\"/>"));
    let refused = get(server.address, "/film/film.ism/.mpd").await;
    assert_eq!((refused.status.as_u16(), refused.reason().as_str()), (422, "manifest_malformed"));
}

#[tokio::test]
async fn a_server_manifest_declares_closed_captions() {
    let memory = Arc::new(film());
    let ism = |params: &str| {
        format!(
            "<smil xmlns=\"http://www.w3.org/2001/SMIL20/Language\"><body><switch>\
            <video src=\"video.mp4\" systemBitrate=\"300000\"><param name=\"trackID\" value=\"1\"/>{params}</video>\
            </switch></body></smil>"
        )
    };
    let list = "CC1=eng;CC3=spa;SERVICE1=eng";
    memory.put(key("film/some.ism"), ism(&format!("<param name=\"captions\" value=\"{list}\"/>")));
    memory.put(key("film/none.ism"), ism("<param name=\"captions\" value=\"\"/>"));
    memory.put(key("film/unknown.ism"), ism(""));
    let server = Server::start(memory).await;
    let master = text(&server, "/film/some.ism/.m3u8").await;
    let media: Vec<&str> = master.lines().filter(|line| line.contains("TYPE=CLOSED-CAPTIONS")).collect();
    let want = [
        "#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID=\"cc\",NAME=\"eng\",LANGUAGE=\"en\",DEFAULT=NO,AUTOSELECT=YES,INSTREAM-ID=\"CC1\"",
        "#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID=\"cc\",NAME=\"spa\",LANGUAGE=\"es\",DEFAULT=NO,AUTOSELECT=YES,INSTREAM-ID=\"CC3\"",
        "#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID=\"cc\",NAME=\"eng 2\",LANGUAGE=\"en\",DEFAULT=NO,AUTOSELECT=NO,INSTREAM-ID=\"SERVICE1\"",
    ];
    assert_eq!(media, want, "{master}");
    let variants = |master: &str, wanted: &str| {
        let variants = master.lines().filter(|line| line.starts_with("#EXT-X-STREAM-INF:"));
        let all: Vec<bool> = variants.map(|line| line.contains(wanted)).collect();
        (!all.is_empty() && all.iter().all(|&has| has), all.iter().any(|&has| has))
    };
    assert!(variants(&master, ",CLOSED-CAPTIONS=\"cc\"").0, "{master}");
    let mpd = text(&server, "/film/some.ism/.mpd").await;
    let at = ["608:2015\" value=\"CC1=eng;CC3=spa\"", "708:2015\" value=\"1=lang:eng\"", "<Role"];
    assert!(at.map(|part| mpd.find(part).unwrap_or_else(|| panic!("{part}: {mpd}"))).is_sorted(), "{mpd}");
    let master = text(&server, "/film/none.ism/.m3u8").await;
    assert!(variants(&master, ",CLOSED-CAPTIONS=NONE").0 && !master.contains("TYPE=CLOSED"), "{master}");
    assert!(!text(&server, "/film/none.ism/.mpd").await.contains("Accessibility"));
    let master = text(&server, "/film/unknown.ism/.m3u8").await;
    assert!(!variants(&master, "CLOSED-CAPTIONS").1, "{master}");
}

#[tokio::test]
async fn text_beside_a_single_file_is_part_of_its_title_if_configured() {
    let memory = Arc::new(library_of_files());
    let config = OriginConfig { recheck_after: Duration::ZERO, ..config() };
    let off = Server::with(memory.clone(), config.clone(), None).await;
    assert!(!text(&off, "/films/one.mp4/.m3u8").await.contains("TYPE=SUBTITLES"));
    let on = OriginConfig { text: TextConfig { beside: true }, ..config };
    let server = Server::with(memory.clone(), on, None).await;
    let subtitles = |master: &str| -> Vec<String> {
        let lines = master.lines().filter(|line| line.contains("TYPE=SUBTITLES"));
        lines
            .map(|line| line.split("NAME=\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
            .collect()
    };
    let master = text(&server, "/films/one.mp4/.m3u8").await;
    assert_eq!(subtitles(&master), ["eng", "eng (for the deaf)", "deu"], "{master}");
    let segment = text(&server, "/films/one.mp4/one-textstream_eng=1000-1.webvtt").await;
    assert!(segment.contains("Hello <i>there</i>"), "{segment}");
    assert_eq!(subtitles(&text(&server, "/films/two.mp4/.m3u8").await), ["fra"], "a bad text is left out");
    // A new file is found when the title is compared with storage.
    memory.put(key("films/two.ita.srt"), SUBRIP);
    assert_eq!(subtitles(&text(&server, "/films/two.mp4/.m3u8").await), ["fra", "ita"]);
    // A folder, and a file of text by itself, are titles as before.
    assert!(text(&server, "/films/one.eng.srt/.mpd").await.contains("wvtt"));
    let missing = get(server.address, "/films/three.mp4/.m3u8").await;
    assert_eq!(missing.status, 404, "text alone is no film");
}

/// Returns two films in one folder with text beside them.
fn library_of_files() -> Memory {
    let memory = Memory::new();
    for (name, body) in [
        ("one.eng.srt", SUBRIP),
        ("one.eng.sdh.srt", SUBRIP),
        ("one.deu.vtt", WEBVTT),
        ("one.part2.eng.srt", SUBRIP),
        ("onesie.eng.srt", SUBRIP),
        ("two.fra.ttml", TTML),
        ("two.eng.vtt", "not a text"),
        ("three.eng.srt", SUBRIP),
    ] {
        memory.put(key(&format!("films/{name}")), body);
    }
    for name in ["one.mp4", "two.mp4"] {
        memory.put(key(&format!("films/{name}")), sample("lighthouse.mp4"));
    }
    memory
}

#[tokio::test]
async fn the_library_lists_no_text() {
    let memory = library();
    memory.put(key("notes.vtt"), WEBVTT);
    let server = Server::start(memory).await;
    let listed = text(&server, "/api/library").await;
    assert!(!listed.contains("notes.vtt") && listed.contains("lighthouse.mp4"), "{listed}");
}
