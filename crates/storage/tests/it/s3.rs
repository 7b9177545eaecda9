//! Runs the conformance suite against an S3 server (versitygw).

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use latemux_storage::conformance::{self, Fixture, collect};
use latemux_storage::open::open_bucket;
use latemux_storage::write::{ConditionalPut, WriteError, destination, writable};
use latemux_storage::{
    AccessKeys, Bucket, Key, ListRequest, Memory, Options, ReadRequest, S3Overrides, Storage, StorageError,
    open,
};
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
    let s3 = S3Overrides { keys, ..S3Overrides::default() };
    Options { s3_endpoint: Some(endpoint), s3, ..Options::default() }
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
async fn missing_buckets_were_taken_for_missing_objects() {
    let Some((_process, _dir, endpoint)) = start() else { return };
    let storage = open("s3://absent", &options(endpoint, "secret")).unwrap();
    let key = Key::new("x").unwrap();
    assert!(matches!(storage.read(ReadRequest::head(&key, 1)).await, Err(StorageError::NoBucket(_))));
    assert!(matches!(storage.list(ListRequest::new(&Key::root())).await, Err(StorageError::NoBucket(_))));
}

/// Objects are written in pieces, large ones in parts, and become visible only when complete.
#[tokio::test]
async fn objects_are_written_in_pieces() {
    let Some((_process, _dir, endpoint)) = start() else { return };
    let options = options(endpoint, "secret");
    let storage = open("s3://bucket", &options).unwrap();
    for (name, pieces) in [("small", 3), ("of two parts", 17), ("of three and a bit", 49), ("empty", 0)] {
        let key = Key::new(name).unwrap();
        let to = destination(&format!("s3://bucket/{}", name.replace(' ', "%20")), &options).unwrap();
        let mut writer = to.create(1 << 20).await.unwrap();
        let mut all = Vec::new();
        for n in 0..pieces {
            let piece = vec![n; (1 << 19) + usize::from(n)];
            all.extend_from_slice(&piece);
            writer.write(piece.into()).await.unwrap();
        }
        writer.flush().await.unwrap();
        let before = storage.read(ReadRequest::head(&key, 1)).await;
        assert!(matches!(before, Err(StorageError::NotFound(_))), "{name}: {before:?}");
        writer.commit().await.unwrap();
        let read = storage.read(ReadRequest::head(&key, u64::MAX)).await.unwrap();
        assert!(collect(read).await.unwrap() == all, "{name}");

        // An unfinished object changes nothing.
        let mut writer = to.create(1 << 20).await.unwrap();
        for _ in 0..20 {
            writer.write(vec![1; 1 << 20].into()).await.unwrap();
        }
        writer.discard().await;
        let read = storage.read(ReadRequest::head(&key, u64::MAX)).await.unwrap();
        assert!(collect(read).await.unwrap() == all, "{name}");
    }
    let absent = destination("s3://absent/x", &options).unwrap();
    let error = absent.put("x".into()).await.unwrap_err();
    assert!(matches!(error, WriteError::Storage(StorageError::NotFound(_))), "{error:?}");
}

/// One of two concurrent writers succeeds, and only the version that was read is replaced.
#[tokio::test]
async fn objects_are_replaced_only_at_a_known_version() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap().to_owned();
    let memory = Arc::new(Memory::new());
    let mut storages: Vec<(Arc<dyn Storage>, Arc<dyn ConditionalPut>)> = vec![
        (open(&at, &Options::default()).unwrap(), writable(&at, &Options::default()).unwrap().unwrap()),
        (memory.clone(), memory),
    ];
    let gateway = start();
    if let Some((_, _, endpoint)) = &gateway {
        let options = options(endpoint.clone(), "secret");
        let location = "s3://bucket/pre fix";
        storages.push((open(location, &options).unwrap(), writable(location, &options).unwrap().unwrap()));
    }
    for (storage, target) in storages {
        let key = Key::new("a b.index.mp4").unwrap();
        let now = async || {
            let read = storage.read(ReadRequest::head(&key, 100)).await.unwrap();
            (read.object.version.clone(), collect(read).await.unwrap())
        };
        let (one, two) = tokio::join!(
            target.put_over(&key, "one".into(), None),
            target.put_over(&key, "two!".into(), None)
        );
        let one = one.unwrap();
        let two = two.unwrap();
        let (first, bytes) = now().await;
        assert!(one != two, "{storage:?}: exactly one succeeds");
        assert_eq!(bytes, if one { "one" } else { "two!" });
        assert!(!target.put_over(&key, "three".into(), None).await.unwrap());
        assert!(target.put_over(&key, "fourth".into(), Some(&first)).await.unwrap());
        let (second, bytes) = now().await;
        assert_eq!(bytes, "fourth");
        // The first version no longer exists.
        assert!(!target.put_over(&key, "a fifth".into(), Some(&first)).await.unwrap());
        let absent = Key::new("absent").unwrap();
        assert!(!target.put_over(&absent, "x".into(), Some(&second)).await.unwrap());
        assert_eq!(now().await.1, "fourth");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    assert!(writable("https://media.example/", &Options::default()).unwrap().is_none());
}

#[tokio::test]
async fn failed_writes_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let target = writable(folder.path().to_str().unwrap(), &Options::default()).unwrap().unwrap();
    let error = target.put_over(&Key::new("no/such/x").unwrap(), "x".into(), None).await.unwrap_err();
    assert!(matches!(error, WriteError::Storage(StorageError::NotFound(_))), "{error:?}");
    std::os::unix::fs::symlink("/tmp", folder.path().join("out")).unwrap();
    let error = target.put_over(&Key::new("out/x").unwrap(), "x".into(), None).await.unwrap_err();
    assert!(matches!(error, WriteError::Storage(_)), "a link that leads out: {error:?}");
    let Some((_process, _dir, endpoint)) = start() else { return };
    for (location, secret) in [("s3://bucket", "wrong"), ("s3://absent", "secret")] {
        let target = writable(location, &options(endpoint.clone(), secret)).unwrap().unwrap();
        let error = target.put_over(&Key::new("x").unwrap(), "x".into(), None).await.unwrap_err();
        assert!(matches!(error, WriteError::Storage(_)), "{location}: {error:?}");
    }
}
