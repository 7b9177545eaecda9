//! Configurations of nginx, from the templates in `lab/nginx`.

use std::{net::SocketAddr, path::Path};

/// The frame of every configuration.
const SERVER: &str = include_str!("../../../lab/nginx/server.conf");
/// The storage.
const STORAGE: &str = include_str!("../../../lab/nginx/storage.conf");
/// Index MP4s from another folder.
const INDEXES: &str = include_str!("../../../lab/nginx/indexes.conf");
/// Requests that are passed on to a bucket.
const BUCKET: &str = include_str!("../../../lab/nginx/bucket.conf");
/// The same files under several names.
const COPIES: &str = include_str!("../../../lab/nginx/copies.conf");
/// The servers that a proxy requests from.
const UPSTREAM: &str = include_str!("../../../lab/nginx/upstream.conf");
/// The folder of a cache, and what may be kept.
const CACHE: &str = include_str!("../../../lab/nginx/cache.conf");

/// The modes of a cache with their templates.
const MODES: [(&str, &str); 7] = [
    ("off", include_str!("../../../lab/nginx/off.conf")),
    ("segments", include_str!("../../../lab/nginx/segments.conf")),
    ("ism", include_str!("../../../lab/nginx/ism.conf")),
    ("meta", include_str!("../../../lab/nginx/meta.conf")),
    ("exact", include_str!("../../../lab/nginx/exact.conf")),
    ("drop", include_str!("../../../lab/nginx/drop.conf")),
    ("blocks", include_str!("../../../lab/nginx/blocks.conf")),
];

/// Returns the configuration of a storage that serves the files below `root`. Log, temporary files
/// and cache go to `folder`, which must hold the folder `temporary`. Index MP4s come from
/// `indexes`, if it is stated. With `copied`, all files are also below `/title-1`, `/title-2`, and
/// so on.
pub fn storage(
    folder: &Path,
    listen: &[SocketAddr],
    root: &Path,
    indexes: Option<&Path>,
    copied: bool,
) -> String {
    let at = |template: &str, path: &Path| template.replace("@ROOT@", &quoted(&path.display().to_string()));
    let indexes = indexes.map_or_else(String::new, |indexes| at(INDEXES, indexes));
    let copies = if copied { COPIES } else { "" };
    frame(folder, listen, "", &(at(STORAGE, root) + copies + &indexes))
}

/// Returns the configuration of a proxy that passes requests on to a gateway to a bucket, and
/// counts them.
pub fn bucket(folder: &Path, listen: &[SocketAddr], gateway: SocketAddr) -> String {
    frame(folder, listen, &next(&format!("    server {gateway};"), true), &connected(BUCKET, true))
}

/// Returns the configuration of a cache in front of `upstream`, or `None` for an unknown mode.
/// With `reuse`, connections to the upstream are kept open, otherwise each request opens its own.
pub fn cache(
    folder: &Path,
    listen: &[SocketAddr],
    upstream: SocketAddr,
    mode: &str,
    reuse: bool,
) -> Option<String> {
    let (_, locations) = MODES.iter().find(|(name, _)| *name == mode)?;
    let http = next(&format!("    server {upstream};"), reuse) + CACHE;
    Some(frame(folder, listen, &http, &connected(locations, reuse)))
}

/// Returns the configuration of a proxy that spreads requests over `origins`: by a consistent hash
/// of the title, or in turn.
pub fn balance(folder: &Path, listen: &[SocketAddr], origins: &[SocketAddr], hash: bool) -> String {
    let mut servers: String = if hash { "    hash $title consistent;\n".to_owned() } else { String::new() };
    servers += &origins.iter().map(|origin| format!("    server {origin};\n")).collect::<String>();
    // The first folder of a path names the title.
    let title = "  map $uri $title {\n    ~^(/[^/]+) $1;\n  }\n";
    frame(folder, listen, &format!("{title}{}", next(&servers, true)), MODES[0].1)
}

fn next(servers: &str, reuse: bool) -> String {
    connected(&UPSTREAM.replace("@SERVERS@", servers), reuse)
}

/// Completes the header with which a proxy keeps or closes a connection.
fn connected(template: &str, reuse: bool) -> String {
    template.replace("@CONNECTION@", if reuse { "\"\"" } else { "close" })
}

fn frame(folder: &Path, listen: &[SocketAddr], http: &str, server: &str) -> String {
    let listen: String =
        listen.iter().map(|address| format!("    listen {address} backlog=4096;\n")).collect();
    SERVER
        .replace("@HTTP@", http)
        .replace("@SERVER@", &(listen + server))
        .replace("@DIR@", &folder.display().to_string())
}

/// Returns a text as a string of nginx's syntax.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn configurations_have_no_placeholders_left() {
        let folder = Path::new("/tmp/x");
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = [at(1), at(3)];
        let root = Path::new("/media");
        let mut all = vec![
            storage(folder, &listen, root, Some(folder), true),
            balance(folder, &listen, &[at(2)], true),
            bucket(folder, &listen, at(2)),
        ];
        for (mode, _) in MODES {
            all.push(cache(folder, &listen, at(2), mode, mode == "off").unwrap());
        }
        for text in &all {
            assert!(!text.contains('@') && !text.contains("tcp_nopush on"), "{text}");
            assert!(text.contains("listen 127.0.0.1:1 ") && text.contains("listen 127.0.0.1:3 "), "{text}");
        }
        assert!(all[3].contains("Connection \"\"") && all[4].contains("Connection close"));
        assert_eq!(cache(folder, &listen, at(2), "all", true), None);
    }
}
