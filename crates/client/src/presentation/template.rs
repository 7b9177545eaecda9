//! Templates of addresses (ISO/IEC 23009-1 §5.3.9.4.4; [MS-SSTR] 3.1.4.2).

use crate::manifest_error::ManifestError;

/// A template, split at its identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<TemplatePiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePiece {
    Text(String),
    /// `$Number$`, with the minimum number of digits.
    Number(usize),
    /// `$Time$`, with the minimum number of digits.
    Time(usize),
}

/// The maximum number of digits of a format tag.
const MAX_WIDTH: usize = 32;

impl Template {
    /// Reads a template of DASH: `$RepresentationID$`, `$Bandwidth$`, `$Number$`, `$Time$` and
    /// `$$`. Each number may have a format tag `%0…d`.
    pub(crate) fn dash(text: &str, id: &str, bandwidth: u64) -> Result<Self, ManifestError> {
        let wrong = || ManifestError::invalid(format!("an invalid template: {text}"));
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut parts = text.split('$');
        literal.push_str(parts.next().unwrap_or_default());
        while let Some(identifier) = parts.next() {
            let (name, width) = match identifier.split_once('%') {
                None => (identifier, 1),
                Some((name, format)) => (name, width(format).ok_or_else(wrong)?),
            };
            match name {
                "" => literal.push('$'),
                "RepresentationID" => literal.push_str(id),
                "Bandwidth" => literal.push_str(&format!("{bandwidth:0width$}")),
                "Number" | "Time" => {
                    pieces.push(TemplatePiece::Text(std::mem::take(&mut literal)));
                    let is_time = name == "Time";
                    let piece = if is_time { TemplatePiece::Time } else { TemplatePiece::Number };
                    pieces.push(piece(width));
                }
                _ => return Err(wrong()),
            }
            // The text after the `$` that closes the identifier.
            literal.push_str(parts.next().ok_or_else(wrong)?);
        }
        pieces.push(TemplatePiece::Text(literal));
        Ok(Self(pieces))
    }

    /// Reads a template of Smooth Streaming: `{bitrate}` and `{start time}`, in either spelling.
    pub(crate) fn smooth(text: &str, bitrate: u64) -> Result<Self, ManifestError> {
        let text = ["{bitrate}", "{Bitrate}"]
            .iter()
            .fold(text.to_owned(), |t, p| t.replace(p, &bitrate.to_string()));
        let cut = ["{start time}", "{start_time}"].iter().find_map(|place| text.split_once(place));
        let (before, behind) =
            cut.ok_or_else(|| ManifestError::invalid(format!("Url without a start time: {text}")))?;
        Ok(Self(vec![
            TemplatePiece::Text(before.to_owned()),
            TemplatePiece::Time(1),
            TemplatePiece::Text(behind.to_owned()),
        ]))
    }

    /// Returns true if the addresses of segments differ.
    pub(crate) fn varies(&self) -> bool {
        self.0.iter().any(|piece| !matches!(piece, TemplatePiece::Text(_)))
    }

    /// Returns an address. The placeholders of absent values become empty.
    pub(crate) fn fill(&self, number: Option<u64>, time: Option<u64>) -> String {
        let digits = |value: Option<u64>, width: usize| {
            value.map(|value| format!("{value:0width$}")).unwrap_or_default()
        };
        self.0
            .iter()
            .map(|piece| match piece {
                TemplatePiece::Text(text) => text.clone(),
                TemplatePiece::Number(width) => digits(number, *width),
                TemplatePiece::Time(width) => digits(time, *width),
            })
            .collect()
    }
}

/// Reads the width of a format tag `0…d`.
fn width(format: &str) -> Option<usize> {
    let digits = format.strip_prefix('0')?.strip_suffix('d')?;
    let width = if digits.is_empty() { 1 } else { digits.parse().ok()? };
    (width <= MAX_WIDTH).then_some(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_of_dash_are_filled_in() {
        let fill = |text| Template::dash(text, "v1", 800_000).map(|t| t.fill(Some(7), Some(90_000)));
        assert_eq!(fill("$RepresentationID$/$Number%05d$.m4s").unwrap(), "v1/00007.m4s");
        assert_eq!(fill("a$$b-$Bandwidth$-$Time$").unwrap(), "a$b-800000-90000");
        assert_eq!(fill("$Bandwidth%08d$-$Number$").unwrap(), "00800000-7");
        assert_eq!(fill("$Number%0d$").unwrap(), "7");
        for wrong in ["$Number", "$Number%5x$", "$Unknown$", "$Number%0999d$", "a$"] {
            assert!(fill(wrong).is_err(), "{wrong}");
        }
        assert!(!Template::dash("init-$RepresentationID$.mp4", "v1", 1).unwrap().varies());
    }

    #[test]
    fn placeholders_of_smooth_streaming_are_filled_in() {
        let template =
            Template::smooth("QualityLevels({bitrate})/Fragments(video={start time})", 42).unwrap();
        assert_eq!(template.fill(None, Some(20_000_000)), "QualityLevels(42)/Fragments(video=20000000)");
        assert!(Template::smooth("QualityLevels({bitrate})", 42).is_err());
    }
}
