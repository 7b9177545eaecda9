use super::{parse, write};
use crate::{Cue, TextError, limits};

fn document(head: &str, body: &str) -> String {
    format!(
        "<tt xmlns=\"http://www.w3.org/ns/ttml\" xmlns:tts=\"http://www.w3.org/ns/ttml#styling\" \
         xml:lang=\"de\"><head>{head}</head><body>{body}</body></tt>"
    )
}

fn cues(head: &str, body: &str) -> Vec<(u64, u64, String, String)> {
    let cues = parse(&document(head, body)).unwrap().cues;
    cues.into_iter().map(|cue| (cue.start, cue.end, cue.settings, cue.text)).collect()
}

fn one(start: u64, end: u64, settings: &str, text: &str) -> (u64, u64, String, String) {
    (start, end, settings.to_owned(), text.to_owned())
}

#[test]
fn times_of_elements_nest() {
    let body = "<div begin='10s'><p begin='1s' end='3s'>a</p><p begin='2s' dur='1.5s'>b</p></div>\
        <div end='5s'><p begin='4s' end='9s'>c</p><p>d</p></div>";
    let want = [
        one(0, 5000, "", "d"),
        one(4000, 5000, "", "c"),
        one(11_000, 13_000, "", "a"),
        one(12_000, 13_500, "", "b"),
    ];
    assert_eq!(cues("", body), want);
    assert_eq!(parse(&document("", body)).unwrap().language, "de");
}

#[test]
fn parts_of_a_paragraph_have_times_of_their_own() {
    let body = "<div><p begin='1s' end='4s'>a<span begin='1s' end='2s'> b</span><span begin='2s'> c</span></p></div>";
    let want = [one(1000, 2000, "", "a"), one(2000, 3000, "", "a b"), one(3000, 4000, "", "a c")];
    assert_eq!(cues("", body), want);
}

#[test]
fn white_space_counts_once_and_breaks_end_lines() {
    let body = "<div><p begin='0s' end='1s'>\n  one \n two <br/> <br/>\n three&amp;&lt; </p>\
        <p begin='1s' end='2s' xml:space='preserve'>a  b\nc</p></div>";
    let want = [one(0, 1000, "", "one two\nthree&amp;&lt;"), one(1000, 2000, "", "a  b\nc")];
    assert_eq!(cues("", body), want);
}

#[test]
fn styles_and_regions_become_those_of_webvtt() {
    let head = "<styling><style xml:id='i' tts:fontStyle='italic'/><style xml:id='y' style='i' tts:color='#FFFF00FF'/>\
        </styling><layout><region xml:id='t' tts:origin='10% 5%' tts:extent='80% 20%' tts:textAlign='left'/>\
        <region xml:id='m'><style tts:origin='0% 30%'/><style tts:extent='100% 30%'/><style tts:displayAlign='after'/>\
        </region><region xml:id='b' tts:origin='10% 70%' tts:extent='80% 20%' tts:displayAlign='after'/></layout>";
    let body = "<div><p region='t' begin='0s' end='1s'>a <span style='i'>b</span> <span style='y'>c</span></p>\
        <p region='m' begin='1s' end='2s' tts:fontWeight='bold' tts:textAlign='end'>d</p>\
        <p region='b' begin='2s' end='3s' tts:textDecoration='underline' tts:color='white'>e</p></div>";
    let want = [
        one(0, 1000, "line:5% align:left", "a <i>b</i> <c.yellow><i>c</i></c>"),
        one(1000, 2000, "line:60%,end align:end", "<b>d</b>"),
        one(2000, 3000, "", "<u>e</u>"),
    ];
    assert_eq!(cues(head, body), want);
}

#[test]
fn hostile_documents_are_refused() {
    let deep = |levels: usize| format!("<tt>{}{}</tt>", "<a>".repeat(levels), "</a>".repeat(levels));
    assert_eq!(parse(&deep(200_000)).unwrap().cues, []);
    assert!(matches!(parse(&deep(300_000)), Err(TextError::Malformed(_))));
    let nested =
        "<div>".repeat(limits::XML_DEPTH + 1) + "<p end='1s'>x</p>" + &"</div>".repeat(limits::XML_DEPTH + 1);
    assert!(matches!(parse(&document("", &nested)), Err(TextError::OverLimit(..))));
    let bomb = "<!DOCTYPE tt [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><tt><body>&b;</body></tt>";
    assert!(matches!(parse(bomb), Err(TextError::Malformed(_))));
    let attributes: String = (0..300).map(|n| format!(" a{n}=''")).collect();
    assert!(matches!(parse(&format!("<tt{attributes}/>")), Err(TextError::OverLimit(..))));
    let spans: String = (0..600).map(|n| format!("<span begin='{n}s'>x</span>")).collect();
    let paragraph = document("", &format!("<div><p>{spans}</p></div>"));
    assert!(matches!(parse(&paragraph), Err(TextError::OverLimit(..))));
    let long = " ".repeat(limits::FILE_BYTES + 1);
    assert!(matches!(parse(&long), Err(TextError::OverLimit(..))));
    for text in ["", "<tt>", "<html/>", "<tt><body><p begin='x'/></body></tt>", "WEBVTT"] {
        assert!(matches!(parse(text), Err(TextError::Malformed(_))), "{text}");
    }
}

#[test]
fn written_documents_say_the_same() {
    let cue = |start, end, settings: &str, text: &str| Cue {
        start,
        end,
        id: String::new(),
        settings: settings.to_owned(),
        text: text.to_owned(),
    };
    let all = [
        cue(10_500, 12_000, "line:10% align:left", "<b>a</b> &amp; <i>b\nc</i>"),
        cue(11_000, 13_000, "", "<c.yellow>\"d\"</c> &lt;e&gt;"),
    ];
    let text = write("en", &all, 10_000);
    assert!(
        text.contains(
            "<p begin=\"00:00:00.500\" end=\"00:00:02.000\" region=\"top\" tts:textAlign=\"left\">"
        )
    );
    let got = parse(&text).unwrap();
    assert_eq!(got.language, "en");
    // A tag is closed before a line ends, and opened again behind it.
    let texts: Vec<_> = got.cues.iter().map(|cue| (cue.start, cue.end, cue.text.as_str())).collect();
    let want = [(500, 2000, "<b>a</b> &amp; <i>b\nc</i>"), (1000, 3000, "<c.yellow>\"d\"</c> &lt;e&gt;")];
    assert_eq!(texts, want);
    // Tags that are not closed, or in the wrong order, make no malformed XML.
    let hostile = cue(0, 1, "", "<b><i>x</b>y</i></u><c.red>z\u{1}");
    assert_eq!(
        parse(&write("\"<&", [&hostile], 0)).unwrap().cues[0].text,
        "<b><i>x</i></b>y<c.red>z\u{FFFD}</c>"
    );
}
