//! Malformed text and pictures beside good media: each is a problem that is stated, and the title
//! plays without it. What other programs read despite its oddities is read here too.

use crate::{
    client::get,
    log,
    server::{Server, key, sample},
    text_files::{SUBRIP, TTML, film, text},
};
use latemux_storage::Memory;
use latemux_testmedia::{probe::probe, recipe};
use std::{fmt::Write as _, fs, sync::Arc};

/// Returns TTML with more than 200,000 cues in less than 4 MiB: each span begins one of them and
/// ends it. No smaller form has so many within the limits of XML.
fn too_many_cues() -> String {
    let mut text = "<tt xmlns='http://www.w3.org/ns/ttml'><body><div>".to_owned();
    for paragraph in 0..400 {
        let start = 600 * paragraph;
        let _ = write!(text, "<p begin='{start}ms' end='{}ms'>x", start + 600);
        for span in 1..256 {
            let _ = write!(text, "<span begin='{}ms' end='{}ms'>y</span>", 2 * span, 2 * span + 1);
        }
        text.push_str("</p>");
    }
    text + "</div></body></tt>"
}

/// Returns files of text that are refused, each with its reason.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let active: String =
        (0..257).map(|number| format!("00:01.000 --> 00:02.000\ncue {number}\n\n")).collect();
    let open = "<div>".repeat(40);
    let close = "</div>".repeat(40);
    let deep = format!("<tt xmlns='http://www.w3.org/ns/ttml'><body>{open}{close}</body></tt>");
    let rate = TTML.replace("<tt ", "<tt xmlns:p='http://www.w3.org/ns/ttml#parameter' p:frameRate='0' ");
    let long = format!("WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n", "x".repeat(65_537));
    vec![
        ("bad.vtt", b"not a text".to_vec(), "malformed_text"),
        ("header.vtt", b"00:01.000 --> 00:02.000\nx\n".to_vec(), "malformed_text"),
        ("none.vtt", Vec::new(), "malformed_text"),
        ("late.vtt", b"WEBVTT\n\n900:00:00.000 --> 900:00:01.000\nx\n".to_vec(), "malformed_text"),
        ("rate.ttml", rate.into(), "malformed_text"),
        ("bomb.ttml", b"<!DOCTYPE tt [<!ENTITY a 'b'>]><tt>&a;</tt>".to_vec(), "malformed_text"),
        ("latin.srt", b"1\n00:00:01,000 --> 00:00:02,000\ncaf\xE9\n".to_vec(), "text_encoding"),
        ("long.vtt", long.into(), "text_too_large"),
        ("large.vtt", vec![b' '; (4 << 20) + 1], "text_too_large"),
        ("active.vtt", format!("WEBVTT\n\n{active}").into(), "text_too_large"),
        ("deep.ttml", deep.into(), "text_too_large"),
        ("many.ttml", too_many_cues().into(), "text_too_large"),
        ("empty.vtt", b"WEBVTT\n".to_vec(), "no_media"),
        ("never.vtt", b"WEBVTT\n\n00:02.000 --> 00:01.000\nx\n".to_vec(), "no_media"),
    ]
}

#[tokio::test]
async fn each_kind_of_bad_text_is_a_problem_of_a_title_that_plays() {
    log::keep();
    let memory = film();
    for (name, body, _) in refused() {
        assert!(body.len() <= 4 << 20 || name == "large.vtt", "{name} has {} bytes", body.len());
        memory.put(key(&format!("film/{name}")), body);
    }
    let server = Server::start(Arc::new(memory)).await;
    let master = text(&server, "/film/.m3u8").await;
    assert_eq!(master.matches("TYPE=SUBTITLES").count(), 4, "only the good ones: {master}");
    assert!(master.contains("#EXT-X-STREAM-INF"), "{master}");
    for (name, _, reason) in refused() {
        let file = format!("film/{name}");
        let stated = log::lines(&["title=\"film\"", &format!("reason=\"{reason}\""), &file]);
        assert_eq!(stated.len(), 1, "{name}: {stated:?}");
        let response = get(server.address, &format!("/{file}/.mpd")).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (422, reason), "{name}");
    }
    let many = get(server.address, "/film/many.ttml/.mpd").await;
    assert!(String::from_utf8_lossy(&many.body).contains("more cues than 200000"), "{many:?}");
}

#[tokio::test]
async fn a_server_manifest_that_names_bad_text_is_refused() {
    let memory = film();
    let ism = |name: &str| {
        format!(
            "<smil xmlns=\"http://www.w3.org/2001/SMIL20/Language\"><body><switch>\
            <video src=\"video.mp4\" systemBitrate=\"300000\"><param name=\"trackID\" value=\"1\"/></video>\
            <textstream src=\"{name}\" systemLanguage=\"fra\" systemBitrate=\"1000\"/>\
            </switch></body></smil>"
        )
    };
    for (name, body, _) in refused() {
        memory.put(key(&format!("film/{name}")), body);
        memory.put(key(&format!("film/{name}.ism")), ism(name));
    }
    let server = Server::start(Arc::new(memory)).await;
    for (name, _, reason) in refused() {
        let response = get(server.address, &format!("/film/{name}.ism/.m3u8")).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (422, reason), "{name}");
        let body = String::from_utf8_lossy(&response.body).into_owned();
        assert!(body.contains(name), "the message names the file: {body}");
    }
}

#[tokio::test]
async fn odd_text_is_read_as_others_read_it() {
    let memory = film();
    // Two byte order marks, ends of lines of old systems, a zero byte, and cues out of order.
    let odd =
        "\u{feff}\u{feff}WEBVTT\r\r00:03.000 --> 00:04.000\rSecond \0\r\r00:01.000 --> 00:02.000\rFirst\r";
    memory.put(key("film/film.ita.vtt"), odd);
    // Two marks, an arrow in a text, and a cue that ends before it begins.
    let arrow = "\u{feff}\u{feff}1\n00:00:01,000 --> 00:00:02,000\nto the left --> right\n\n\
        2\n00:00:05,000 --> 00:00:04,000\nnever\n\n3\n00:00:03,000 --> 00:00:04,000\nlast\n";
    memory.put(key("film/film.por.srt"), arrow);
    let marked = format!("\u{feff}\u{feff}{}", TTML.replace("Bonjour", "Salve"));
    memory.put(key("film/film.lat.ttml"), marked);
    let server = Server::start(Arc::new(memory)).await;
    let segment = |language: &'static str| {
        let url = format!("/film/film-textstream_{language}=1000-1.webvtt");
        let server = &server;
        async move { text(server, &url).await }
    };
    let italian = segment("ita").await;
    let cues = italian.split_once("\n\n").unwrap().1;
    let want = "00:00:01.000 --> 00:00:02.000\nFirst\n\n00:00:03.000 --> 00:00:04.000\nSecond \u{fffd}\n";
    assert_eq!(cues, want);
    let portuguese = segment("por").await;
    let cues = portuguese.split_once("\n\n").unwrap().1;
    let want =
        "00:00:01.000 --> 00:00:02.000\nto the left --&gt; right\n\n00:00:03.000 --> 00:00:04.000\nlast\n";
    assert_eq!(cues, want);
    assert!(segment("lat").await.ends_with("00:00:01.000 --> 00:00:02.000\nSalve\n"));
}

/// Returns an MP4 of 3GPP text by ffmpeg, and the offset and size of each sample with text.
fn text_in_mp4() -> (Vec<u8>, Vec<(usize, usize)>) {
    let source = recipe::folder().join("bad-text.srt");
    fs::write(&source, SUBRIP.replace("00:00:02,000 -->", "00:00:03,000 -->")).unwrap();
    let path = recipe::make("bad-text", "mp4", &format!("-i {} -c:s mov_text", source.display()));
    let bytes = fs::read(&path).unwrap();
    let samples = probe(&path, &[]).first("subtitle").packets.clone();
    let place = |packet: &latemux_testmedia::probe::Packet| {
        (usize::try_from(packet.pos.unwrap()).unwrap(), usize::try_from(packet.size).unwrap())
    };
    (bytes, samples.iter().map(place).filter(|(_, size)| *size > 2).collect())
}

#[tokio::test]
async fn damaged_samples_of_3gpp_text_show_what_they_hold_and_the_title_plays() {
    let (good, samples) = text_in_mp4();
    let [(first, size), (second, _)] = samples[..] else { panic!("two cues: {samples:?}") };
    let styles = good[first..first + size].windows(4).position(|four| four == b"styl").unwrap();
    for (name, at, value, is_first_shown) in [
        ("the text is longer than its sample", first, u16::MAX, false),
        ("there are more styles than the box holds", first + styles + 4, u16::MAX, true),
        ("the box of styles is larger than the sample", first + styles - 2, u16::MAX, true),
    ] {
        let mut bad = good.clone();
        bad[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let memory = Memory::new();
        memory.put(key("film/video.mp4"), sample("lighthouse.mp4"));
        memory.put(key("film/text.mp4"), bad);
        let server = Server::start(Arc::new(memory)).await;
        let master = text(&server, "/film/.m3u8").await;
        let playlist = master.split("TYPE=SUBTITLES").nth(1).unwrap().split("URI=\"").nth(1).unwrap();
        let playlist = text(&server, &format!("/film/{}", playlist.split('"').next().unwrap())).await;
        let mut all = String::new();
        for segment in playlist.lines().filter(|line| line.contains(".webvtt")) {
            all += &text(&server, &format!("/film/{segment}")).await;
        }
        assert_eq!(all.contains("there"), is_first_shown, "{name}: {all}");
        assert!(all.contains("Over a cut &amp; more"), "{name}: {all}");
        assert_ne!(first, second);
    }
}

#[tokio::test]
async fn bad_thumbnails_are_a_problem_of_a_title_that_plays() {
    log::keep();
    let sheets = "-f lavfi -i testsrc2=size=320x180:rate=10:duration=24 -vf fps=1/2,scale=160:-2,tile=3x2 \
                  -c:v mjpeg -q:v 5";
    let path = recipe::make("bad-thumbs", "mp4", sheets);
    let good = fs::read(&path).unwrap();
    let first = usize::try_from(probe(&path, &[]).first("video").packets[0].pos.unwrap()).unwrap();
    let mut no_jpeg = good.clone();
    assert_eq!(no_jpeg[first..first + 2], [0xFF, 0xD8]);
    no_jpeg[first] = 0;
    let memory = Memory::new();
    let titles = [
        ("thumbs-good", "film.thumbs-3x2.mp4", &good),
        ("thumbs-none", "film.thumbs-0x5.mp4", &good),
        ("thumbs-uneven", "film.thumbs-7x2.mp4", &good),
        ("thumbs-no-jpeg", "film.thumbs-3x2.mp4", &no_jpeg),
    ];
    for (title, name, body) in titles {
        memory.put(key(&format!("{title}/film.mp4")), sample("lighthouse.mp4"));
        memory.put(key(&format!("{title}/{name}")), body.clone());
    }
    let server = Server::start(Arc::new(memory)).await;
    for (title, _, _) in titles {
        let mpd = text(&server, &format!("/{title}/.mpd")).await;
        assert!(mpd.contains("contentType=\"video\""), "{title}: {mpd}");
        let is_good = title == "thumbs-good";
        assert_eq!(mpd.contains("contentType=\"image\""), is_good, "{title}: {mpd}");
        let stated = log::lines(&[&format!("title=\"{title}\""), "reason=\"bad_thumbnails\""]);
        assert_eq!(stated.is_empty(), is_good, "{title}: {stated:?}");
    }
}
