//! Modification times that jump: they are compared for equality only.

use crate::{
    rig::{Oracle, TIERS, library_with, relabelled},
    server::sample,
};
use http::Request;
use http_body_util::BodyExt;
use latemux_cache::Cache;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{Options, open};
use std::{
    fs::{self, File},
    time::{Duration, SystemTime},
};

const TITLE: &str = "lighthouse.mp4";

/// Files of one size are replaced with any modification time: in the future, before 1970, and back.
#[tokio::test]
async fn modification_times_may_jump_in_any_direction() {
    let days = |n: u64| Duration::from_secs(n * 86_400);
    let epoch = SystemTime::UNIX_EPOCH;
    let times = [
        epoch + days(20_000),
        epoch + days(60_000),
        epoch + days(1),
        epoch - days(4_000),
        epoch + days(19_999),
    ];
    let mut versions = Vec::new();
    for label in 0..5 {
        versions.push(relabelled(&sample(TITLE), label).await);
    }
    let libraries: Vec<_> = versions.iter().map(|bytes| library_with(TITLE, bytes.clone())).collect();
    let oracle = Oracle::of(&libraries, &[TITLE]).await;
    for tiers in TIERS {
        let media = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let storage = open(media.path().to_str().unwrap(), &Options::default()).unwrap();
        let cache = Cache::open(tiers.config(dir.path())).unwrap();
        let resources = Resources { cache: Some(cache.clone()), ..Resources::default() };
        let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
        let origin = Origin::with_resources(storage, resources, config);
        for (version, (bytes, time)) in versions.iter().zip(times).enumerate() {
            let new = media.path().join("new");
            let file = media.path().join(TITLE);
            fs::write(&new, bytes).unwrap();
            File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
            fs::rename(&new, &file).unwrap();
            let manifest = Request::get(format!("/{TITLE}/.mpd")).body(()).unwrap();
            assert_eq!(origin.respond(manifest).await.status(), 200);
            for _ in 0..2 {
                for url in oracle.some() {
                    let response = origin.respond(Request::get(&url).body(()).unwrap()).await;
                    let body = response.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(oracle.version(&url, &body), version, "{tiers:?} {url} {time:?}");
                }
                while cache.figures().fetches > 0 {
                    tokio::task::yield_now().await;
                }
                cache.flush().await;
            }
        }
    }
}
