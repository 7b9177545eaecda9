//! The suite against an S3 server of another make (versitygw).

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use latemux_storage::conformance::{self, Fixture};
use latemux_storage::open::{AccessKeys, S3Options, open_bucket};
use latemux_storage::{Bucket, Key, Options, Storage, StorageError, Want, open};
use latemux_testmedia::process::{Process, tool};
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

struct Filled {
    bucket: Bucket,
    refused: Option<Arc<dyn Storage>>,
}

impl Fixture for Filled {
    fn put<'a>(&'a mut self, key: &'a Key, bytes: Bytes) -> BoxFuture<'a, ()> {
        async move { self.bucket.put(key, bytes).await.unwrap() }.boxed()
    }

    fn remove<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, ()> {
        async move { self.bucket.remove(key).await.unwrap() }.boxed()
    }

    fn refused(&mut self) -> Option<(Arc<dyn Storage>, Key)> {
        Some((self.refused.take()?, Key::new("ranges.mp4").unwrap()))
    }
}

fn options(endpoint: String, secret: &str) -> Options {
    let keys = Some(AccessKeys { id: "tester".into(), secret: secret.into() });
    let s3 = S3Options { endpoint: Some(endpoint), allow_http: true, keys, ..S3Options::default() };
    Options { s3, ..Options::default() }
}

/// Starts versitygw over a folder with one bucket.
fn start() -> Option<(Process, tempfile::TempDir, String)> {
    let versitygw = tool("versitygw")?;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bucket")).unwrap();
    let process = Process::start(|port| {
        let mut command = Command::new(&versitygw);
        command.env("ROOT_ACCESS_KEY", "tester").env("ROOT_SECRET_KEY", "secret").stderr(Stdio::null());
        command.arg("--port").arg(format!("127.0.0.1:{port}")).arg("posix").arg(dir.path());
        command
    });
    let endpoint = format!("http://127.0.0.1:{}", process.port);
    Some((process, dir, endpoint))
}

#[tokio::test]
async fn conforms() {
    let Some((_process, _dir, endpoint)) = start() else { return };
    for location in ["s3://bucket", "s3://bucket/pre fix/two/"] {
        let good = options(endpoint.clone(), "secret");
        let storage = open(location, &good).unwrap();
        let refused = Some(open(location, &options(endpoint.clone(), "wrong")).unwrap());
        let mut fixture = Filled { bucket: open_bucket(location, &good).unwrap(), refused };
        conformance::run(&*storage, &mut fixture).await;
    }
}

#[tokio::test]
async fn buckets_that_are_not_there() {
    let Some((_process, _dir, endpoint)) = start() else { return };
    let storage = open("s3://absent", &options(endpoint, "secret")).unwrap();
    let key = Key::new("x").unwrap();
    assert!(matches!(storage.read(&key, Want::Head(1), None).await, Err(StorageError::NotFound(_))));
    assert!(matches!(storage.list(&Key::root()).await, Err(StorageError::NotFound(_))));
}
