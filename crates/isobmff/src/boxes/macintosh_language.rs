//! The language codes of the Macintosh, which files of QuickTime state in `mdhd` in place of a
//! packed code (QuickTime File Format, "Language code values").

/// Codes of the most spoken languages, ascending, with the ISO 639-2/T codes. The two forms of
/// Chinese have tags that state the script.
const CODES: [(u16, &str); 60] = [
    (1, "fra"),
    (2, "deu"),
    (3, "ita"),
    (4, "nld"),
    (5, "swe"),
    (6, "spa"),
    (7, "dan"),
    (8, "por"),
    (9, "nor"),
    (10, "heb"),
    (11, "jpn"),
    (12, "ara"),
    (13, "fin"),
    (14, "ell"),
    (15, "isl"),
    (16, "mlt"),
    (17, "tur"),
    (18, "hrv"),
    (19, "zh-Hant"),
    (20, "urd"),
    (21, "hin"),
    (22, "tha"),
    (23, "kor"),
    (24, "lit"),
    (25, "pol"),
    (26, "hun"),
    (27, "est"),
    (28, "lav"),
    (30, "fao"),
    (31, "fas"),
    (32, "rus"),
    (33, "zh-Hans"),
    (34, "nld"),
    (35, "gle"),
    (36, "sqi"),
    (37, "ron"),
    (38, "ces"),
    (39, "slk"),
    (40, "slv"),
    (41, "yid"),
    (42, "srp"),
    (43, "mkd"),
    (44, "bul"),
    (45, "ukr"),
    (46, "bel"),
    (47, "uzb"),
    (48, "kaz"),
    (51, "hye"),
    (52, "kat"),
    (66, "mar"),
    (67, "ben"),
    (69, "guj"),
    (74, "tam"),
    (75, "tel"),
    (80, "vie"),
    (81, "ind"),
    (82, "tgl"),
    (128, "cym"),
    (129, "eus"),
    (130, "cat"),
];

/// Returns the tag of a Macintosh code. `None` for codes of rare languages, and for 0: it is
/// English, but programs also write it if the language is unknown.
pub(super) fn tag(code: u16) -> Option<&'static str> {
    let found = CODES.binary_search_by_key(&code, |(code, _)| *code).ok()?;
    CODES.get(found).map(|(_, tag)| *tag)
}

#[cfg(test)]
mod tests {
    use super::{CODES, tag};
    use crate::boxes::mdhd::Language;

    #[test]
    fn codes_ascend_and_tags_are_valid() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(CODES.iter().all(|(_, tag)| Language::new(tag).is_some()));
        assert_eq!(
            (tag(2), tag(130), tag(0), tag(29), tag(0x3ff)),
            (Some("deu"), Some("cat"), None, None, None)
        );
    }
}
