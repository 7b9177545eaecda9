use latemux_storage::conformance::{collect, pattern};
use latemux_storage::{AccessKeys, Key, Options, ReadRequest, S3Overrides, open, open_object};
use std::fs;

fn s3_options(endpoint: Option<&str>) -> Options {
    let keys = Some(AccessKeys { id: "id".into(), secret: "hidden".into() });
    let s3 = S3Overrides { keys, ..S3Overrides::default() };
    Options { s3_endpoint: endpoint.map(str::to_owned), s3, ..Options::default() }
}

fn opened(location: &str) -> Result<String, String> {
    open(location, &s3_options(None)).map(|storage| storage.describe()).map_err(|e| e.to_string())
}

#[test]
fn locations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for (location, described) in [
        (path, path),
        (&format!("file://{path}"), path),
        ("http://host/vod", "http://host/vod/"),
        ("https://host:8443/vod/?token=secret#x", "https://host:8443/vod/"),
        ("https://host", "https://host/"),
        ("s3://bucket/prefix/", "s3://bucket/prefix/"),
        ("s3://bucket", "s3://bucket"),
    ] {
        assert_eq!(opened(location).as_deref(), Ok(described), "{location}");
    }
}

#[test]
fn invalid_locations_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent");
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    for location in [
        absent.to_str().unwrap(),
        file.to_str().unwrap(),
        "",
        "ftp://host/",
        "http://",
        "https://user:secret@host/",
        "https://token@host/?secret",
        "s3:///key",
        "s3://bucket/a/../../b//c",
        "file://elsewhere/path",
    ] {
        let e = opened(location).expect_err(location);
        assert!(!e.contains("secret"), "{e}");
    }
    assert!(open("s3://bucket", &s3_options(Some("http://127.0.0.1:7070"))).is_ok());
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", s3_options(None));
    assert!(shown.contains("id") && !shown.contains("hidden"), "{shown}");
    let storage = open("https://host/vod/?token=hidden", &Options::default()).unwrap();
    assert!(!format!("{storage:?}").contains("hidden"), "{storage:?}");
    let storage = open("s3://bucket", &s3_options(None)).unwrap();
    assert!(!format!("{storage:?}").contains("hidden"), "{storage:?}");
}

#[tokio::test]
async fn objects() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/title")).unwrap();
    fs::write(dir.path().join("a/film 1%.mp4"), pattern(1, 100)).unwrap();
    std::os::unix::fs::symlink("a/film 1%.mp4", dir.path().join("link.mp4")).unwrap();
    let path = dir.path().to_str().unwrap();
    for location in [
        format!("{path}/a/film 1%.mp4"),
        format!("{path}/link.mp4"),
        format!("{path}/a/title/../film 1%.mp4"),
        format!("file://{path}/a/film%201%25.mp4"),
    ] {
        let (storage, key) = open_object(&location, &Options::default()).expect(&location);
        assert_eq!(key.as_str(), "film 1%.mp4");
        let read = storage.read(ReadRequest::head(&key, 50)).await.expect(&location);
        assert_eq!(collect(read).await.unwrap(), pattern(1, 50));
    }
    let (_, key) = open_object(&format!("{path}/a/title/"), &Options::default()).unwrap();
    assert_eq!(key.as_str(), "title");
    for (location, place, name) in [
        ("https://host/vod/a%20b.mp4?t=1", "https://host/vod/", "a b.mp4"),
        ("https://host/film.mp4", "https://host/", "film.mp4"),
        ("s3://bucket/pre/film.mp4", "s3://bucket/pre/", "film.mp4"),
        ("s3://bucket/film.mp4", "s3://bucket/", "film.mp4"),
    ] {
        let (storage, key) = open_object(location, &s3_options(None)).expect(location);
        assert_eq!((storage.describe().as_str(), key), (place, Key::new(name).unwrap()));
    }
    for location in
        ["https://host/vod/", "https://host", "s3://bucket", "https://host/%2e%2e%2fx", "./absent.mp4"]
    {
        assert!(open_object(location, &s3_options(None)).is_err(), "{location}");
    }
}
