//! The suite against an S3 server of another make (versitygw), and where credentials come from.

use crate::server::{Reply, Server};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use latemux_storage::conformance::{self, Fixture, collect};
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

/// An instance's credentials are asked for once, and again when they expire.
#[tokio::test]
async fn credentials_are_renewed_as_they_expire() {
    if std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        println!("SKIPPED: the environment holds AWS_ variables, which would be used");
        return;
    }
    let instance = Server::start(|n, request| match request.target.as_str() {
        "/latest/api/token" => Reply::new(200, &[], b"session"),
        "/latest/meta-data/iam/security-credentials/" => Reply::new(200, &[], b"role"),
        _ => {
            // Three requests for each set. The first set has expired when it is used, the second has not.
            let expiry = if n < 3 { "2020-01-01T00:00:00Z" } else { "2120-01-01T00:00:00Z" };
            let keys = format!(
                r#"{{"AccessKeyId":"ID{}","SecretAccessKey":"s","Token":"t","Expiration":"{expiry}"}}"#,
                n / 3
            );
            Reply::new(200, &[], keys.as_bytes())
        }
    })
    .await;
    let storage_side = Server::start(|_, _| Reply::new(206, &[("Content-Range", "bytes 0-0/1")], b"x")).await;
    let s3 = S3Options {
        endpoint: Some(storage_side.address.clone()),
        allow_http: true,
        metadata_endpoint: Some(instance.address.clone()),
        ..S3Options::default()
    };
    let storage = open("s3://bucket", &Options { s3, ..Options::default() }).unwrap();
    for _ in 0..4 {
        collect(storage.read(&Key::new("x").unwrap(), Want::Head(1), None).await.unwrap()).await.unwrap();
    }
    let used: Vec<_> =
        storage_side.requests().iter().map(|r| r.header("authorization").unwrap().to_owned()).collect();
    let ids = used.iter().map(|text| text.split("Credential=").nth(1).unwrap().split('/').next().unwrap());
    assert_eq!(ids.collect::<Vec<_>>(), ["ID0", "ID1", "ID1", "ID1"]);
    assert_eq!(instance.requests().len(), 6);
}

/// No credentials to be had is not the same as being refused by them.
#[tokio::test]
async fn credentials_that_cannot_be_had() {
    if std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        println!("SKIPPED: the environment holds AWS_ variables, which would be used");
        return;
    }
    for (status, expected) in [(404, "storage_denied"), (500, "storage_unavailable")] {
        let instance = Server::start(move |_, _| Reply::new(status, &[], b"")).await;
        let metadata_endpoint = Some(instance.address.clone());
        let s3 = S3Options { metadata_endpoint, ..S3Options::default() };
        let storage = open("s3://bucket", &Options { s3, ..Options::default() }).unwrap();
        let e = storage.read(&Key::new("x").unwrap(), Want::Head(1), None).await.unwrap_err();
        assert_eq!(e.reason(), expected, "{e}");
    }
}
