//! `index` and `manifest`: the files they write, the bytes they read, and failed runs that leave
//! nothing.

use crate::{
    client::get,
    server::{Server, samples},
    store::S3,
};
use latemux_testmedia::{
    probe::{Packet, probe},
    recipe,
};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs the binary until it ends.
pub(crate) fn latemux(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_latemux"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("latemux runs")
}

/// Returns everything that the process wrote.
pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn done(args: &[&str]) -> String {
    let output = latemux(args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    said(&output)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

#[test]
fn an_index_is_read_by_ffprobe_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["lighthouse.mp4", "ferry.mp4", "buoy.mp4"] {
        let shown = name.replace("lighthouse", "light house 50%");
        fs::copy(format!("{}/{name}", samples()), at(&shown)).unwrap();
        done(&["index", &at(&shown)]);
        let index = at(&shown.replace(".mp4", ".index.mp4"));
        let ours = probe(Path::new(&index), &["-enable_drefs", "1"]);
        // Cuts are appended, and ffprobe reads the same.
        let plain = fs::read(&index).unwrap();
        let said = done(&["index", "--cuts", &at(&shown)]);
        let frames = ours.streams.iter().find(|s| s.kind == "video").unwrap().packets.len();
        let with_cuts = fs::read(&index).unwrap();
        let bytes = with_cuts.len() - plain.len();
        assert!(said.contains(&format!("the cuts of {frames} frames take {bytes} bytes\n")), "{said}");
        assert!(with_cuts.starts_with(&plain) && bytes > 4 * frames);
        let again = probe(Path::new(&index), &["-enable_drefs", "1"]);
        assert_eq!(format!("{:?}", again.streams), format!("{:?}", ours.streams));
        let theirs = probe(Path::new(&at(&shown)), &[]);
        assert_eq!(ours.streams.len(), theirs.streams.len());
        for (a, b) in ours.streams.iter().zip(&theirs.streams) {
            // ffprobe counts the times of fragmented files from another origin than those of sample
            // tables.
            let bytes = |packets: &[Packet]| -> Vec<_> {
                let first = packets.first().filter(|_| name == "ferry.mp4").map_or(0, |p| p.dts);
                packets.iter().map(|p| (p.pos, p.size, p.hash.clone(), p.key, p.dts - first)).collect()
            };
            assert!(!a.packets.is_empty() && bytes(&a.packets) == bytes(&b.packets), "{name} {}", a.kind);
        }
    }
    let manifest =
        done(&["manifest", "-o", &at("all.ism"), &at("light house 50%.index.mp4"), &at("ferry.mp4")]);
    assert!(manifest.contains("all.ism"), "{manifest}");
    assert_eq!(names(folder.path()).len(), 7, "{:?}", names(folder.path()));
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    for url in
        ["/all.ism/.mpd", "/all.ism/.m3u8", "/ferry.index.mp4/.mpd", "/light%20house%2050%25.index.mp4/.m3u8"]
    {
        assert_eq!(get(server.address, url).status, 200, "{url}");
    }
    let mpd = get(server.address, "/all.ism/.mpd").body;
    let representations = String::from_utf8_lossy(&mpd).matches("<Representation ").count();
    assert_eq!(representations, 5, "two videos, their audio, and one set of I-frames");
}

#[test]
fn only_headers_are_read() {
    let video = recipe::make(
        "tools-large",
        "mp4",
        "-f lavfi -i nullsrc=size=320x180:rate=25:duration=20,geq=random(1)*255:128:128 -c:v libx264 -preset ultrafast \
         -g 50 -qp 4 -movflags +frag_keyframe+empty_moov+default_base_moof",
    );
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("x.index.mp4");
    let index = index.to_str().unwrap();
    let said = done(&["index", video.to_str().unwrap(), "-o", index, "--location", "/vod/x.mp4"]);
    let number = |before: &str| -> u64 {
        said.split(before).nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    let media = number("bytes for ");
    let read = number("of which ");
    assert!(media > 5_000_000 && read < media / 20, "{said}");
}

#[test]
fn a_failed_run_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::copy(format!("{}/lighthouse.mp4", samples()), at("x.mp4")).unwrap();
    fs::write(at("broken.mp4"), "not an MP4 at all").unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let before = names(folder.path());
    let cases: [(&[&str], &str); 10] = [
        (&["index", &at("missing.mp4")], "missing.mp4"),
        (&["index", &at("broken.mp4")], "not an MP4"),
        (&["index", &at("x.mp4"), "-o", &at("x.mp4")], "is the media file itself"),
        (&["index", &at("x.mp4"), "-o", &at("sub/x.index.mp4")], "--location"),
        (&["index", &at("x.mp4"), "-o", &at("none/x.index.mp4"), "--location", "x"], "none"),
        (
            &["index", &at("x.mp4"), "-o", "https://127.0.0.1/x.index.mp4", "--location", "x"],
            "cannot be written",
        ),
        (&["index", &at("x.mp4"), "-o", &at("sub"), "--location", "x"], "sub"),
        (&["manifest", "-o", &at("t.ism"), &at("x.mp4"), &at("broken.mp4")], "not an MP4"),
        (&["manifest", "-o", &at("sub/t.ism"), &at("x.mp4")], "not in the folder"),
        (&["manifest", "-o", &at("t.ism")], "required"),
    ];
    for (args, why) in cases {
        let output = latemux(args);
        assert!(!output.status.success(), "{args:?}");
        assert!(said(&output).contains(why), "{args:?}: {}", said(&output));
        assert_eq!(names(folder.path()), before, "{args:?}");
        assert_eq!(names(&folder.path().join("sub")), [""; 0], "{args:?}");
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let media = folder.path().join("x.mp4");
    fs::copy(format!("{}/lighthouse.mp4", samples()), &media).unwrap();
    let index = folder.path().join("x.index.mp4");
    let run = |limit: &str| {
        // The size of files is limited to some blocks, so writes fail as on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" index \"$1\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_latemux")]).arg(&media);
        shell.stdin(Stdio::null()).output().unwrap()
    };
    let output = run("1");
    assert!(!output.status.success());
    assert!(
        said(&output).contains("cannot write") && said(&output).contains("x.index.mp4"),
        "{}",
        said(&output)
    );
    assert_eq!(names(folder.path()), ["x.mp4"]);

    // An existing index stays.
    assert!(run("unlimited").status.success());
    let before = fs::read(&index).unwrap();
    assert!(!run("1").status.success());
    assert_eq!((fs::read(&index).unwrap(), names(folder.path()).len()), (before, 2));
}

#[test]
fn files_are_written_to_and_read_from_a_bucket() {
    let Some(s3) = S3::start(&samples()) else { return };
    let endpoint = s3.endpoint();
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_latemux"))
            .args(args)
            .args(["--s3-endpoint", &endpoint, "--s3-region", "us-east-1"])
            .envs([("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)])
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let index = run(&["index", "s3://library/lighthouse.mp4"]);
    assert!(index.status.success(), "{}", said(&index));
    let manifest = run(&["manifest", "-o", "s3://library/t.ism", "s3://library/lighthouse.index.mp4"]);
    assert!(manifest.status.success(), "{}", said(&manifest));
    let refused =
        run(&["index", "s3://library/lighthouse.mp4", "-o", "s3://nobody/x.index.mp4", "--location", "x"]);
    assert!(!refused.status.success(), "{}", said(&refused));

    let environment = [("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)];
    let server = Server::start(
        "s3://library",
        &["--s3-endpoint", &endpoint, "--s3-region", "us-east-1"],
        &environment,
    );
    assert_eq!(get(server.address, "/t.ism/.mpd").status, 200);
    let folder = Server::start(&samples(), &[], &[]);
    let mpd = get(folder.address, "/lighthouse.mp4/.mpd").body;
    let mpd = String::from_utf8_lossy(&mpd).into_owned();
    let id = mpd.split("<Representation id=\"").nth(1).unwrap().split('"').next().unwrap();
    let one = get(server.address, &format!("/t.ism/hls/t-{id}-2.m4s"));
    let other = get(folder.address, &format!("/lighthouse.mp4/hls/lighthouse-{id}-2.m4s"));
    assert_eq!((one.status, other.status), (200, 200));
    assert!(one.body == other.body);
}
