//! `thumbnails`: the file it makes, as ffprobe and `serve` read it.

use crate::{
    client::{get, get_with},
    server::{Server, samples},
    tools::{latemux, said},
};
use latemux_testmedia::{probe::probe, recipe};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

/// Makes a film of 23 s whose brightness rises by 8 a second, from 20.
fn film() -> std::path::PathBuf {
    recipe::make(
        "thumbs-brightness",
        "mp4",
        "-f lavfi -i color=black:size=320x180:rate=10:duration=23,geq=lum='20+8*floor(T+0.001)':cb=128:cr=128 \
         -c:v libx264 -preset ultrafast -qp 0 -g 20 -keyint_min 20 -sc_threshold 0 -pix_fmt yuv420p",
    )
}

/// Returns the mean brightness of a part of a picture, as ffmpeg decodes it.
fn brightness(picture: &Path, [x, y, width, height]: [u32; 4]) -> u32 {
    let filter = format!("crop={width}:{height}:{x}:{y},scale=1:1:flags=area:out_range=tv,format=gray");
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(picture)
        .args(["-vf", &filter, "-f", "rawvideo", "-"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.stdout.len(), 1, "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout[0].into()
}

#[test]
fn tiles_show_the_film_at_the_start_of_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let title = folder.path().join("film");
    fs::create_dir(&title).unwrap();
    let source = title.join("video.mp4");
    fs::copy(film(), &source).unwrap();
    let output = latemux(&["thumbnails", source.to_str().unwrap(), "--every", "2s", "--tiles", "3x2"]);
    assert!(output.status.success(), "{}", said(&output));
    let made = title.join("video.thumbs-3x2.mp4");
    assert_eq!(fs::read_dir(&title).unwrap().count(), 2, "nothing else is left");
    let again = fs::read(&made).unwrap();
    assert!(
        latemux(&["thumbnails", source.to_str().unwrap(), "--every", "2s", "--tiles", "3x2"])
            .status
            .success()
    );
    assert_eq!(fs::read(&made).unwrap(), again, "the same bytes");
    let probed = probe(&made, &[]);
    let stream = probed.first("video");
    let lengths: Vec<i64> = stream.packets.iter().map(|p| p.duration / i64::from(stream.timescale)).collect();
    assert_eq!(lengths, [12, 12]);
    // The file states the grid itself.
    fs::rename(&made, title.join("video.thumbs.mp4")).unwrap();

    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    let storyboard = get(server.address, "/film/film-thumbs.vtt");
    assert_eq!((storyboard.status, storyboard.headers["content-type"].as_str()), (200, "text/vtt"));
    let storyboard = storyboard.text();
    let urls: Vec<&str> = storyboard.lines().filter(|line| line.contains(".jpg")).collect();
    assert_eq!(urls.len(), 12, "{storyboard}");
    for (second, url) in (0..).step_by(2).zip(urls) {
        let (url, area) = url.split_once("#xywh=").unwrap();
        let jpeg = get(server.address, &format!("/film/{url}"));
        assert_eq!(jpeg.status, 200);
        let picture = folder.path().join("sheet.jpg");
        fs::write(&picture, jpeg.body).unwrap();
        let area: Vec<u32> = area.split(',').map(|number| number.parse().unwrap()).collect();
        let seen = brightness(&picture, area.try_into().unwrap());
        assert!(seen.abs_diff(20 + 8 * second) <= 4, "second {second} has brightness {seen}");
    }
}

#[test]
fn sheets_have_ranges_and_etags() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::copy(film(), at("film.mp4")).unwrap();
    assert!(latemux(&["thumbnails", &at("film.mp4"), "--every", "2s"]).status.success());
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    // A comma list names the film and its thumbnails.
    let list = "film,,.thumbs-5x4,.mp4.urlset";
    let storyboard = get(server.address, &format!("/{list}/x-thumbs.vtt"));
    let sheet = storyboard.text().lines().find_map(|line| line.split_once("#xywh=")).unwrap().0.to_owned();
    let url = format!("/{list}/{sheet}");
    let whole = get(server.address, &url);
    assert_eq!((whole.status, whole.headers["content-type"].as_str()), (200, "image/jpeg"));
    assert_eq!(whole.headers["accept-ranges"], "bytes");
    let part = get_with(server.address, &url, &[("Range", "bytes=100-199")]);
    assert_eq!((part.status, &part.body[..]), (206, &whole.body[100..200]));
    let same = get_with(server.address, &url, &[("If-None-Match", &whole.headers["etag"])]);
    assert_eq!((same.status, same.body.len()), (304, 0));
}

#[test]
fn failures_say_what_is_missing_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::copy(format!("{}/lighthouse.mp4", samples()), at("film.mp4")).unwrap();
    let without = Command::new(env!("CARGO_BIN_EXE_latemux"))
        .args(["thumbnails", &at("film.mp4")])
        .env("PATH", folder.path())
        .output()
        .unwrap();
    assert!(!without.status.success());
    assert!(said(&without).contains("no_ffmpeg"), "{}", said(&without));
    fs::write(at("text.mp4"), "no film").unwrap();
    for (args, what) in [
        (vec![at("text.mp4")], "ffmpeg failed"),
        (vec![at("missing.mp4")], "no such file"),
        (vec![at("film.mp4"), "--tiles".into(), "0x5".into()], "two numbers"),
        (vec![at("film.mp4"), "--every".into(), "100ms".into()], "shorter than 1s"),
        (vec![at("film.mp4"), "--width".into(), "161".into()], "not an even number"),
    ] {
        let args: Vec<&str> = ["thumbnails"].into_iter().chain(args.iter().map(String::as_str)).collect();
        let output = latemux(&args);
        assert!(!output.status.success(), "{args:?}");
        assert!(said(&output).contains(what), "{args:?}: {}", said(&output));
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// Makes a film with thumbnails in the folder `film`, and returns the folder around it.
fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let title = folder.path().join("film");
    fs::create_dir(&title).unwrap();
    fs::copy(film(), title.join("video.mp4")).unwrap();
    let made = latemux(&[
        "thumbnails",
        title.join("video.mp4").to_str().unwrap(),
        "--every",
        "2s",
        "--tiles",
        "3x2",
    ]);
    assert!(made.status.success(), "{}", said(&made));
    folder
}

#[test]
fn thumbnails_of_encrypted_titles_are_sent_only_on_purpose() {
    let folder = library();
    let keys = format!("{}/../demo-keys.json", samples());
    for (clear, is_sent) in [("[]", false), ("[\"thumbnails\"]", true)] {
        let config = folder.path().join("latemux.toml");
        let rule = format!(
            "[[drm]]\ntitles = [\"film\"]\ndash = \"cenc\"\nserve_keys = \"open\"\nclear = {clear}\nkeys.file = \"{keys}\"\n"
        );
        fs::write(&config, rule).unwrap();
        let server =
            Server::start(folder.path().to_str().unwrap(), &["--config", config.to_str().unwrap()], &[]);
        let mpd = get(server.address, "/film/.mpd");
        assert_eq!(mpd.status, 200, "{}", mpd.text());
        assert!(mpd.text().contains("ContentProtection"), "{}", mpd.text());
        assert_eq!(mpd.text().contains("contentType=\"image\""), is_sent);
        let storyboard = get(server.address, "/film/film-thumbs.vtt");
        assert_eq!(storyboard.status == 200, is_sent, "{}", storyboard.text());
    }
}

/// Joins the film and its thumbnails in one file.
fn single_file(folder: &Path) {
    let at = |name: &str| folder.join("film").join(name);
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-v", "error", "-i"]).arg(at("video.mp4")).arg("-i").arg(at("video.thumbs-3x2.mp4"));
    ffmpeg.args(["-map", "0", "-map", "1", "-c", "copy"]).arg(folder.join("thumbs-3x2.film.mp4"));
    assert!(ffmpeg.stdin(Stdio::null()).status().unwrap().success());
}

#[test]
fn thumbnails_within_a_single_file_and_behind_its_index_mp4_are_the_same() {
    let folder = library();
    single_file(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = latemux(&["index", &at("thumbs-3x2.film.mp4"), "-o", &at("thumbs-3x2.film.index.mp4")]);
    assert!(made.status.success(), "{}", said(&made));
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    let title = |stem: &str| {
        let storyboard = get(server.address, &format!("/{stem}.mp4/{stem}-thumbs.vtt"));
        assert_eq!(storyboard.status, 200, "{stem}: {}", storyboard.text());
        let text = storyboard.text();
        let url = text.lines().find_map(|line| line.split_once("#xywh")).unwrap().0;
        let sheet = get(server.address, &format!("/{stem}.mp4/{url}"));
        assert_eq!(sheet.status, 200, "{stem}: {url}: {}", sheet.text());
        (text.replace(".index", ""), sheet.body)
    };
    let single = title("thumbs-3x2.film");
    assert!(single.1.starts_with(b"\xFF\xD8") && single.0.contains("xywh=0,0,160,90"), "{}", single.0);
    assert!(title("thumbs-3x2.film.index") == single, "the same storyboard and pictures");
    let manifest = get(server.address, "/thumbs-3x2.film.index.mp4/.mpd");
    assert!(manifest.text().contains("contentType=\"image\""), "{}", manifest.text());
    // Pictures in a file of their own beside a single film are no part of its title.
    fs::copy(at("film/video.mp4"), at("alone.mp4")).unwrap();
    fs::copy(at("film/video.thumbs-3x2.mp4"), at("alone.thumbs-3x2.mp4")).unwrap();
    assert!(!get(server.address, "/alone.mp4/.mpd").text().contains("contentType=\"image\""));
    let listed = get(server.address, "/alone,,.thumbs-3x2,.mp4.urlset/.mpd");
    assert!(listed.text().contains("contentType=\"image\""), "{}", listed.text());
}

#[test]
fn a_server_manifest_states_the_tiles() {
    let folder = library();
    let at = |name: &str| folder.path().join("film").join(name).to_str().unwrap().to_owned();
    let made = latemux(&["manifest", "-o", &at("all.ism"), &at("video.mp4"), &at("video.thumbs-3x2.mp4")]);
    assert!(made.status.success(), "{}", said(&made));
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    let areas = |storyboard: &str| storyboard.matches("xywh=0,0,160,90").count();
    let storyboard = get(server.address, "/film/all.ism/all-thumbs.vtt");
    assert_eq!((storyboard.status, areas(storyboard.text())), (200, 2));

    let text = fs::read_to_string(at("all.ism")).unwrap();
    let tail = text.rfind("<param").unwrap();
    let stated = format!("{}<param name=\"tiles\" value=\"3x1\"/>{}", &text[..tail], &text[tail..]);
    fs::write(at("other.ism"), stated).unwrap();
    let storyboard = get(server.address, "/film/other.ism/other-thumbs.vtt");
    assert_eq!(storyboard.text().matches("xywh=0,0,160,180").count(), 2, "{}", storyboard.text());
}
