//! A server with an origin for each test, on a free port, and the titles that it serves.

use bytes::Bytes;
use latemux_index::locate::{Locator, limits::Limits};
use latemux_origin::{Origin, OriginConfig, Tls};
use latemux_storage::{
    Key, Memory, Storage,
    fault::{Fault, Faulty},
};
use latemux_testmedia::recipe;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// A running origin. Dropping this value stops it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Address of metrics and purging.
    pub(crate) admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Returns the default configuration, except that the heads of segments wait longer than a timer of
/// the runtime takes. Tests can stop that clock.
pub(crate) fn config() -> OriginConfig {
    let mut config = OriginConfig::default();
    config.read.first_byte_wait = Duration::from_millis(1);
    config
}

impl Server {
    /// Starts an origin over a storage, with [`config`].
    pub(crate) async fn start(storage: Arc<dyn Storage>) -> Self {
        Self::with(storage, config(), None).await
    }

    pub(crate) async fn with(storage: Arc<dyn Storage>, config: OriginConfig, tls: Option<Tls>) -> Self {
        Self::of(Origin::new(storage, config), tls).await
    }

    /// Serves an existing origin.
    pub(crate) async fn of(origin: Origin, tls: Option<Tls>) -> Self {
        let listener = latemux_origin::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let admin_listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let admin = admin_listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            tokio::select! {
                served = origin.serve(listener, tls, stopped) => served.unwrap(),
                () = origin.serve_admin(admin_listener, None) => {}
            }
        });
        Self { address, admin, stop: Some(stop), task }
    }

    /// Tells the server to stop.
    pub(crate) fn shut_down(&mut self) {
        self.stop.take();
    }

    /// Stops the server and waits for its end.
    pub(crate) async fn stopped(mut self) {
        self.stop.take();
        self.task.await.unwrap();
    }
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Returns the folder of the committed sample library.
fn samples() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library"))
}

/// Returns a file of the sample library.
pub(crate) fn sample(name: &str) -> Bytes {
    std::fs::read(samples().join(name)).unwrap().into()
}

/// Names of the files of the folder title `harbour`.
pub(crate) const HARBOUR: [&str; 5] =
    ["audio-eng.mp4", "audio-fra.mp4", "video-180p.mp4", "video-234p.mp4", "video-360p.mp4"];

/// Returns a fragmented file whose samples are known only once each fragment's `moof` has been
/// read: video and audio, fragments of 2 s, one `sidx` each.
pub(crate) fn fragmented() -> Bytes {
    let flags = "-movflags frag_keyframe+empty_moov+default_base_moof+global_sidx";
    std::fs::read(recipe::avc_aac("sidx", flags)).unwrap().into()
}

/// Returns the sample library in memory: `harbour/` (three renditions, two languages),
/// `lighthouse.mp4` (moov last, muxed), `ferry.mp4` (fragmented), `buoy.mp4` (HEVC); and
/// [`fragmented`].
pub(crate) fn library() -> Arc<Memory> {
    let memory = Memory::new();
    for name in ["lighthouse.mp4", "ferry.mp4", "buoy.mp4"] {
        memory.put(key(name), sample(name));
    }
    for name in HARBOUR {
        let name = format!("harbour/{name}");
        memory.put(key(&name), sample(&name));
    }
    memory.put(key("fragmented.mp4"), fragmented());
    Arc::new(memory)
}

/// Returns the index MP4 of a file.
pub(crate) fn index_file(media: &Bytes, location: &str) -> Bytes {
    let mut locator = Locator::for_full_tables(Limits::default());
    latemux_testmedia::origin::run(&mut locator, media).unwrap();
    locator.full_tables().unwrap().index_file(location, Some(location)).unwrap()
}

/// Returns the number of bytes from the start of a segment of [`fragmented`] (two fragments) to the
/// end of its last `moof`.
pub(crate) fn last_moof_end(place: usize) -> u64 {
    let file = fragmented();
    let mut moofs = Vec::new();
    let mut at = 0;
    while at < file.len() {
        let size = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        if &file[at + 4..at + 8] == b"moof" {
            moofs.push(at..at + size);
        }
        at += size;
    }
    u64::try_from(moofs[2 * place + 1].end - moofs[2 * place].start).unwrap()
}

/// Returns the URL of a segment of [`fragmented`]'s video, by its 0-based number.
pub(crate) async fn fragmented_segment(place: usize) -> String {
    let server = Server::start(library()).await;
    let urls = crawl(server.address, "/fragmented.mp4").await;
    let of_video =
        |url: &&String| url.contains("/dash/") && url.contains("-video=") && url.matches('-').count() == 2;
    let mut urls: Vec<_> = urls.iter().filter(of_video).collect();
    urls.sort_by_key(|url| (url.len(), (*url).clone()));
    urls[place].clone()
}

/// Returns every URL that a client of a title may request: playlists, init segments and media
/// segments. The manifests are read as plain text.
pub(crate) async fn crawl(server: SocketAddr, base: &str) -> Vec<String> {
    let starts = ["/.m3u8", "/.m3u8?hls_fmp4"].map(|start| format!("{base}{start}"));
    let mut urls = crawl_from(server, &starts).await;
    urls.extend(dash_urls(server, base).await);
    urls.sort();
    urls
}

/// Returns HLS playlists and every URL in them.
pub(crate) async fn crawl_from(server: SocketAddr, starts: &[String]) -> Vec<String> {
    let mut urls = Vec::new();
    let mut todo = Vec::new();
    for url in starts {
        if super::client::get(server, url).await.status == 200 {
            todo.push(url.clone());
        }
    }
    while let Some(url) = todo.pop() {
        if urls.contains(&url) {
            continue;
        }
        let folder = url.split('?').next().unwrap().rsplit_once('/').unwrap().0.to_owned();
        if url.contains(".m3u8") {
            let text = super::client::fetch(server, &url).await;
            let text = String::from_utf8(text.to_vec()).unwrap();
            let in_tags = text.lines().filter_map(|l| l.split_once("URI=\"")?.1.split('"').next());
            let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
            todo.extend(in_tags.chain(lines).map(|link| join(&folder, link)));
        }
        urls.push(url);
    }
    urls
}

/// Returns the URLs of the MPD and of the init and media segments of its timelines.
async fn dash_urls(server: SocketAddr, base: &str) -> Vec<String> {
    let manifest = format!("{base}/.mpd");
    let text = super::client::fetch(server, &manifest).await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let attribute = |tag: &str, name: &str| -> Option<String> {
        Some(tag.split_once(&format!(" {name}=\""))?.1.split('"').next()?.to_owned())
    };
    let mut urls = vec![manifest];
    for set in text.split("<AdaptationSet").skip(1).filter(|set| !set.contains("trickmode")) {
        let template = set.split_once("<SegmentTemplate").unwrap().1;
        let init = attribute(template, "initialization").unwrap();
        let media = attribute(template, "media").unwrap();
        let mut times = Vec::new();
        let mut at = 0_u64;
        for s in template.split("<S ").skip(1).map(|s| format!(" {s}")) {
            at = attribute(&s, "t").map_or(at, |t| t.parse().unwrap());
            let repeat: u64 = attribute(s.split('>').next().unwrap(), "r").map_or(0, |r| r.parse().unwrap());
            for _ in 0..=repeat {
                times.push(at);
                at += attribute(&s, "d").unwrap().parse::<u64>().unwrap();
            }
        }
        for representation in set.split("<Representation").skip(1) {
            let id = attribute(representation, "id").unwrap();
            urls.push(format!("{base}/{}", init.replace("$RepresentationID$", &id)));
            urls.extend(times.iter().map(|t| {
                let media = media.replace("$RepresentationID$", &id).replace("$Time$", &t.to_string());
                format!("{base}/{media}")
            }));
        }
    }
    urls
}

pub(crate) fn join(folder: &str, link: &str) -> String {
    match link.strip_prefix("../") {
        Some(up) => format!("{}/{up}", folder.rsplit_once('/').unwrap().0),
        None => format!("{folder}/{link}"),
    }
}

/// Faults of the next requests to storage. They can be set while a server runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<VecDeque<Fault>>>);

impl Faults {
    /// Returns a storage whose next requests have these faults, one each.
    pub(crate) fn over(&self, inner: Arc<dyn Storage>) -> Arc<Faulty> {
        let faults = self.0.clone();
        Arc::new(Faulty::new(inner, move |_, _, _| faults.lock().unwrap().pop_front().unwrap_or(Fault::None)))
    }

    /// Sets the faults of the next requests.
    pub(crate) fn set(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.0.lock().unwrap() = faults.into_iter().collect();
    }
}
