//! The token that requests to the admin address carry.

use arc_swap::ArcSwap;
use http::{HeaderMap, header};
use std::sync::Arc;

/// A token, which is never shown. Clones are replaced together.
#[derive(Clone)]
pub struct AdminToken(Arc<ArcSwap<Box<[u8]>>>);

impl AdminToken {
    /// Fewest characters of a token. A shorter one could be guessed.
    pub const MIN_LENGTH: usize = 16;

    /// Makes a token of a text, without the white space around it.
    ///
    /// # Errors
    /// Returns a sentence for the operator if the text is too short, or has characters that no
    /// header can carry.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim_ascii();
        if text.len() < Self::MIN_LENGTH {
            return Err(format!("the admin token must have at least {} characters", Self::MIN_LENGTH));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the admin token must consist of visible ASCII characters, without spaces".to_owned());
        }
        Ok(Self(Arc::new(ArcSwap::from_pointee(text.as_bytes().into()))))
    }

    /// Replaces the token, for the requests that follow.
    pub fn replace(&self, new: &Self) {
        self.0.store(new.0.load_full());
    }

    /// Returns true if a request carries this token, as `Authorization: Bearer TOKEN`. The time
    /// that this takes does not depend on how much of a token is right.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(header::AUTHORIZATION) else { return false };
        let Some((scheme, token)) = value.as_bytes().split_at_checked(7) else { return false };
        let right = self.0.load();
        let difference = token.iter().zip(right.iter()).fold(0, |found, (a, b)| found | (a ^ b));
        scheme.eq_ignore_ascii_case(b"bearer ") && token.len() == right.len() && difference == 0
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdminToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = AdminToken::new(" 0123456789abcdef\n").unwrap();
        for (value, is_right) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer 0123456789abcdeF", false),
            ("Bearer  0123456789abcdef", false),
            ("Basic 0123456789abcdef", false),
            ("Bearer ", false),
            ("Bearer", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(token.is_in(&headers), is_right, "{value}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn tokens_that_are_too_short_or_no_header_are_refused() {
        for text in
            ["", "  ", "0123456789abcde", "0123456789 abcdef", "0123456789abcdeé", "0123456789\0abcdef"]
        {
            AdminToken::new(text).unwrap_err();
        }
    }
}
