//! The reasons why a text is refused.

/// The reason why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The bytes are neither UTF-8 nor UTF-16 with a byte order mark.
    #[error("the text is neither UTF-8 nor UTF-16 with a byte order mark")]
    Encoding,
    /// The text breaks the rules of its form. States the rule.
    #[error("{0}")]
    Malformed(String),
    /// The text has more of something than the limit.
    #[error("more {0} than {1}")]
    OverLimit(&'static str, usize),
}

impl TextError {
    /// Returns the stable word for the error in logs and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Encoding => "text_encoding",
            Self::Malformed(_) => "malformed_text",
            Self::OverLimit(..) => "text_too_large",
        }
    }
}
