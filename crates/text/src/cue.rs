//! The cues of a text.

/// One subtitle: a WebVTT cue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cue {
    /// Milliseconds from the start of the presentation to the moment it is shown.
    pub start: u64,
    /// Milliseconds to the moment it is hidden, later than [`Self::start`].
    pub end: u64,
    /// Identifier, empty for none.
    pub id: String,
    /// WebVTT settings, such as `line:0 align:start`. Empty for none.
    pub settings: String,
    /// Text with WebVTT markup. Lines end with `\n`, and none but the last is empty.
    pub text: String,
}

/// All cues of a text, by start, and what they have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// The `STYLE` and `REGION` blocks of WebVTT, with empty lines between them. Empty for none.
    pub header: String,
    /// Cues by start.
    pub cues: Vec<Cue>,
    /// Language that the text states, as in `xml:lang`. Empty for none.
    pub language: String,
}
