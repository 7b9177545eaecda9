//! Directory listings as web servers write them: nginx's `autoindex` and similar pages.

use crate::{Key, Listing};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct JsonEntry {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    size: u64,
}

/// Parses a listing. Returns `None` if the page is not a listing.
pub(crate) fn parse(content_type: &str, page: &[u8]) -> Option<Listing> {
    let found = match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json" => json(page)?,
        "text/html" => html(&String::from_utf8_lossy(page))?,
        _ => return None,
    };
    let mut listing = Listing::default();
    // The names are sorted and unique.
    for (name, what) in found {
        // A valid name is a single segment of a key: no `..`, no path, not empty.
        if Key::root().join(&name).is_none() {
            continue;
        }
        match what {
            Some(size) => listing.objects.push((name, size)),
            None => listing.folders.push(name),
        }
    }
    Some(listing)
}

/// Names with sizes; a folder has `None`.
type Entries = BTreeMap<String, Option<u64>>;

fn json(page: &[u8]) -> Option<Entries> {
    let entries: Vec<JsonEntry> = serde_json::from_slice(page).ok()?;
    let known = entries.into_iter().filter(|entry| matches!(entry.kind.as_str(), "file" | "directory"));
    Some(known.map(|entry| (entry.name, (entry.kind == "file").then_some(entry.size))).collect())
}

/// Parses the links of an HTML page. The page must call itself a listing.
fn html(page: &str) -> Option<Entries> {
    if !["Index of", "Directory listing"].iter().any(|title| page.contains(title)) {
        return None;
    }
    let mut found = Entries::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once("<a href=\"").or_else(|| rest.split_once("<A HREF=\"")) {
        let Some((link, after)) = after.split_once('"') else { break };
        rest = after;
        if let Some((name, folder)) = name(link) {
            found.insert(name, (!folder).then(|| size_after(after)));
        }
    }
    Some(found)
}

/// Returns the name that a link leads to, one level down, and whether it is a folder.
fn name(link: &str) -> Option<(String, bool)> {
    let link = link.strip_prefix("./").unwrap_or(link).replace("&amp;", "&");
    let (link, folder) = link.strip_suffix('/').map_or((link.as_str(), false), |link| (link, true));
    // Absolute links, links to other places, and the column heads that sort the page.
    if link.contains(['/', '?', '#', ':']) {
        return None;
    }
    Some((percent_decode_str(link).decode_utf8().ok()?.into_owned(), folder))
}

/// Returns the size at the end of an entry's line: `…</a>  21-Nov-2026 02:47  1234`. Returns 0 if
/// there is none or if it is rounded (`1.2M`).
fn size_after(after: &str) -> u64 {
    let line = after.split_once("</a>").map_or("", |(_, line)| line);
    let line = line.split(['\n', '\r', '<']).next().unwrap_or_default();
    let last = line.split_whitespace().next_back().unwrap_or_default();
    last.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::Listing;

    fn listing(objects: &[(&str, u64)], folders: &[&str]) -> Listing {
        Listing {
            objects: objects.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(),
            folders: folders.iter().map(|name| (*name).to_owned()).collect(),
            next: None,
        }
    }

    #[test]
    fn nginx_html() {
        let page = r#"<html>
<head><title>Index of /vod/</title></head>
<body>
<h1>Index of /vod/</h1><hr><pre><a href="../">../</a>
<a href="sub/">sub/</a>                              21-Nov-2026 02:47                   -
<a href="a%20b%2520.mp4">a b%20.mp4</a>              21-Nov-2026 02:47             1234567
<a href="colon%3A.mp4">colon:.mp4</a>                21-Nov-2026 02:47                   0
</pre><hr></body>
</html>"#;
        let expected = listing(&[("a b%20.mp4", 1_234_567), ("colon:.mp4", 0)], &["sub"]);
        assert_eq!(parse("text/html; charset=utf-8", page.as_bytes()), Some(expected));
    }

    #[test]
    fn nginx_json() {
        let page = r#"[
{ "name":"sub", "type":"directory", "mtime":"Sat, 21 Nov 2026 02:47:00 GMT" },
{ "name":"b.mp4", "type":"file", "mtime":"Sat, 21 Nov 2026 02:47:00 GMT", "size":7 },
{ "name":"odd", "type":"other", "mtime":"Sat, 21 Nov 2026 02:47:00 GMT" },
{ "name":"../up", "type":"file", "mtime":"Sat, 21 Nov 2026 02:47:00 GMT", "size":7 }
]"#;
        assert_eq!(parse("application/json", page.as_bytes()), Some(listing(&[("b.mp4", 7)], &["sub"])));
    }

    #[test]
    fn links_to_other_places_are_ignored() {
        let page = r#"<title>Index of /</title><a href="?C=N;O=D">Name</a><a href="/x">x</a>
<a href="https://other.example/y">y</a><a href="..%2fz">z</a><a href="%2e%2e">up</a><a href="">none</a>
<td><a href="ok.mp4">ok.mp4</a></td><td align="right">1.2M</td>"#;
        assert_eq!(parse("text/html", page.as_bytes()), Some(listing(&[("ok.mp4", 0)], &[])));
    }

    #[test]
    fn other_pages_are_not_listings() {
        assert_eq!(parse("text/html", b"<title>Films</title><a href=\"a.mp4\">a</a>"), None);
        assert_eq!(parse("video/mp4", b"Index of"), None);
        assert_eq!(parse("application/json", b"{\"name\":1}"), None);
        assert_eq!(parse("text/html", b"Index of <a href=\"broken"), Some(Listing::default()));
    }
}
