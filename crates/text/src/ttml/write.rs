//! Writing IMSC1 text documents (W3C IMSC1.1 §6).

use super::layout::COLOURS;
use crate::{
    Cue,
    markup::{Piece, pieces},
    timestamp::Timestamp,
};
use std::fmt::Write as _;

/// The region of cues without a line, and that of cues at the top.
const REGIONS: [(&str, &str); 2] = [("bottom", "after"), ("top", "before")];
const ALIGNMENTS: [&str; 5] = ["start", "center", "end", "left", "right"];

/// Returns a document with cues, whose times count from `origin` in milliseconds. Cues that are
/// shown before it begin at 0.
///
/// Bold, italic, underlined and coloured text keeps its style, and cues keep their alignment. Cues
/// with a line in the upper half are shown at the top.
pub fn write<'a>(language: &str, cues: impl IntoIterator<Item = &'a Cue>, origin: u64) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<tt xmlns=\"http://www.w3.org/ns/ttml\" \
         xmlns:ttp=\"http://www.w3.org/ns/ttml#parameter\" xmlns:tts=\"http://www.w3.org/ns/ttml#styling\" \
         ttp:profile=\"http://www.w3.org/ns/ttml/profile/imsc1/text\" xml:lang=\"",
    );
    escape(language, &mut out);
    out.push_str("\" xml:space=\"preserve\"><head><layout>");
    // Writing to a string cannot fail.
    for (id, align) in REGIONS {
        let _ = write!(
            out,
            "<region xml:id=\"{id}\" tts:origin=\"10% 10%\" tts:extent=\"80% 80%\" \
             tts:displayAlign=\"{align}\" tts:textAlign=\"center\"/>"
        );
    }
    out.push_str("</layout></head><body><div>");
    for cue in cues {
        let start = cue.start.saturating_sub(origin);
        let end = cue.end.saturating_sub(origin);
        let (region, align) = place(&cue.settings);
        let _ =
            write!(out, "<p begin=\"{}\" end=\"{}\" region=\"{region}\"", Timestamp(start), Timestamp(end));
        if let Some(align) = align {
            let _ = write!(out, " tts:textAlign=\"{align}\"");
        }
        out.push('>');
        put_text(&cue.text, &mut out);
        out.push_str("</p>");
    }
    out.push_str("</div></body></tt>\n");
    out
}

/// Returns the region and the alignment of a cue with settings.
fn place(settings: &str) -> (&'static str, Option<&'static str>) {
    let mut region = "bottom";
    let mut align = None;
    for (name, value) in settings.split_whitespace().filter_map(|setting| setting.split_once(':')) {
        match name {
            "line" => {
                let value = value.split(',').next().unwrap_or_default();
                let percent = value.strip_suffix('%').and_then(|value| value.parse::<f32>().ok());
                let row = value.parse::<i64>().ok();
                let is_upper = percent.is_some_and(|percent| percent < 50.0)
                    || row.is_some_and(|row| (0..=7).contains(&row));
                region = if is_upper { "top" } else { "bottom" };
            }
            "align" => align = ALIGNMENTS.into_iter().find(|&known| known == value && known != "center"),
            _ => {}
        }
    }
    (region, align)
}

fn put_text(text: &str, out: &mut String) {
    // Tags that are open, by name. Only those that TTML has are written.
    let mut open: Vec<(String, bool)> = Vec::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => {
                for (at, line) in text.split('\n').enumerate() {
                    if at > 0 {
                        out.push_str("<br/>");
                    }
                    escape(line, out);
                }
            }
            Piece::Start(name, classes) => {
                let style = style(&name, &classes);
                if let Some((attribute, value)) = style {
                    let _ = write!(out, "<span tts:{attribute}=\"{value}\">");
                }
                open.push((name, style.is_some()));
            }
            Piece::End(name) => {
                if open.iter().any(|(other, _)| *other == name) {
                    while let Some((other, is_written)) = open.pop() {
                        if is_written {
                            out.push_str("</span>");
                        }
                        if other == name {
                            break;
                        }
                    }
                }
            }
        }
    }
    for (_, is_written) in open {
        if is_written {
            out.push_str("</span>");
        }
    }
}

fn style(name: &str, classes: &[String]) -> Option<(&'static str, &'static str)> {
    match name {
        "b" => Some(("fontWeight", "bold")),
        "i" => Some(("fontStyle", "italic")),
        "u" => Some(("textDecoration", "underline")),
        "c" => {
            let named = COLOURS.iter().find(|(name, _)| classes.iter().any(|class| class == name));
            named.map(|&(_, code)| ("color", code))
        }
        _ => None,
    }
}

/// Appends text in which no character has a meaning in XML, without those that XML excludes.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' => out.push(character),
            '\u{0}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
}
