//! SubRip files. There is no standard. What ffmpeg and VLC read is read here.

use crate::{
    Cue, Document, TextError,
    limits::{check_file, push, sort},
    webvtt::{normalised, times},
};

/// Parses a file.
///
/// A cue ends where the next one begins, so that empty lines in its text do not cut it. `<b>`,
/// `<i>` and `<u>` stay, `<font>` is removed, and other `<` and `&` are text. `{\an8}` and its
/// like become settings.
///
/// # Errors
/// [`TextError::Malformed`] for a file without a line of times, [`TextError::OverLimit`] beyond
/// [`crate::limits`].
pub fn parse(text: &str) -> Result<Document, TextError> {
    check_file(text.len())?;
    let text = normalised(text);
    let mut document = Document::default();
    let mut open: Option<((u64, u64), Vec<&str>)> = None;
    for line in text.lines() {
        let Some((start, end, _)) = times(line) else {
            if let Some((_, lines)) = &mut open {
                lines.push(line);
            }
            continue;
        };
        if let Some((times, mut lines)) = open.replace(((start, end), Vec::new())) {
            // The number of the next cue.
            if lines.last().is_some_and(|line| line.trim().bytes().all(|byte| byte.is_ascii_digit())) {
                lines.pop();
            }
            push(&mut document.cues, cue(times, &lines))?;
        }
    }
    let Some((times, lines)) = open else {
        return Err(TextError::Malformed("the file has no line with two times".to_owned()));
    };
    push(&mut document.cues, cue(times, &lines))?;
    sort(&mut document.cues)?;
    Ok(document)
}

fn cue((start, end): (u64, u64), lines: &[&str]) -> Cue {
    let mut settings = "";
    let lines = lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| marked_up(line, &mut settings)).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    Cue { start, end, id: String::new(), settings: settings.to_owned(), text: lines.join("\n") }
}

/// Turns the markup of a line into that of WebVTT.
fn marked_up(line: &str, settings: &mut &'static str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['<', '&', '{', '>']) {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).unwrap_or_default();
        let tag = |open: char, close: char| {
            let inside = rest.strip_prefix(open)?;
            let end = inside.find([open, close]).filter(|&end| inside[end..].starts_with(close))?;
            Some((&inside[..end], &inside[end + 1..]))
        };
        if let Some((inside, after)) = tag('<', '>')
            && let Some(kept) = kept_tag(inside)
        {
            out.push_str(&kept);
            rest = after;
        } else if let Some((inside, after)) = tag('{', '}').filter(|(inside, _)| inside.starts_with('\\')) {
            *settings = alignment(inside).unwrap_or(settings);
            rest = after;
        } else {
            let (first, after) = rest.split_at(1);
            out.push_str(match first {
                "<" => "&lt;",
                ">" => "&gt;",
                "&" => "&amp;",
                other => other,
            });
            rest = after;
        }
    }
    out + rest
}

/// Returns the WebVTT tag for a tag of SubRip: empty if it is removed, `None` if it is text.
fn kept_tag(inside: &str) -> Option<String> {
    let name = inside.trim().to_ascii_lowercase();
    match name.as_str() {
        "b" | "i" | "u" | "/b" | "/i" | "/u" => Some(format!("<{name}>")),
        "/font" | "font" | "s" | "/s" => Some(String::new()),
        _ => name.starts_with("font ").then(String::new),
    }
}

/// Returns the settings for `\an1` to `\an9`: rows from the bottom, columns from the left.
fn alignment(inside: &str) -> Option<&'static str> {
    Some(match inside.strip_prefix("\\an")? {
        "1" => "position:0% align:start",
        "2" => "",
        "3" => "position:100% align:end",
        "4" => "line:50% position:0% align:start",
        "5" => "line:50%",
        "6" => "line:50% position:100% align:end",
        "7" => "line:0 position:0% align:start",
        "8" => "line:0",
        "9" => "line:0 position:100% align:end",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::TextError;

    #[test]
    fn cues_of_subrip_become_those_of_webvtt() {
        let file = "1\r\n00:00:00,500 --> 00:00:02,000 X1:1 Y1:2\r\n{\\an8}<I>Tom</I> & <font color=\"red\">Ann</font>\r\n\
            a < b {c}\r\n\r\nafter a gap\r\n\r\n2\r\n0:00:03,000 --> 0:00:04,000\r\n42\r\n\r\n";
        let cues = parse(file).unwrap().cues;
        let text: Vec<_> =
            cues.iter().map(|c| (c.start, c.end, c.settings.as_str(), c.text.as_str())).collect();
        let want = [
            (500, 2000, "line:0", "<i>Tom</i> &amp; Ann\na &lt; b {c}\nafter a gap"),
            (3000, 4000, "", "42"),
        ];
        assert_eq!(text, want);
    }

    #[test]
    fn files_without_times_are_refused() {
        for file in ["", "1\nhello\n", "WEBVTT\n", "00:00:01,000 -> 00:00:02,000\nx"] {
            assert!(matches!(parse(file), Err(TextError::Malformed(_))), "{file}");
        }
    }
}
