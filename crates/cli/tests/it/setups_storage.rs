//! The published set-ups as their storage sees them: requests, reads of indexes, and connections.

use crate::{
    client::get,
    server::{Server, samples},
};
use latemux_lab::nginx;
use latemux_testmedia::process::{Process, tool};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Requests, and those of them that are for server manifests and index MP4s.
type Cost = (usize, usize);

/// For each set-up: its configuration, the proxy between it and storage, and what a manifest and a
/// segment cost that were requested before, and whether each request has its own connection.
const EXPECTED: [(&str, &str, &str, Cost, bool); 9] = [
    ("A", "ipp-new-connections", "", (7, 4), true),
    ("B", "ipp-new-connections", "meta new", (3, 0), true),
    ("C", "ipp", "", (7, 4), false),
    ("D", "ipp", "meta kept", (3, 0), false),
    ("server manifests cached", "ipp", "ism kept", (5, 2), false),
    ("index cached", "index", "", (1, 0), false),
    ("index cached, new connections", "index-new-connections", "", (1, 0), true),
    ("LT-single", "lt-single", "", (0, 0), false),
    ("LT-double", "lt-double", "", (0, 0), false),
];

/// An nginx of the lab, and its log.
pub(crate) struct Nginx {
    process: Process,
    folder: TempDir,
}

/// A line of the log: the number of the connection, and the path.
type Line = (u64, String);

impl Nginx {
    pub(crate) fn start(configuration: impl Fn(&Path, &[SocketAddr]) -> String) -> Option<Self> {
        let nginx = tool("nginx")?;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("temporary")).unwrap();
        let process = Process::start(|port| {
            let file = folder.path().join("nginx.conf");
            fs::write(&file, configuration(folder.path(), &[(Ipv4Addr::LOCALHOST, port).into()])).unwrap();
            let mut command = Command::new(&nginx);
            command.arg("-p").arg(folder.path()).arg("-c").arg(&file).stderr(Stdio::null());
            command
        });
        Some(Self { process, folder })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.process.port).into()
    }

    /// Returns the requests so far. A request that this function sends marks the end of the log,
    /// because nginx writes a line after the client has the response.
    fn requests(&self, mark: &str) -> Vec<Line> {
        assert_eq!(get(self.address(), mark).status, 404);
        loop {
            let text = fs::read_to_string(self.folder.path().join("access.log")).unwrap();
            if text.ends_with('\n') && text.contains(&format!("\"{mark}\"")) {
                return text.lines().map(line).filter(|(_, path)| path.starts_with("/film")).collect();
            }
            std::thread::yield_now();
        }
    }
}

fn line(text: &str) -> Line {
    let value: serde_json::Value = serde_json::from_str(text).unwrap();
    (value["connection"].as_u64().unwrap(), value["uri"].as_str().unwrap().to_owned())
}

fn setup(name: &str) -> String {
    format!("{}/../../examples/setups/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Makes a storage with a title of one file: a server manifest that names an index MP4.
fn title(location: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::copy(PathBuf::from(samples()).join("lighthouse.mp4"), path("film.mp4")).unwrap();
    let media = path("film.mp4");
    let index = path("film.index.mp4");
    let mut make = vec!["index", &media, "-o", &index];
    make.extend(location.into_iter().flat_map(|location| ["--location", location]));
    for arguments in [make, vec!["manifest", "-o", &path("film.ism"), &index]] {
        let out = Command::new(env!("CARGO_BIN_EXE_latemux")).args(&arguments).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    folder
}

/// Requests the manifest and a segment.
fn play(server: &Server) -> Vec<u8> {
    let mpd = get(server.address, "/film.ism/.mpd");
    assert_eq!(mpd.status, 200);
    let id = mpd.text().split(" id=\"").filter_map(|rest| rest.split('"').next());
    let id = id.filter(|id| id.starts_with("video=") && !id.ends_with("-trick")).last().unwrap();
    let segment = get(server.address, &format!("/film.ism/dash/film-{id}-0.dash"));
    assert_eq!(segment.status, 200);
    segment.body
}

fn proxy(storage: &Nginx, mode: &str) -> Option<Nginx> {
    let (mode, connections) = mode.split_once(' ')?;
    let upstream = storage.address();
    Nginx::start(|folder, listen| {
        nginx::cache(folder, listen, upstream, mode, connections == "kept").expect("a mode")
    })
}

#[test]
fn each_switch_of_a_published_setup_is_seen_by_storage() {
    let root = title(None);
    let mut bodies = BTreeSet::new();
    for (name, configuration, mode, expected, new_connections) in EXPECTED {
        let Some(storage) =
            Nginx::start(|folder, listen| nginx::storage(folder, listen, root.path(), None, false))
        else {
            return;
        };
        let proxy = proxy(&storage, mode);
        let next = proxy.as_ref().unwrap_or(&storage).address();
        // The server's address is the first one in its output.
        let location = format!("http://localhost:{}/", next.port());
        let server = Server::start(&location, &["--config", &setup(configuration)], &[]);
        bodies.insert(play(&server));
        let before = storage.requests("/mark-1").len();
        bodies.insert(play(&server));
        let lines = storage.requests("/mark-2").split_off(before);
        let indexes = lines.iter().filter(|(_, path)| *path != "/film.mp4").count();
        assert_eq!((lines.len(), indexes), expected, "{name}: {lines:?}");
        let connections: BTreeSet<u64> = lines.iter().map(|(connection, _)| *connection).collect();
        if new_connections {
            assert_eq!(connections.len(), lines.len(), "{name}: {lines:?}");
        } else {
            // Two reads of one response may be open at the same time.
            assert!(connections.len() <= 2, "{name}: {lines:?}");
        }
    }
    assert_eq!(bodies.len(), 1, "set-ups send different bytes");
}

#[test]
fn in_setup_e_media_bypasses_the_cache_of_indexes() {
    let media = title(None);
    let Some(storage) =
        Nginx::start(|folder, listen| nginx::storage(folder, listen, media.path(), None, false))
    else {
        return;
    };
    let root = title(Some(&format!("http://{}/film.mp4", storage.address())));
    let Some(indexes) =
        Nginx::start(|folder, listen| nginx::storage(folder, listen, root.path(), None, false))
    else {
        return;
    };
    let proxy = proxy(&indexes, "meta kept").unwrap();
    let configuration = root.path().join("e.toml");
    let ipp = fs::read_to_string(setup("ipp")).unwrap();
    fs::write(&configuration, format!("{ipp}\n[sources]\nallow = [\"{}\"]\n", storage.address())).unwrap();
    let location = format!("http://localhost:{}/", proxy.address().port());
    let server = Server::start(&location, &["--config", configuration.to_str().unwrap()], &[]);
    assert_eq!(play(&server), play(&server));
    let paths = |lines: Vec<Line>| lines.into_iter().map(|(_, path)| path).collect::<BTreeSet<_>>();
    assert_eq!(paths(storage.requests("/mark")), ["/film.mp4".to_owned()].into());
    assert_eq!(indexes.requests("/mark").len(), 2, "each index file is read once");
    let kept = ["/film.index.mp4".to_owned(), "/film.ism".to_owned()];
    assert_eq!(paths(proxy.requests("/mark")), kept.into());
}

#[test]
fn setups_that_cache_indexes_do_not_ask_again_during_a_run() {
    for (name, asks) in [
        ("ipp", true),
        ("ipp-new-connections", true),
        ("index", false),
        ("index-new-connections", false),
        ("lt-single", false),
        ("lt-single-block", false),
        ("lt-single-exact", false),
        ("lt-double", false),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_latemux"))
            .args(["serve", ".", "--print-config", "--config", &setup(name)])
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert_eq!(!text.contains("recheck_after = \"2h\""), asks, "{name}: {text}");
    }
}

#[test]
fn a_cache_of_exact_ranges_passes_conditions_and_methods_over_kept_connections() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("film"), "0123456789").unwrap();
    let Some(storage) =
        Nginx::start(|folder, listen| nginx::storage(folder, listen, root.path(), None, false))
    else {
        return;
    };
    let cache = proxy(&storage, "exact kept").unwrap();
    let send = |method: &str, headers: &str| {
        let mut stream = TcpStream::connect(cache.address()).unwrap();
        write!(stream, "{method} /film HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    let etag = send("HEAD", "");
    let etag = etag.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap();
    for _ in 0..2 {
        let pinned = send("GET", &format!("Range: bytes=2-4\r\nIf-Match: {etag}\r\n"));
        assert!(pinned.starts_with("HTTP/1.1 206 ") && pinned.ends_with("\r\n234"), "{pinned}");
        let other = send("GET", "Range: bytes=2-4\r\nIf-Match: \"other\"\r\n");
        assert!(other.starts_with("HTTP/1.1 412 "), "{other}");
    }
    storage.requests("/mark");
    let log = fs::read_to_string(storage.folder.path().join("access.log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.filter(|line| line["uri"] == "/film").collect();
    let requests: Vec<_> =
        lines.iter().map(|line| (line["method"].as_str().unwrap(), &line["status"])).collect();
    // The range was kept; the answer of another version was not.
    assert_eq!(
        requests,
        [("HEAD", &200.into()), ("GET", &206.into()), ("GET", &412.into()), ("GET", &412.into())]
    );
    let connections: BTreeSet<_> = lines.iter().map(|line| line["connection"].as_u64()).collect();
    // nginx does not keep a connection whose response it has not read to its end.
    assert!(connections.len() < lines.len(), "{log}");
}
