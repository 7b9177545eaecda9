//! WebVTT files (W3C WebVTT: The Web Video Text Tracks Format) and segments of HLS (RFC 8216 §3.5).

use crate::{
    Cue, Document, TextError,
    limits::{check_file, push, sort},
    timestamp::{self, Timestamp},
};
use std::fmt::Write as _;

/// Parses a file as browsers do: cues with malformed times are left out.
///
/// # Errors
/// [`TextError::Malformed`] without the signature `WEBVTT`, [`TextError::OverLimit`] beyond
/// [`crate::limits`].
pub fn parse(text: &str) -> Result<Document, TextError> {
    check_file(text.len())?;
    let text = normalised(text);
    let mut lines = text.lines().peekable();
    let signature = lines.next().unwrap_or_default().trim_start_matches('\u{FEFF}');
    let rest = signature.strip_prefix("WEBVTT");
    if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) {
        return Err(TextError::Malformed("the file does not begin with WEBVTT".to_owned()));
    }
    let mut document = Document::default();
    // Headers end with an empty line, or where a cue begins.
    while lines.peek().is_some_and(|line| !line.is_empty() && !line.contains(ARROW)) {
        lines.next();
    }
    while lines.peek().is_some() {
        if lines.next_if(|line| line.is_empty()).is_some() {
            continue;
        }
        let mut id = "";
        let mut block = Vec::new();
        let mut timing = None;
        while let Some(line) = lines.next_if(|line| !line.is_empty()) {
            if line.contains(ARROW) {
                timing = Some(line);
                id = block.pop().unwrap_or_default();
                break;
            }
            block.push(line);
            // An arrow can follow the first line of a block only.
            if block.len() > 1 {
                while let Some(line) = lines.next_if(|line| !line.is_empty() && !line.contains(ARROW)) {
                    block.push(line);
                }
                break;
            }
        }
        let Some(timing) = timing else {
            keep_header(&mut document, &block);
            continue;
        };
        let mut text = String::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty() && !line.contains(ARROW)) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        }
        if let Some((start, end, settings)) = times(timing) {
            let id = id.to_owned();
            let settings = settings.to_owned();
            push(&mut document.cues, Cue { start, end, id, settings, text })?;
        }
    }
    sort(&mut document.cues)?;
    Ok(document)
}

const ARROW: &str = "-->";

/// Replaces line ends by `\n`, and characters that no text may hold.
pub(crate) fn normalised(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{FFFD}")
}

/// Keeps a block of styles or a region before the first cue. Comments are dropped.
fn keep_header(document: &mut Document, block: &[&str]) {
    let is_kept = block.first().is_some_and(|first| {
        let word = first.trim_end_matches([' ', '\t']);
        word == "STYLE" || word == "REGION"
    });
    if is_kept && document.cues.is_empty() {
        if !document.header.is_empty() {
            document.header.push_str("\n\n");
        }
        document.header.push_str(&block.join("\n"));
    }
}

/// Parses `START --> END [SETTINGS]`.
pub(crate) fn times(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(ARROW)?;
    let rest = rest.trim_start_matches([' ', '\t']);
    let (end, settings) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    let start = timestamp::parse(start.trim_matches([' ', '\t']))?;
    Some((start, timestamp::parse(end)?, settings.trim_matches([' ', '\t'])))
}

/// Returns the blocks of a header that follow the line `WEBVTT`, as `vttC` of MP4 holds it (ISO/IEC
/// 14496-30 §7.5). Empty for a header without styles and regions.
pub fn header_blocks(header: &str) -> String {
    parse(header.trim_end_matches('\0')).map(|document| document.header).unwrap_or_default()
}

/// Returns a file with cues in the given order. `mpegts` is the time in units of 1/90,000 s of the
/// segments of media at which the cues' time is 0, for segments of HLS.
pub fn write<'a>(header: &str, cues: impl IntoIterator<Item = &'a Cue>, mpegts: Option<u64>) -> String {
    let mut out = String::from("WEBVTT\n");
    // Writing to a string cannot fail.
    if let Some(mpegts) = mpegts {
        let _ = writeln!(out, "X-TIMESTAMP-MAP=MPEGTS:{mpegts},LOCAL:00:00:00.000");
    }
    if !header.is_empty() {
        let _ = write!(out, "\n{header}\n");
    }
    for cue in cues {
        out.push('\n');
        let id = one_line(&cue.id);
        if !id.is_empty() {
            let _ = writeln!(out, "{id}");
        }
        let _ = write!(out, "{} {ARROW} {}", Timestamp(cue.start), Timestamp(cue.end));
        let settings = one_line(&cue.settings);
        if !settings.is_empty() {
            let _ = write!(out, " {settings}");
        }
        out.push('\n');
        put_text(&cue.text, &mut out);
    }
    out
}

/// Returns text without line ends and arrows, which would end it.
fn one_line(text: &str) -> String {
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r' | '\0')).collect();
    text.trim_matches([' ', '\t']).replace(ARROW, "")
}

/// Appends the lines of a cue's text. An empty line would end the cue, and an arrow begin another.
fn put_text(text: &str, out: &mut String) {
    for line in normalised(text).lines().filter(|line| !line.is_empty()) {
        out.push_str(&line.replace(ARROW, "--&gt;"));
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{header_blocks, parse, write};
    use crate::{Cue, TextError, limits};

    fn cue(start: u64, end: u64, id: &str, settings: &str, text: &str) -> Cue {
        Cue { start, end, id: id.into(), settings: settings.into(), text: text.into() }
    }

    const FILE: &str = "\u{FEFF}WEBVTT - title\r\nKind: captions\r\n\r\nNOTE a comment\r\n\r\nSTYLE\r\n\
        ::cue { color: red }\r\n\r\nREGION\r\nid:r\r\n\r\nfirst\r\n00:01.000 --> 00:02.500 line:0 align:start\r\n\
        <b>One</b>\r\nand two\r\n\r\n01:00:00.000-->01:00:01.000\r\nlate\r\n\r\n00:00:00.250 --> 00:00:04.000\r\n\
        unsorted\r\n";

    #[test]
    fn files_are_read_with_styles_regions_identifiers_and_settings() {
        let document = parse(FILE).unwrap();
        assert_eq!(document.header, "STYLE\n::cue { color: red }\n\nREGION\nid:r");
        let want = [
            cue(250, 4000, "", "", "unsorted"),
            cue(1000, 2500, "first", "line:0 align:start", "<b>One</b>\nand two"),
            cue(3_600_000, 3_601_000, "", "", "late"),
        ];
        assert_eq!(document.cues, want);
        let text = write(&document.header, &document.cues[..2], Some(900_000));
        assert_eq!(
            text,
            "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:900000,LOCAL:00:00:00.000\n\nSTYLE\n::cue { color: red }\n\n\
             REGION\nid:r\n\n00:00:00.250 --> 00:00:04.000\nunsorted\n\nfirst\n\
             00:00:01.000 --> 00:00:02.500 line:0 align:start\n<b>One</b>\nand two\n"
        );
        assert_eq!(parse(&text).unwrap().cues, &want[..2]);
        assert_eq!(header_blocks("WEBVTT\n\nSTYLE\na"), "STYLE\na");
    }

    #[test]
    fn malformed_files_are_refused_and_malformed_cues_left_out() {
        assert!(matches!(parse("WEBVTTX\n"), Err(TextError::Malformed(_))));
        assert!(matches!(parse(""), Err(TextError::Malformed(_))));
        let bad = "WEBVTT\r\r00:02.000 --> 00:01.000\rback\r\r00:61.000 --> 01:00.000\rsixty\r\rnever\r\r\
            a\rb\r00:05.000 --> 00:06.000\rgood\0\r00:07.000 --> 00:08.000\rtouching";
        let cues = parse(bad).unwrap().cues;
        assert_eq!(cues, [cue(5000, 6000, "", "", "good\u{FFFD}"), cue(7000, 8000, "", "", "touching")]);
        let large = format!("WEBVTT\n\n00:00.000 --> 00:01.000\n{}", "x".repeat(limits::CUE_BYTES + 1));
        assert!(matches!(parse(&large), Err(TextError::OverLimit(..))));
        let crowd = "00:00.000 --> 00:01.000\nx\n\n".repeat(limits::ACTIVE_CUES + 1);
        assert!(matches!(parse(&format!("WEBVTT\n\n{crowd}")), Err(TextError::OverLimit(..))));
        // Shorter cues than these do not exist, so a file of WebVTT never has too many.
        let many = "WEBVTT\n".to_owned() + &"\n00:00.000-->00:00.001\nx\n".repeat(limits::CUES);
        assert_eq!(parse(&many), Err(TextError::OverLimit("bytes of text", limits::FILE_BYTES)));
    }

    #[test]
    fn written_cues_cannot_break_out_of_their_lines() {
        let hostile = cue(0, 1, "a\n00:00 --> 1", "x\ny", "one\n\n\r\n00:00.000 --> 00:01.000\ntwo\0");
        let cues = parse(&write("", [&hostile], None)).unwrap().cues;
        let text = "one\n00:00.000 --&gt; 00:01.000\ntwo\u{FFFD}";
        assert_eq!(cues, [cue(0, 1, "a00:00  1", "xy", text)]);
    }
}
