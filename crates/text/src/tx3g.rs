//! 3GPP timed text (3GPP TS 26.245), which ffmpeg writes as `mov_text`.

use crate::markup;

/// Bits of `face-style-flags`, with the WebVTT tag of each.
const FACES: [(u8, char); 3] = [(1, 'b'), (2, 'i'), (4, 'u')];

/// Returns the WebVTT text of a sample. `None` if it shows nothing, or is shorter than it states.
/// Bold, italic and underlined characters keep their style.
pub fn text(sample: &[u8]) -> Option<String> {
    let (&length, rest) = sample.split_first_chunk::<2>()?;
    let (text, modifiers) = rest.split_at_checked(usize::from(u16::from_be_bytes(length)))?;
    let text = if text.starts_with(&[0xFE, 0xFF]) || text.starts_with(&[0xFF, 0xFE]) {
        crate::decode(text).ok()?.into_owned()
    } else {
        String::from_utf8_lossy(text).into_owned()
    };
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    // Trailing line ends would be empty lines.
    let text = text.trim_end_matches(['\n', '\0']);
    let styles = styles(modifiers);
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<(u8, char)> = Vec::new();
    // Offsets of styles count characters.
    for (at, character) in (0_usize..).zip(text.chars()) {
        let face =
            styles.iter().find(|style| style.from <= at && at < style.until).map_or(0, |style| style.face);
        markup::change_tags(&mut open, &FACES.map(|tag| (tag, face & tag.0 != 0)), &mut out);
        markup::push_escaped(character, &mut out);
    }
    markup::change_tags(&mut open, &[], &mut out);
    (!text.is_empty()).then_some(out)
}

struct Style {
    from: usize,
    until: usize,
    face: u8,
}

/// Returns the records of the box `styl`, of which at most 256 count.
fn styles(mut modifiers: &[u8]) -> Vec<Style> {
    const RECORDS: usize = 256;
    while let Some((head, _)) = modifiers.split_first_chunk::<8>() {
        let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let Some((one, rest)) = usize::try_from(size).ok().and_then(|size| modifiers.split_at_checked(size))
        else {
            break;
        };
        if &head[4..] == b"styl" && one.len() >= 10 {
            let records = one[10..].as_chunks::<12>().0;
            let count = usize::from(u16::from_be_bytes([one[8], one[9]])).min(RECORDS);
            let place = |high, low| usize::from(u16::from_be_bytes([high, low]));
            let style =
                |r: &[u8; 12]| Style { from: place(r[0], r[1]), until: place(r[2], r[3]), face: r[6] };
            return records.iter().take(count).map(style).collect();
        }
        if one.is_empty() {
            break;
        }
        modifiers = rest;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn styles_become_tags_and_signs_are_escaped() {
        let mut sample = vec![0, 9];
        sample.extend_from_slice("a & bé\nz".as_bytes());
        assert_eq!(text(&sample).as_deref(), Some("a &amp; bé\nz"));
        // Box `styl` with one record: characters 4 to 6 are bold and italic.
        sample.extend_from_slice(&[0, 0, 0, 22]);
        sample.extend_from_slice(b"styl\0\x01\0\x04\0\x06\0\x01\x03\x10\xFF\xFF\xFF\xFF");
        assert_eq!(text(&sample).as_deref(), Some("a &amp; <b><i>bé</i></b>\nz"));
        assert_eq!(text(b"\0\x06\xFE\xFF\0h\0i").as_deref(), Some("hi"));
    }

    #[test]
    fn gaps_and_damaged_samples_show_nothing() {
        for sample in [&b"\0\0"[..], b"", b"\0", b"\0\x05abc", b"\0\x01\n"] {
            assert_eq!(text(sample), None, "{sample:?}");
        }
        assert_eq!(text(b"\0\x01a\0\0\0\0styl").as_deref(), Some("a"), "a box of size 0");
        assert_eq!(
            text(b"\0\x01a\0\0\0\x0cstyl\xFF\xFF\0\0").as_deref(),
            Some("a"),
            "records beyond the box"
        );
    }
}
