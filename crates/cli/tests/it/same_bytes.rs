//! Two processes with different back ends send identical bytes and ETags for every URL of the
//! sample library.

use crate::{
    crawl::{NATIVE, crawl},
    server::{Server, samples},
    store::{Nginx, S3},
};

/// Titles that need no listing.
const FILES: [&str; 3] = ["/ferry.mp4", "/lighthouse.mp4", "/buoy.mp4"];
/// Titles that need a listing.
const LISTED: [&str; 1] = ["/harbour"];

fn check_same(one: &Server, other: &Server, titles: &[&str]) {
    for title in titles {
        let entries = NATIVE.map(|entry| format!("{title}/{entry}"));
        let left = crawl(one.address, &entries);
        let right = crawl(other.address, &entries);
        assert!(left.len() > 20, "{title}: only {} URLs", left.len());
        assert!(left.keys().eq(right.keys()), "{title}: other URLs");
        for (path, left) in &left {
            let right = &right[path];
            assert!(left.body == right.body, "{path}: other bytes");
            assert!(left.headers["etag"].starts_with('"'), "{path}: a strong ETag");
            assert_eq!(left.headers["etag"], right.headers["etag"], "{path}");
            assert_eq!(left.headers["content-type"], right.headers["content-type"], "{path}");
        }
    }
}

#[test]
fn a_folder_and_s3_give_the_same_bytes() {
    let Some(s3) = S3::start(&samples()) else { return };
    let folder = Server::start(&samples(), &[], &[]);
    let bucket = Server::start(
        "s3://library",
        &["--s3-endpoint", &s3.endpoint(), "--s3-region", "us-east-1"],
        &[("AWS_ACCESS_KEY_ID", S3::ACCESS), ("AWS_SECRET_ACCESS_KEY", S3::SECRET)],
    );
    check_same(&folder, &bucket, &[&FILES[..], &LISTED[..]].concat());
    for log in [folder.stop(), bucket.stop()] {
        assert!(!log.contains("panicked"), "{log}");
    }
}

#[test]
fn a_folder_and_nginx_give_the_same_bytes() {
    let Some(nginx) = Nginx::start(&samples()) else { return };
    let folder = Server::start(&samples(), &[], &[]);
    let http = Server::start(&nginx.url(), &[], &[]);
    check_same(&folder, &http, &FILES);
}
