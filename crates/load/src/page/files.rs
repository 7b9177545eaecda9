//! The built files of the page, which are part of the binary.

use bytes::Bytes;
use rust_embed::RustEmbed;
use serde::Serialize;
use std::borrow::Cow;

/// The output of `make web`; empty if that has not run.
#[derive(RustEmbed)]
#[folder = "../../web/dist-load"]
#[allow_missing = true]
struct Files;

/// The page as one file. [`with_data`] replaces [`DATA`] in it.
const REPORT: &str = "report.html";

/// The place of the data in [`REPORT`].
const DATA: &str = "{{data}}";

/// The page in a build without the files of `make web`.
const PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"/><title>latemux load</title>\
    <p>This build does not contain the page. Run <code>make web</code> and build the program again. \
    The data: <a href=\"live.json\">live.json</a>.</p></html>\n";

/// The report in a build without the files of `make web`.
const REPORT_PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"/><title>latemux load</title>\
    <p>The program that wrote this report does not contain the page. Run <code>make web</code> and \
    build the program again. The data:</p><pre id=\"report\">{{data}}</pre></html>\n";

/// Returns a file that the page consists of, or `None` if there is no such file.
pub(crate) fn file(path: &str) -> Option<Bytes> {
    match Files::get(path).filter(|_| path != REPORT).map(|file| file.data) {
        Some(Cow::Borrowed(bytes)) => Some(Bytes::from_static(bytes)),
        Some(Cow::Owned(bytes)) => Some(bytes.into()),
        None => (path == "index.html").then_some(Bytes::from_static(PLACEHOLDER.as_bytes())),
    }
}

/// Returns the page as one HTML file that shows `data`.
pub(crate) fn with_data(data: &impl Serialize) -> String {
    let built = Files::get(REPORT).map(|file| String::from_utf8_lossy(&file.data).into_owned());
    fill(built.as_deref().unwrap_or(REPORT_PLACEHOLDER), data)
}

/// Inserts data into a page. `<` is escaped, so that no text can close the element around the data.
fn fill(page: &str, data: &impl Serialize) -> String {
    let json = serde_json::to_string(data).unwrap_or_default();
    page.replacen(DATA, &json.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_leave_its_element() {
        let page =
            fill("<a>{{data}}</a><b>{{data}}</b>", &["</script><script>alert(1)</script>", "{{data}}"]);
        let expected =
            r#"<a>["\u003c/script>\u003cscript>alert(1)\u003c/script>","{{data}}"]</a><b>{{data}}</b>"#;
        assert_eq!(page, expected);
    }

    #[test]
    fn a_report_is_the_live_page_in_one_file() {
        let report = with_data(&["a"]);
        if Files::get(REPORT).is_none() {
            assert!(report.contains("<pre id=\"report\">[\"a\"]</pre>"), "{report}");
            return;
        }
        let text = |path: &str| String::from_utf8(file(path).unwrap().to_vec()).unwrap();
        let live = text("index.html");
        let body = |page: &str| page.split_once("<body").unwrap().1.to_owned();
        assert_eq!(body(&report), body(&live), "the same components");
        let asset = |extension: &str| {
            let path = Files::iter().find(|path| path.ends_with(extension)).unwrap();
            assert!(live.contains(path.as_ref()), "the live page uses {path}");
            text(&path)
        };
        assert!(report.contains(&format!("<style>{}</style>", asset(".css"))), "the same stylesheet");
        let script = asset(".js").replace("</script", "<\\/script");
        assert!(report.contains(&format!("<script type=\"module\">{script}</script>")), "the same script");
        assert!(report.contains("<script type=\"application/json\" id=\"report\">[\"a\"]</script>"));
        let head = report.split_once("<body").unwrap().0;
        assert!(!head.contains("src=\"_/") && !head.contains("href=\"_/"), "it loads no other file");
        assert_eq!(file(REPORT), None, "the live page's server does not offer it");
    }
}
