//! Many clients that ask for a title which nobody has asked for before.

use crate::{
    client::get,
    server::{Server, config, key, library},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::BodyExt;
use latemux_origin::{Origin, OriginConfig};
use latemux_storage::{Memory, counting::Counting};
use latemux_testmedia::recipe;
use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, mpsc},
    time::Duration,
};

/// Requests a URL, and returns the ETag and the body of the response.
async fn ask(origin: &Origin, url: &str, gzip: bool) -> (String, Bytes) {
    let mut request = Request::get(url);
    if gzip {
        request = request.header("accept-encoding", "gzip");
    }
    let response: Response<_> = origin.respond(request.body(()).unwrap()).await;
    assert_eq!(response.status(), 200, "{url}");
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    (etag, response.into_body().collect().await.unwrap().to_bytes())
}

/// Every request to storage takes 400 ms, so the title is being indexed for most of the second in
/// which the clients arrive, one each millisecond.
#[tokio::test(start_paused = true)]
async fn a_thousand_clients_in_the_first_second_of_a_title_index_it_once() {
    for base in ["lighthouse.mp4", "ferry.mp4", "fragmented.mp4", "harbour"] {
        let manifests = [".mpd", ".m3u8", "Manifest", "x.mpd"].map(|name| format!("/{base}/{name}"));
        let storage = || Arc::new(Counting::new(library(), Duration::from_millis(400)));
        let alone = storage();
        let origin = Origin::new(alone.clone(), config());
        ask(&origin, &manifests[0], false).await;
        let requests_alone = alone.take();

        let together = storage();
        let origin = Origin::new(together.clone(), config());
        let clients = (0..1000_u64).map(|number| {
            let origin = origin.clone();
            let url = manifests[usize::try_from(number).unwrap() % manifests.len()].clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(number)).await;
                let gzip = number % 8 < 4;
                (url.clone(), gzip, ask(&origin, &url, gzip).await)
            })
        });
        let responses: BTreeSet<_> =
            join_all(clients.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(responses.len(), 8, "one response for each manifest in each form");
        assert_eq!(together.take().len(), requests_alone.len(), "{base}");
    }
}

/// Returns the value of a line of the metrics.
async fn joins(server: &Server) -> String {
    let response = get(server.admin, "/metrics").await;
    let text = String::from_utf8(response.body.to_vec()).unwrap();
    let name = "latemux_cache_joins_total{cache=\"manifests\"";
    text.lines().find(|line| line.starts_with(name)).unwrap().rsplit_once(' ').unwrap().1.to_owned()
}

/// A manifest that was requested in both forms at one time was planned twice. The only thread for
/// plans is kept busy until both requests wait for it.
#[test]
fn both_forms_of_a_manifest_share_one_plan() {
    let sound = "-f lavfi -i sine=frequency=440:sample_rate=48000:duration=60 -c:a aac -b:a 32k";
    let memory = Arc::new(Memory::new());
    memory.put(key("sound.m4a"), fs::read(recipe::make("a-minute", "m4a", sound)).unwrap());
    // So many segments are planned on the blocking pool.
    let short = OriginConfig { segment_duration: Duration::from_millis(100), ..config() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        for (first, second) in [(false, true), (true, false)] {
            let origin = Origin::new(memory.clone(), short.clone());
            let server = Server::of(origin.clone(), None).await;
            assert!(origin.title("sound.m4a").await.unwrap().title.grid().segment_count() > 512);
            let (release, released) = mpsc::channel();
            let busy = tokio::task::spawn_blocking(move || released.recv());
            let url = "/sound.m4a/.mpd";
            let both_wait = async { release.send(()).unwrap() };
            let (one, two, ()) =
                tokio::join!(biased; ask(&origin, url, first), ask(&origin, url, second), both_wait);
            busy.await.unwrap().unwrap();
            assert_ne!(one, two);
            // One of the requests found that the other one was planning.
            assert_eq!(joins(&server).await, "1", "{first}");
        }
    });
}
