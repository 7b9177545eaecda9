//! `pack`: its files hold the bytes that `serve` sends, and a failed run leaves nothing.

use crate::{
    bucket::{Bucket, SecondPart},
    client::get,
    crawl::crawl,
    server::{Server, samples},
    store::{Nginx, S3},
};
use latemux_testmedia::{probe::probe, recipe};
use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latemux"));
    command.args(args).envs(KEYS).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn done(args: &[&str]) -> String {
    let output = command(args).output().expect("latemux runs");
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    said(&output)
}

/// Checks that a run failed with one line, and returns the line.
fn fails(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", said(output));
    assert_eq!(output.stdout, b"", "{}", said(output));
    let text = said(output);
    assert!(text.starts_with("latemux: ") && text.lines().count() == 1, "{text}");
    text
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

/// Returns the type and range of the top-level boxes of a file.
fn boxes(file: &[u8]) -> Vec<([u8; 4], std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let size = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        found.push((file[at + 4..at + 8].try_into().unwrap(), at..at + size));
        at += size;
    }
    found
}

/// Returns the init segment and the media segments of a CMAF file, as its `sidx` divides it.
fn pieces(file: &[u8]) -> Vec<&[u8]> {
    let sidx = boxes(file).into_iter().find(|(kind, _)| kind == b"sidx").expect("a sidx").1;
    assert_eq!(file[sidx.start + 8], 0, "version 0: times of 32 bits");
    let mut at = sidx.end;
    let mut pieces = vec![&file[..sidx.start]];
    for reference in file[sidx.start + 32..sidx.end].chunks_exact(12) {
        let end = at + u32::from_be_bytes(reference[..4].try_into().unwrap()) as usize;
        pieces.push(&file[at..end]);
        at = end;
    }
    assert_eq!(at, file.len());
    pieces
}

/// Returns the fragments of an ismv file.
fn fragments(file: &[u8]) -> Vec<&[u8]> {
    let found = boxes(file);
    assert_eq!(found.last().unwrap().0, *b"mfra");
    let pairs = found.windows(2).filter(|pair| pair[0].0 == *b"moof");
    pairs.map(|pair| &file[pair[0].1.start..pair[1].1.end]).collect()
}

/// Returns the DASH init and media segments and the Smooth Streaming fragments that a server sends
/// of a title.
fn served(server: SocketAddr, title: &str) -> (BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let mut cmaf = BTreeSet::new();
    let mut smooth = BTreeSet::new();
    let entries = [".mpd", "Manifest"].map(|entry| format!("{title}/{entry}"));
    for (path, response) in crawl(server, &entries) {
        if path.contains("/Fragments(") {
            smooth.insert(response.body);
        } else if path.contains("/dash/") {
            cmaf.insert(response.body);
        }
    }
    (cmaf, smooth)
}

/// Packs a title in both formats, and checks that the files hold exactly the segments and fragments
/// that are served. `source` is the location of `title`.
fn check_packed_bytes(server: SocketAddr, title: &str, source: &str, more: &[&str]) {
    let (cmaf, smooth) = served(server, title);
    assert!(cmaf.len() > 4 && smooth.len() > 2, "{title}");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    done(&[&["pack", source, "-o", &at("cmaf/")], more].concat());
    done(&[&["pack", source, "-o", &at("all.ismv"), "--ismv"], more].concat());

    let mut found = BTreeSet::new();
    for name in names(&folder.path().join("cmaf")) {
        let path = folder.path().join("cmaf").join(&name);
        let file = fs::read(&path).unwrap();
        for piece in pieces(&file) {
            assert!(cmaf.contains(piece), "{title} {name}: {} bytes that are not served", piece.len());
            found.insert(piece.to_vec());
        }
        assert_eq!(probe(&path, &[]).warnings, "", "{title} {name}");
    }
    assert!(found == cmaf, "{title}: {} of {} segments", found.len(), cmaf.len());
    let ismv = fs::read(at("all.ismv")).unwrap();
    let found: BTreeSet<Vec<u8>> = fragments(&ismv).into_iter().map(<[u8]>::to_vec).collect();
    assert!(found == smooth, "{title}: {} of {} fragments", found.len(), smooth.len());
    assert_eq!(probe(Path::new(&at("all.ismv")), &[]).warnings, "", "{title}");
}

#[test]
fn packed_files_hold_the_served_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["lighthouse.mp4", "ferry.mp4", "buoy.mp4"] {
        fs::copy(format!("{}/{name}", samples()), at(name)).unwrap();
    }
    fs::create_dir(at("harbour")).unwrap();
    for name in names(Path::new(&format!("{}/harbour", samples()))) {
        fs::copy(format!("{}/harbour/{name}", samples()), at(&format!("harbour/{name}"))).unwrap();
    }
    done(&["index", &at("lighthouse.mp4")]);
    done(&["index", &at("ferry.mp4")]);
    done(&["manifest", "-o", &at("all.ism"), &at("lighthouse.index.mp4"), &at("harbour/audio-fra.mp4")]);
    let server = Server::start(folder.path().to_str().unwrap(), &[], &[]);
    let titles =
        ["lighthouse.mp4", "ferry.mp4", "lighthouse.index.mp4", "ferry.index.mp4", "all.ism", "harbour"];
    for title in titles {
        check_packed_bytes(server.address, &format!("/{title}"), &at(title), &[]);
    }
    // The packed files are a title with the same bytes, as a folder and each by itself.
    done(&["pack", &at("harbour"), "-o", &at("packed/")]);
    done(&["pack", &at("harbour"), "-o", &at("packed.ismv"), "--ismv"]);
    let before = served(server.address, "/harbour");
    assert!(served(server.address, "/packed").0 == before.0, "the same CMAF segments");
    assert!(served(server.address, "/packed.ismv").1 == before.1, "the same Smooth Streaming fragments");
    check_packed_bytes(server.address, "/packed", &at("packed/"), &[]);
    check_packed_bytes(server.address, "/packed.ismv", &at("packed.ismv"), &[]);
    for name in names(Path::new(&at("packed"))) {
        let file = at(&format!("packed/{name}"));
        let kind = &name[name.len() - 5..];
        let again = at(&format!("again{kind}"));
        done(&["pack", &file, "-o", &again]);
        assert!(fs::read(&file).unwrap() == fs::read(&again).unwrap(), "{name}");
    }
    done(&["pack", &at("packed.ismv"), "-o", &at("again.ismv"), "--ismv"]);
    assert!(fs::read(at("packed.ismv")).unwrap() == fs::read(at("again.ismv")).unwrap());
}

/// Two segment boundaries are 60 ms apart. The first is just before a multiple of 2 s, where its
/// first audio frame begins.
#[test]
fn audio_packed_with_video_is_the_same_without_it() {
    let source = recipe::make(
        "pack-scene-cuts",
        "mp4",
        "-f lavfi -i testsrc2=size=160x90:rate=50:duration=12 -f lavfi -i sine=frequency=440:sample_rate=48000:duration=12 \
         -c:v libx264 -preset ultrafast -bf 0 -g 9999 -sc_threshold 0 -force_key_frames 2,4,7.98,8.04,10 -pix_fmt yuv420p \
         -c:a aac -shortest",
    );
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    done(&["pack", source.to_str().unwrap(), "-o", &at("packed/"), "--fragment", "2s"]);
    let packed = names(&folder.path().join("packed"));
    assert_eq!(packed.len(), 2);
    for name in packed {
        let file = at(&format!("packed/{name}"));
        let again = at(&name);
        let fragments = boxes(&fs::read(&file).unwrap()).iter().filter(|(code, _)| code == b"moof").count();
        assert_eq!(fragments, 6, "{name}");
        done(&["pack", &file, "-o", &again, "--fragment", "2s"]);
        assert!(fs::read(&file).unwrap() == fs::read(&again).unwrap(), "{name}");
    }
}

#[test]
fn another_target_duration_gives_another_grid() {
    let server = Server::start(&samples(), &["--segment-duration", "1.5s"], &[]);
    check_packed_bytes(
        server.address,
        "/lighthouse.mp4",
        &format!("{}/lighthouse.mp4", samples()),
        &["--fragment", "1500ms"],
    );
}

#[test]
fn tracks_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let ferry = format!("{}/ferry.mp4", samples());
    let harbour = format!("{}/harbour", samples());
    let kinds = |path: &str| -> Vec<String> {
        probe(Path::new(&at(path)), &[]).streams.into_iter().map(|stream| stream.kind).collect()
    };
    done(&["pack", &ferry, "-o", &at("v.cmfv")]);
    done(&["pack", &ferry, "-o", &at("a.cmfa")]);
    done(&["pack", &ferry, "-o", &at("x.mp4"), "--track", "audio"]);
    assert_eq!((kinds("v.cmfv"), kinds("a.cmfa")), (vec!["video".to_owned()], vec!["audio".to_owned()]));
    assert!(fs::read(at("a.cmfa")).unwrap() == fs::read(at("x.mp4")).unwrap());
    done(&["pack", &harbour, "-o", &at("fra.cmfa"), "--track", "audio_fra"]);
    done(&[
        "pack",
        &harbour,
        "-o",
        &at("two.ismv"),
        "--ismv",
        "--track",
        "audio_fra",
        "--track",
        "audio_eng",
    ]);
    assert_eq!(kinds("two.ismv"), ["audio", "audio"]);
    done(&["pack", &harbour, "-o", &at("film-{track}.{ext}"), "--track", "audio"]);
    let films: Vec<_> = names(folder.path()).into_iter().filter(|name| name.starts_with("film-")).collect();
    assert!(films[0].starts_with("film-audio_eng-") && films[0].ends_with("k.cmfa"), "{films:?}");
    assert_eq!(films.len(), 2);
    let before = names(folder.path());

    let refused: [(&[&str], &str); 8] = [
        (&[&harbour, "-o", &at("y.cmfv")], "a CMAF file holds one track, not video="),
        (&[&ferry, "-o", &at("y.mp4")], "--track"),
        (&[&ferry, "-o", &at("y.cmft")], "no track fits .cmft, only video="),
        (
            &[&ferry, "-o", &at("y.cmfa"), "--track", "audio_deu"],
            "there is no track 'audio_deu', only video=",
        ),
        (&[&ferry, "-o", &at("y/"), "--ismv"], "name a file"),
        (&[&ferry, "-o", &at("y.cmfv"), "--fragment", "1ms"], "--fragment must be between"),
        (&[&at("v.cmfv"), "-o", &at("v.cmfv")], "is the source itself"),
        (&[&ferry, "-o", "https://127.0.0.1/y.cmfv"], "cannot be written"),
    ];
    for (args, why) in refused {
        let text = fails(&command(&[&["pack"], args].concat()).output().unwrap());
        assert!(text.contains(why), "{args:?}: {text}");
        assert_eq!(names(folder.path()), before, "{args:?}");
    }
}

/// Returns about 20 MB of noise in a second or two of video.
fn noise() -> PathBuf {
    recipe::make(
        "pack-noise",
        "mp4",
        "-f lavfi -i nullsrc=size=640x360:rate=25:duration=4,geq=random(1)*255:128:128 -c:v libx264 -preset ultrafast \
         -qp 0 -g 25 -pix_fmt yuv420p",
    )
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let media = noise();
    let run = |blocks: &str, args: &[&str]| {
        // The size of files is limited to some blocks of 512 bytes, so writes fail as on a full
        // disk.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" pack \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_latemux")]).arg(&media).args(args);
        shell.stdin(Stdio::null()).output().unwrap()
    };
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for blocks in ["1", "9000", "20000"] {
        for args in [&["-o", &at("x.cmfv")][..], &["-o", &at("x.ismv"), "--ismv"], &["-o", &at("x/")]] {
            let text = fails(&run(blocks, args));
            assert!(text.contains("cannot write") && text.contains(&at("x")), "{text}");
            assert_eq!(names(folder.path()), [""; 0], "{args:?}");
        }
    }
    // An existing file stays.
    assert!(run("unlimited", &["-o", &at("x.cmfv")]).status.success());
    let before = fs::read(at("x.cmfv")).unwrap();
    assert!(before.len() > 12_000_000, "{}", before.len());
    fails(&run("9000", &["-o", &at("x.cmfv")]));
    assert!(fs::read(at("x.cmfv")).unwrap() == before);
    assert_eq!(names(folder.path()), ["x.cmfv"]);
}

/// A file system that is full, if this machine allows mounting one.
#[test]
fn a_full_file_system_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // In its own mount namespace it is invisible to other processes, and is unmounted at the end.
    let script = "mount -t tmpfs -o size=4m tmpfs \"$1\" || exit 77; cd \"$1\"; \"$0\" pack \"$2\" -o x.cmfv; code=$?; \
                  ls -A | wc -l; exit $code";
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_latemux")])
        .arg(folder.path())
        .arg(noise());
    let output = match unshare.stdin(Stdio::null()).output() {
        Ok(output) if output.status.code() != Some(77) && !said(&output).starts_with("unshare:") => output,
        _ => {
            println!("SKIPPED: no file system can be mounted here");
            return;
        }
    };
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "what is left");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("cannot write x.cmfv: No space left on device") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn a_truncated_source_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // Sample tables beyond the end of the file, and a file without media.
    let media = fs::read(format!("{}/lighthouse.mp4", samples())).unwrap();
    fs::write(at("short.mp4"), &media[..media.len() / 2]).unwrap();
    fs::write(at("none.mp4"), "not an MP4").unwrap();
    let before = names(folder.path());
    for (source, why) in
        [("short.mp4", "short.mp4"), ("none.mp4", "not an MP4"), ("missing.mp4", "missing.mp4")]
    {
        for output in ["x.cmfv", "x/"] {
            let run = command(&["pack", &at(source), "-o", &at(output)]).output().unwrap();
            assert_eq!(run.status.code(), Some(1), "{source}: {}", said(&run));
            let text = said(&run);
            assert!(text.contains(why) && text.lines().last().unwrap().starts_with("latemux: "), "{text}");
            assert_eq!(names(folder.path()), before, "{source}");
        }
    }
}

/// If parts are refused or the service fails, the upload is aborted at the service.
#[test]
fn a_failed_upload_leaves_nothing() {
    let media = noise();
    for what in [SecondPart::Forbidden, SecondPart::Broken, SecondPart::Silence] {
        let bucket = Bucket::start(what);
        let endpoint = format!("http://{}", bucket.address);
        let args = ["pack", media.to_str().unwrap(), "-o", "s3://b/x.cmfv", "--s3-endpoint", &endpoint];
        let child = command(&args).args(["--s3-region", "us-east-1"]).spawn().unwrap();
        if what == SecondPart::Silence {
            bucket.second.recv().unwrap();
            assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
        }
        let text = fails(&child.wait_with_output().unwrap());
        let why = match what {
            SecondPart::Forbidden => "cannot write: x.cmfv: access denied by storage",
            SecondPart::Broken => "cannot write: x.cmfv",
            SecondPart::Silence => "stopped: nothing was written",
        };
        assert!(text.contains(why), "{what:?}: {text}");
        let requests = bucket.requests();
        let begins = |request: &&String, with: &str| request.starts_with(with);
        assert!(begins(&&requests[0], "POST /b/x.cmfv?uploads"), "{requests:?}");
        assert!(
            requests.iter().any(|r| begins(&r, "DELETE /b/x.cmfv?uploadId=upload-1")),
            "{what:?}: {requests:?}"
        );
        assert_eq!(requests.iter().filter(|r| begins(r, "POST")).count(), 1, "{what:?}: not completed");
    }
}

#[test]
fn titles_are_packed_to_and_from_buckets_and_servers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let media = folder.path().join("library");
    fs::create_dir(&media).unwrap();
    fs::copy(noise(), media.join("noise.mp4")).unwrap();
    fs::copy(format!("{}/ferry.mp4", samples()), media.join("ferry.mp4")).unwrap();
    let source = |name: &str| media.join(name).to_str().unwrap().to_owned();
    done(&["pack", &source("noise.mp4"), "-o", &at("noise.cmfv")]);
    done(&["pack", &source("ferry.mp4"), "-o", &at("ferry.ismv"), "--ismv"]);

    if let Some(s3) = S3::start(media.to_str().unwrap()) {
        let endpoint = s3.endpoint();
        let more = ["--s3-endpoint", &endpoint, "--s3-region", "us-east-1"];
        let run = |args: &[&str]| done(&[args, &more].concat());
        // Files of 17 MB and more are uploaded in parts, smaller ones at once.
        run(&["pack", "s3://library/noise.mp4", "-o", "s3://library/packed/noise.cmfv"]);
        run(&["pack", "s3://library/ferry.mp4", "-o", "s3://library/ferry.ismv", "--ismv"]);
        run(&["pack", "s3://library/ferry.mp4", "-o", "s3://library/ferry/"]);
        let server = Server::start("s3://library", &more, &KEYS);
        assert_eq!(get(server.address, "/ferry/.mpd").status, 200);
        assert_eq!(get(server.address, "/packed/noise.cmfv/.m3u8").status, 200);
        // Pack from the bucket into a folder again.
        run(&["pack", "s3://library/packed/noise.cmfv", "-o", &at("again.cmfv")]);
        run(&["pack", "s3://library/ferry.ismv", "-o", &at("again.ismv"), "--ismv"]);
        assert!(fs::read(at("noise.cmfv")).unwrap() == fs::read(at("again.cmfv")).unwrap());
        assert!(fs::read(at("ferry.ismv")).unwrap() == fs::read(at("again.ismv")).unwrap());
        let refused =
            command(&["pack", &source("noise.mp4"), "-o", "s3://nobody/x.cmfv"]).args(more).output();
        assert!(fails(&refused.unwrap()).contains("cannot write"));
    }
    if let Some(nginx) = Nginx::start(media.to_str().unwrap()) {
        done(&["pack", &format!("{}ferry.mp4", nginx.url()), "-o", &at("http.ismv"), "--ismv"]);
        assert!(fs::read(at("ferry.ismv")).unwrap() == fs::read(at("http.ismv")).unwrap());
    }
}

/// Four hours in eight renditions with audio, made by repeating two minutes: writing an index reads
/// the sample tables and nothing else.
#[test]
fn an_index_of_four_hours_reads_headers_only() {
    let mut args = String::new();
    for rendition in 0..8 {
        args += &format!("-f lavfi -i testsrc2=size={0}x{0}:rate=2:duration=120 ", 32 + 8 * rendition);
    }
    args += "-f lavfi -i sine=frequency=440:sample_rate=8000:duration=120 ";
    for stream in 0..9 {
        args += &format!("-map {stream} ");
    }
    args += "-c:v libx264 -preset ultrafast -bf 2 -g 4 -pix_fmt yuv420p -crf 36 -c:a aac -b:a 16k";
    let short = recipe::make("pack-two-minutes", "mp4", &args);
    let long = recipe::make(
        "pack-four-hours",
        "mp4",
        &format!("-stream_loop 119 -i {} -map 0 -c copy", short.display()),
    );
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("x.index.mp4");
    let text =
        done(&["index", long.to_str().unwrap(), "-o", index.to_str().unwrap(), "--location", "/vod/x.mp4"]);
    let number = |before: &str| -> u64 {
        text.split(before).nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    let media = number("bytes for ");
    let read = number("of which ");
    // The sizes of the boxes, from their headers alone.
    let moov = {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut file = fs::File::open(&long).unwrap();
        let mut at = 0;
        let mut head = [0; 16];
        loop {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.read_exact(&mut head).unwrap();
            let size = match u32::from_be_bytes(head[..4].try_into().unwrap()) {
                1 => u64::from_be_bytes(head[8..].try_into().unwrap()),
                size => u64::from(size),
            };
            if &head[4..8] == b"moov" {
                break size;
            }
            at += size;
        }
    };
    assert_eq!(media, fs::metadata(&long).unwrap().len());
    println!("{media} bytes of media, a moov of {moov}, {read} read");
    assert!(media > 5 * moov, "media of {media} bytes beside a moov of {moov}");
    // The head and tail of the file are read before the position of the moov is known.
    assert!(read < moov + (1 << 20), "{read} bytes read of a moov of {moov}");
    let streams = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-enable_drefs",
            "1",
            "-show_entries",
            "stream=nb_frames,duration",
            "-of",
            "csv=p=0",
        ])
        .arg(&index)
        .output()
        .unwrap();
    let streams = String::from_utf8_lossy(&streams.stdout).into_owned();
    assert_eq!(
        streams.lines().filter(|line| line.starts_with("144") && line.ends_with(",28800")).count(),
        8,
        "{streams}"
    );
}
