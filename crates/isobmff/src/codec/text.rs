//! Timed text sample entries (ISO/IEC 14496-30; ISO/IEC 14496-12 §12.5, §12.6).

use super::children::Children;
use super::description::{Codec, Config, Media};
use super::sample_entry::{ENTRY_FIELDS, EntryBody};
use super::{colour, sinf};
use crate::{Error, FourCc};

/// Text and captions that no output protocol carries: QuickTime text, simple text, CEA-608 and 708,
/// MPEG-4 subpictures.
const OTHER: [&[u8; 4]; 7] = [b"text", b"sbtt", b"stxt", b"c608", b"c708", b"mp4s", b"sstx"];

/// Fields of a TextSampleEntry before its boxes (3GPP TS 26.245 §5.16).
const TX3G_FIELDS: usize = ENTRY_FIELDS + 30;

/// Returns true if the entry is text, or was before encryption.
pub(super) fn is_text(format: FourCc) -> bool {
    matches!(&format.0, b"wvtt" | b"stpp" | b"tx3g" | b"enct" | b"encs") || OTHER.contains(&&format.0)
}

pub(super) fn describe(entry: &EntryBody) -> Result<Codec, Error> {
    let protection = if sinf::is_protected(entry.format) { Some(protection(entry)?) } else { None };
    let format = protection.map_or(entry.format, |protection| protection.original);
    let (rfc6381, config, boxes) = match &format.0 {
        b"wvtt" => ("wvtt".to_owned(), Config::Wvtt, Some(entry.children(ENTRY_FIELDS))),
        b"stpp" => {
            let stpp = xml_subtitle(entry).ok_or(entry.at.truncated())?;
            let boxes = entry.children(stpp.end);
            (stpp_rfc6381(&stpp, &boxes), Config::Stpp, Some(boxes))
        }
        b"tx3g" => {
            if entry.body.len() < TX3G_FIELDS {
                return Err(entry.at.truncated());
            }
            ("wvtt".to_owned(), Config::Tx3g, Some(entry.children(TX3G_FIELDS)))
        }
        _ if OTHER.contains(&&format.0) => (format.to_string(), Config::Other, None),
        _ => return Err(entry.at.unsupported("text coding name")),
    };
    Ok(Codec {
        format,
        rfc6381,
        protection: protection.map(|protection| protection.scheme),
        config,
        media: Media::Text,
        declared_bitrate: boxes.map(|boxes| colour::bitrate(&boxes)).unwrap_or_default(),
    })
}

/// Reads `sinf` of an encrypted entry. The start of its boxes depends on the original coding name,
/// which only `sinf` states, so both layouts are tried.
pub(super) fn protection(entry: &EntryBody) -> Result<sinf::Protection, Error> {
    let plain = sinf::protection(&entry.children(ENTRY_FIELDS));
    match (plain, xml_subtitle(entry)) {
        (Err(_), Some(stpp)) => sinf::protection(&entry.children(stpp.end)),
        (plain, _) => plain,
    }
}

/// Fields of an XMLSubtitleSampleEntry.
struct XmlSubtitle<'a> {
    namespaces: &'a [u8],
    schema_locations: &'a [u8],
    /// Offset of the first box in the body.
    end: usize,
    has_mime_types: bool,
}

fn xml_subtitle(entry: &EntryBody) -> Option<XmlSubtitle<'_>> {
    let mut end = ENTRY_FIELDS;
    let mut string = || {
        let rest = entry.body.get(end..)?;
        let length = rest.iter().position(|&byte| byte == 0)?;
        end += length + 1;
        rest.get(..length)
    };
    let namespaces = string()?;
    let schema_locations = string()?;
    // auxiliary_mime_types. Older editions made it optional, so a writer may have left it out.
    let has_mime_types = string().is_some();
    Some(XmlSubtitle { namespaces, schema_locations, end, has_mime_types })
}

/// Appends the fields of a served entry between its data reference index and its boxes, and returns
/// the boxes.
pub(super) fn put_fields(entry: &EntryBody, out: &mut Vec<u8>) -> Result<Children, Error> {
    if entry.format == b"tx3g" {
        out.extend_from_slice(entry.field(ENTRY_FIELDS, TX3G_FIELDS - ENTRY_FIELDS));
        return Ok(entry.children(TX3G_FIELDS));
    }
    if entry.format != b"stpp" {
        return Ok(entry.children(ENTRY_FIELDS));
    }
    let stpp = xml_subtitle(entry).ok_or(entry.at.truncated())?;
    out.extend_from_slice(entry.field(ENTRY_FIELDS, stpp.end - ENTRY_FIELDS));
    if !stpp.has_mime_types {
        out.push(0);
    }
    Ok(entry.children(stpp.end))
}

/// Processor profiles by their designators (TTML Media Type Definition and Profile Registry §5.1).
const PROFILES: [(&[u8], &str); 8] = [
    (b"http://www.w3.org/ns/ttml/profile/imsc1/text", "im1t"),
    (b"http://www.w3.org/ns/ttml/profile/imsc1/image", "im1i"),
    (b"http://www.w3.org/ns/ttml/profile/imsc1.1/text", "im2t"),
    (b"http://www.w3.org/ns/ttml/profile/imsc1.1/image", "im2i"),
    (b"http://www.w3.org/ns/ttml/profile/imsc1.2/text", "im3t"),
    (b"http://www.w3.org/ns/ttml/profile/imsc1.2/image", "im3i"),
    (b"urn:ebu:tt:distribution:2014-01", "etd1"),
    (b"urn:ebu:tt:distribution:2018-04", "etd1"),
];

/// Returns `stpp.ttml.im1t` if the entry names a processor profile, else `stpp`.
fn stpp_rfc6381(stpp: &XmlSubtitle<'_>, boxes: &Children) -> String {
    if let Some(codecs) = mime_codecs(boxes) {
        return format!("stpp.ttml.{codecs}");
    }
    let schema_locations = stpp.schema_locations.split(|&b| b == b' ');
    let mut designators = schema_locations.chain(stpp.namespaces.split(|&b| b == b' '));
    let profile = designators.find_map(|named| PROFILES.iter().find(|(designator, _)| *designator == named));
    profile.map_or_else(|| "stpp".to_owned(), |(_, profile)| format!("stpp.ttml.{profile}"))
}

/// Returns the `codecs` parameter of the `mime` box's media type (ISO/IEC 14496-30 §6.4, CMAF
/// §11.3.3), e.g. `application/ttml+xml;codecs=im1t`: short profile names, combined with `|` and
/// `+`.
fn mime_codecs(boxes: &Children) -> Option<String> {
    /// Maximum length of the parameter in bytes.
    const MAX: usize = 40;
    let mime = boxes.first(b"mime")?;
    let (_, mut bits) = mime.full_box().ok()?;
    let media_type = std::str::from_utf8(bits.rest()).ok()?.trim_end_matches('\0');
    let mut parameters = media_type.split(';').map(str::trim);
    if !parameters.next()?.eq_ignore_ascii_case("application/ttml+xml") {
        return None;
    }
    let codecs = parameters.find_map(|parameter| parameter.strip_prefix("codecs="))?.trim_matches('"');
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '|' | '+');
    (!codecs.is_empty() && codecs.len() <= MAX && codecs.chars().all(is_allowed)).then(|| codecs.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{boxed, entry, hex};
    use crate::codec::{Codec, Config, DeclaredBitrate, Media, describe};
    use crate::{Error, FourCc};

    fn read(format: &[u8; 4], fields: &[u8], boxes: &[Vec<u8>]) -> Result<Codec, Error> {
        let body = [&[0; 6][..], &[0, 1], fields, &boxes.concat()].concat();
        describe(&entry(format, &body), FourCc(*b"subt"))
    }

    #[test]
    fn stpp_names_the_profile_that_the_entry_states() {
        let btrt = boxed(b"btrt", &hex("00000151 00001520 00000000"));
        let codec = read(b"stpp", b"http://www.w3.org/ns/ttml\0\0\0", &[btrt]).unwrap();
        assert_eq!(
            (codec.rfc6381.as_str(), &codec.config, &codec.media),
            ("stpp", &Config::Stpp, &Media::Text)
        );
        assert_eq!(codec.declared_bitrate, DeclaredBitrate { max: Some(5408), average: None });
        let name = |fields: &[u8], boxes: &[Vec<u8>]| read(b"stpp", fields, boxes).unwrap().rfc6381;
        let imsc = b"http://www.w3.org/ns/ttml\0http://www.w3.org/ns/ttml/profile/imsc1/text\0\0";
        assert_eq!(name(imsc, &[]), "stpp.ttml.im1t");
        assert_eq!(name(b"a http://www.w3.org/ns/ttml/profile/imsc1/image\0\0\0", &[]), "stpp.ttml.im1i");
        assert_eq!(
            name(b"http://www.w3.org/ns/ttml\0urn:ebu:tt:distribution:2014-01\0", &[]),
            "stpp.ttml.etd1"
        );
        let mime = |text: &[u8]| vec![boxed(b"mime", &[&[0; 4], text].concat())];
        let ttml = b"http://www.w3.org/ns/ttml\0\0\0";
        assert_eq!(name(ttml, &mime(b"application/ttml+xml;codecs=\"im2t|etd1\"\0")), "stpp.ttml.im2t|etd1");
        assert_eq!(name(ttml, &mime(b"application/ttml+xml; codecs=im1t")), "stpp.ttml.im1t");
        assert_eq!(name(ttml, &mime(b"application/ttml+xml;codecs=im1t,\"\r\n")), "stpp");
        assert_eq!(name(ttml, &mime(b"text/plain;codecs=im1t")), "stpp");
        assert!(matches!(read(b"stpp", b"http://www", &[]), Err(Error::Truncated { .. })));
    }

    #[test]
    fn other_text_formats_are_described() {
        let codec = read(b"wvtt", b"", &[boxed(b"vttC", b"WEBVTT")]).unwrap();
        assert_eq!((codec.rfc6381.as_str(), codec.config), ("wvtt", Config::Wvtt));
        let codec = read(b"tx3g", &[0; 30], &[boxed(b"ftab", &[0; 2])]).unwrap();
        assert_eq!((codec.rfc6381.as_str(), codec.config), ("wvtt", Config::Tx3g));
        assert!(matches!(read(b"tx3g", &[0; 29], &[]), Err(Error::Truncated { .. })));
        let codec = read(b"c608", b"", &[]).unwrap();
        assert_eq!((codec.rfc6381.as_str(), codec.config), ("c608", Config::Other));
        assert!(matches!(read(b"mett", b"", &[]), Err(Error::Unsupported { .. })));
    }

    #[test]
    fn encrypted_text_is_described_as_its_original() {
        let sinf = |original: &[u8; 4]| {
            let frma = boxed(b"frma", original);
            boxed(b"sinf", &[frma, boxed(b"schm", &hex("00000000 63656e63 00010000"))].concat())
        };
        let codec = read(b"encs", b"http://www.w3.org/ns/ttml\0\0\0", &[sinf(b"stpp")]).unwrap();
        assert_eq!((codec.rfc6381.as_str(), codec.protection), ("stpp", Some(FourCc(*b"cenc"))));
        let codec = read(b"enct", b"", &[sinf(b"wvtt")]).unwrap();
        assert_eq!((codec.format, codec.protection), (FourCc(*b"wvtt"), Some(FourCc(*b"cenc"))));
        assert!(read(b"enct", b"", &[sinf(b"avc1")]).is_err());
    }
}
