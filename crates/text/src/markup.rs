//! The markup of WebVTT cue text (WebVTT §4.2.2).

/// Appends a character of plain text.
pub(crate) fn push_escaped(character: char, out: &mut String) {
    match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\0' => out.push('\u{FFFD}'),
        other => out.push(other),
    }
}

/// Closes and opens tags so that those that are wanted are open. Tags are nested.
pub(crate) fn change_tags<T: Copy + PartialEq>(
    open: &mut Vec<(T, char)>,
    wanted: &[((T, char), bool)],
    out: &mut String,
) {
    let is_wanted = |tag: &(T, char)| wanted.iter().any(|(other, on)| *on && other == tag);
    while !open.iter().all(is_wanted) {
        if let Some((_, name)) = open.pop() {
            out.extend(['<', '/', name, '>']);
        }
    }
    for (tag, on) in wanted {
        if *on && !open.contains(tag) {
            out.extend(['<', tag.1, '>']);
            open.push(*tag);
        }
    }
}

/// A piece of cue text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Plain text, with references such as `&amp;` resolved.
    Text(String),
    /// A start tag: its name, and its classes.
    Start(String, Vec<String>),
    /// An end tag with its name.
    End(String),
}

/// Splits cue text into its pieces. Timestamps are left out.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '<' => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                let (tag, after) = rest[1..].split_once('>').unwrap_or((&rest[1..], ""));
                rest = after;
                let name = tag.split([' ', '\t', '\n']).next().unwrap_or_default();
                if let Some(name) = name.strip_prefix('/') {
                    pieces.push(Piece::End(name.to_owned()));
                } else if !name.starts_with(|c: char| c.is_ascii_digit()) {
                    let mut classes = name.split('.').map(str::to_owned);
                    let name = classes.next().unwrap_or_default();
                    pieces.push(Piece::Start(name, classes.collect()));
                }
            }
            '&' => {
                let (character, after) = reference(rest);
                plain.push_str(&character);
                rest = after;
            }
            other => {
                plain.push(other);
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

/// Resolves the reference at the start of a text, and returns the rest.
fn reference(text: &str) -> (String, &str) {
    /// Longest reference that is looked for.
    const MAX: usize = 12;
    let end = text.bytes().take(MAX).position(|byte| byte == b';');
    let resolved = end.and_then(|end| {
        let name = text.get(1..end)?;
        let number = |digits: &str, base| u32::from_str_radix(digits, base).ok().and_then(char::from_u32);
        let character = match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "nbsp" => '\u{A0}',
            "lrm" => '\u{200E}',
            "rlm" => '\u{200F}',
            "quot" => '"',
            "apos" => '\'',
            _ => match name.strip_prefix('#')? {
                hex if hex.starts_with(['x', 'X']) => number(&hex[1..], 16)?,
                digits => number(digits, 10)?,
            },
        };
        Some((character.to_string(), &text[end + 1..]))
    });
    resolved.unwrap_or_else(|| ("&".to_owned(), &text[1..]))
}

/// Returns the plain text of cue text.
pub fn plain(text: &str) -> String {
    let texts = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::Start(..) | Piece::End(_) => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::{Piece, pieces, plain};

    #[test]
    fn cue_text_is_split_into_tags_and_text() {
        let got = pieces("<v Ann>Hi <c.yellow.bg_blue>&amp;</c><00:01.000> a&nbsp;&bogus; &#65;</v");
        let text = |text: &str| Piece::Text(text.to_owned());
        let want = [
            Piece::Start("v".into(), vec![]),
            text("Hi "),
            Piece::Start("c".into(), vec!["yellow".into(), "bg_blue".into()]),
            text("&"),
            Piece::End("c".into()),
            text(" a\u{A0}&bogus; A"),
            Piece::End("v".into()),
        ];
        assert_eq!(got, want);
        assert_eq!(plain("<b>a</b> &lt;b&gt;"), "a <b>");
    }
}
