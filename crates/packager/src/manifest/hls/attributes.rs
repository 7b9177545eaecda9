//! Tags with attribute lists (RFC 8216 §4.2).

use std::fmt::{Display, Write as _};

/// One tag being written: `#NAME:A=1,B="2"`.
#[derive(Debug)]
pub(super) struct PlaylistTag {
    text: String,
    separator: char,
}

impl PlaylistTag {
    /// Begins a tag. `name` has no `#` and no `:`.
    pub(super) fn new(name: &str) -> Self {
        Self { text: format!("#{name}"), separator: ':' }
    }

    /// Adds a number, resolution or enumerated string.
    pub(super) fn plain(mut self, name: &str, value: impl Display) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}{name}={value}", self.separator);
        self.separator = ',';
        self
    }

    /// Adds a quoted string, without the quotes and control characters that it must not hold.
    pub(super) fn quoted(self, name: &str, value: &str) -> Self {
        let value: String = value.chars().filter(|c| *c != '"' && !c.is_control()).collect();
        self.plain(name, format_args!("\"{value}\""))
    }

    /// Calls [`Self::plain`] if there is a value.
    pub(super) fn plain_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.plain(name, value),
            None => self,
        }
    }

    /// Calls [`Self::quoted`] if there is a value.
    pub(super) fn quoted_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.quoted(name, value),
            None => self,
        }
    }

    /// Ends the line and appends it to a playlist.
    pub(super) fn write(self, playlist: &mut String) {
        playlist.push_str(&self.text);
        playlist.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::PlaylistTag;

    #[test]
    fn quotes_and_control_characters_are_left_out() {
        let mut text = String::new();
        let none: Option<u8> = None;
        PlaylistTag::new("EXT-X-MEDIA")
            .plain("TYPE", "AUDIO")
            .plain_if("N", none)
            .quoted("NAME", "a\"b\nc, d")
            .quoted_if("LANGUAGE", None)
            .write(&mut text);
        assert_eq!(text, "#EXT-X-MEDIA:TYPE=AUDIO,NAME=\"abc, d\"\n");
    }
}
