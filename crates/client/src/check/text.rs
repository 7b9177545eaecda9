//! Checks of timed text documents: WebVTT (W3C) and TTML. Only their form is checked, not their
//! times.

use super::body::{BodyCheck, Span};
use crate::{
    failure::{Failure, Reason},
    manifest::MAX_BYTES,
};
use roxmltree::{Document, ParsingOptions};

/// The check of one document.
#[derive(Debug)]
pub(super) struct TextCheck {
    is_xml: bool,
    body: Vec<u8>,
}

impl TextCheck {
    /// Starts the check of a TTML document if `is_xml` is true, and of a WebVTT document otherwise.
    pub(super) const fn new(is_xml: bool) -> Self {
        Self { is_xml, body: Vec::new() }
    }
}

impl BodyCheck for TextCheck {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.body.len() + bytes.len() > MAX_BYTES {
            return Err(Failure::new(Reason::TooLarge, format!("text of more than {MAX_BYTES} bytes")));
        }
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure> {
        let bad = |why: String| Failure::new(Reason::BadText, why);
        let text = std::str::from_utf8(&self.body).map_err(|error| bad(error.to_string()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if self.is_xml {
            let document = Document::parse_with_options(text, ParsingOptions::default());
            let document = document.map_err(|error| bad(error.to_string()))?;
            let root = document.root_element().tag_name().name();
            return match root {
                "tt" => Ok(Vec::new()),
                _ => Err(bad(format!("XML whose root element is {root}, not tt"))),
            };
        }
        // The signature is followed by a space, a tab, a line end or the end of the file (WebVTT
        // §4.1).
        match text.strip_prefix("WEBVTT") {
            Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']) => Ok(Vec::new()),
            _ => Err(bad("text that does not begin with WEBVTT".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_of_the_format_are_accepted() {
        let reason = |xml: bool, body: &[u8]| {
            let mut text = Box::new(TextCheck::new(xml));
            body.chunks(3).for_each(|piece| text.push(piece).unwrap());
            text.finish().err().map(|failure| failure.reason)
        };
        for good in ["WEBVTT", "\u{feff}WEBVTT\r\n\r\n", "WEBVTT - of a title\n\n00:00.000 --> 00:01.000\nHi"]
        {
            assert_eq!(reason(false, good.as_bytes()), None, "{good}");
        }
        for bad in [&b"WEBVTTX"[..], b"", b"<html>", b"WEBVTT \xff"] {
            assert_eq!(reason(false, bad), Some(Reason::BadText), "{bad:?}");
        }
        assert_eq!(reason(true, b"<tt xmlns='http://www.w3.org/ns/ttml'><body/></tt>"), None);
        for bad in [&b"<tt><body></tt>"[..], b"<html/>", b"", b"<!DOCTYPE tt [<!ENTITY a 'a'>]><tt>&a;</tt>"]
        {
            assert_eq!(reason(true, bad), Some(Reason::BadText), "{bad:?}");
        }
    }
}
