//! GCS and Azure have no server to test against here. These tests check the requests, and that
//! responses take the common path.

use super::{Bucket, Connector, no_retries};
use crate::backend::http::{client::Client, retry::Account};
use crate::{Key, Options, ReadRequest, Storage, StorageError, Version, stand_in};
use futures_util::TryStreamExt;
use latemux_testmedia::http_server::{Reply, Request, Server, Then};
use object_store::aws::AmazonS3Builder;
use std::sync::Arc;
use std::time::Duration;

const RANGE: &str = "bytes 2-5/10";

fn reply(n: usize, request: &Request) -> Reply {
    let headers = [("ETag", "\"0x8D\""), ("Content-Range", RANGE)];
    match (n, request.header("if-match")) {
        // Breaks off after two bytes and is then continued, which would reveal a second data path.
        (0, _) => Reply::cut(206, &headers, b"2345", 2, Then::Close),
        (1, Some("\"0x8D\"")) => Reply::new(206, &[headers[0], ("Content-Range", "bytes 4-5/10")], b"45"),
        (2, Some("\"old\"")) => Reply::new(412, &[], b""),
        _ => Reply::new(404, &[], b""),
    }
}

async fn reads(server: &Server, bucket: &dyn Storage, target: &str, authorization: &str) {
    let key = Key::new("a b/ü+%.mp4").unwrap();
    let read = bucket.read(ReadRequest::range(&key, 2..6)).await.unwrap();
    assert_eq!((read.object.version.etag.as_deref(), read.object.size), (Some("\"0x8D\""), 10));
    let frames: Vec<_> = read.body.try_collect().await.unwrap();
    assert_eq!(frames.concat(), b"2345");
    let old = Version { etag: Some("\"old\"".into()), size: 10, modified: None };
    let e = bucket.read(ReadRequest::range(&key, 0..1).pinned(&old)).await.unwrap_err();
    assert!(matches!(e, StorageError::Changed(_)), "{e:?}");
    let e = bucket.read(ReadRequest::head(&key, 0)).await.unwrap_err();
    assert!(matches!(e, StorageError::NotFound(_)), "{e:?}");

    let requests = server.requests();
    let ranges: Vec<_> = requests.iter().map(|request| request.header("range")).collect();
    assert_eq!(ranges, [Some("bytes=2-5"), Some("bytes=4-5"), Some("bytes=0-0"), None]);
    assert_eq!(requests.last().unwrap().method, "HEAD");
    for request in &requests {
        assert_eq!(request.target, target);
        assert!(request.header("authorization").unwrap().starts_with(authorization), "{request:?}");
    }
}

#[tokio::test]
async fn google() {
    let server = Server::start(reply).await;
    let prefix = Key::new("vod").unwrap();
    let bucket = stand_in::google(&server.address, "bucket", &prefix, &Options::default()).unwrap();
    reads(&server, &*bucket, "/bucket/vod%2Fa%20b%2F%C3%BC%2B%25%2Emp4", "Bearer token").await;
}

#[tokio::test]
async fn azure() {
    let server = Server::start(reply).await;
    let bucket = stand_in::azure(&server.address, "container", &Key::root(), &Options::default()).unwrap();
    reads(&server, &*bucket, "/container/a%20b/%C3%BC+%25.mp4", "SharedKey account:").await;
}

/// A read that waits for credentials that another read has requested does not wait for ever.
#[tokio::test]
async fn missing_credentials_time_out() {
    let instance = Server::start(|_, _| Reply::nothing(Then::Hang)).await;
    let brief = Duration::from_millis(100);
    let options = Options {
        connect_timeout: brief,
        first_byte_timeout: brief,
        stall_timeout: brief,
        retry_within: brief,
        ..Options::default()
    };
    let client = Client::new(&options, Arc::new(Account::new(&options))).unwrap();
    let service = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_metadata_endpoint(&instance.address)
        .with_http_connector(Connector(client.clone()))
        .with_retry(no_retries())
        .build()
        .unwrap();
    let bucket = Bucket::new(service, Key::root(), "s3://bucket".into(), client);
    let bucket = &bucket;
    let key = Key::new("x").unwrap();
    let reads = (0..50).map(|_| bucket.read(ReadRequest::head(&key, 1)));
    // One after another, they would take five seconds.
    let all = tokio::time::timeout(brief * 30, futures_util::future::join_all(reads)).await.unwrap();
    for response in all {
        assert_eq!(response.unwrap_err().reason(), "storage_timeout");
    }
}
