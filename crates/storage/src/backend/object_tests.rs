//! GCS and Azure have no server to test against here. These tests check the requests, that
//! responses take the common path, and that listings follow the tokens of their pages.

use super::{Bucket, Connector, no_retries};
use crate::backend::http::{client::Client, retry::Account};
use crate::{Key, ListRequest, Listing, Options, ReadRequest, Storage, StorageError, Version, stand_in};
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

/// Returns the value of a parameter of a request's URL, as it was sent.
fn parameter<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let (_, query) = request.target.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Asks for three pages of the folder `a b`, of which the second is empty, and checks their names.
async fn lists(bucket: &dyn Storage) {
    let folder = Key::new("a b").unwrap();
    let first = ListRequest::new(&folder).limited(2);
    let one = bucket.list(first).await.unwrap();
    let two = bucket.list(first.after(one.next.as_ref())).await.unwrap();
    let three = bucket.list(first.after(two.next.as_ref())).await.unwrap();
    let names = |listing: &Listing| (listing.objects.clone(), listing.folders.clone());
    assert_eq!(names(&one), (vec![("a+&.mp4".to_owned(), 7)], vec!["season 1".to_owned()]));
    assert_eq!((two.is_empty(), two.next.is_some()), (true, true));
    assert_eq!(names(&three), (vec![("z.mp4".to_owned(), 1 << 40)], vec![]));
    assert_eq!(three.next, None);
}

/// Checks the requests for three pages. `token` is the parameter of the token.
fn check_pages(server: &Server, prefix: &str, limit: &str, token: &str, tokens: [&str; 2]) {
    let requests = server.requests();
    let sent: Vec<_> = requests.iter().map(|request| parameter(request, token)).collect();
    assert_eq!(sent, [None, Some(tokens[0]), Some(tokens[1])]);
    for request in &requests {
        let of = |name| parameter(request, name);
        assert_eq!((of("prefix"), of("delimiter"), of(limit)), (Some(prefix), Some("%2F"), Some("2")));
    }
}

#[tokio::test]
async fn google_lists_by_pages() {
    let page = |_, request: &Request| {
        let body = match parameter(request, "continuation-token") {
            None => {
                "<Contents><Key>vod/a b/a+&amp;.mp4</Key><Size>7</Size>\
                 <LastModified>2026-11-24T00:00:00Z</LastModified></Contents>\
                 <CommonPrefixes><Prefix>vod/a b/season 1/</Prefix></CommonPrefixes>\
                 <NextContinuationToken>Q/+=</NextContinuationToken>"
            }
            Some("Q%2F%2B%3D") => "<NextContinuationToken>last</NextContinuationToken>",
            _ => {
                "<Contents><Key>vod/a b/z.mp4</Key><Size>1099511627776</Size>\
                 <LastModified>2026-11-24T00:00:00Z</LastModified></Contents>"
            }
        };
        Reply::new(200, &[], format!("<ListBucketResult>{body}</ListBucketResult>").as_bytes())
    };
    let server = Server::start(page).await;
    let prefix = Key::new("vod").unwrap();
    let bucket = stand_in::google(&server.address, "bucket", &prefix, &Options::default()).unwrap();
    lists(&*bucket).await;
    check_pages(&server, "vod%2Fa+b%2F", "max-keys", "continuation-token", ["Q%2F%2B%3D", "last"]);
}

#[tokio::test]
async fn azure_lists_by_pages() {
    let blob = |name: &str, size: u64| {
        format!(
            "<Blob><Name>{name}</Name><Properties><Last-Modified>Tue, 24 Nov 2026 00:00:00 GMT</Last-Modified>\
             <Content-Length>{size}</Content-Length><Content-Type>video/mp4</Content-Type>\
             <Etag>0x8D</Etag></Properties></Blob>"
        )
    };
    let page = move |_, request: &Request| {
        let (blobs, next) = match parameter(request, "marker") {
            None => {
                let folder = "<BlobPrefix><Name>a b/season 1/</Name></BlobPrefix>";
                (blob("a b/a+&amp;.mp4", 7) + folder, "2!108!/+=")
            }
            Some("2%21108%21%2F%2B%3D") => (String::new(), "last"),
            _ => (blob("a b/z.mp4", 1 << 40), ""),
        };
        let body = format!(
            "<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{next}</NextMarker></EnumerationResults>"
        );
        Reply::new(200, &[], body.as_bytes())
    };
    let server = Server::start(page).await;
    let bucket = stand_in::azure(&server.address, "container", &Key::root(), &Options::default()).unwrap();
    lists(&*bucket).await;
    check_pages(&server, "a+b%2F", "maxresults", "marker", ["2%21108%21%2F%2B%3D", "last"]);
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
