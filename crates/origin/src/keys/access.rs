//! Access to the keys that an origin serves itself.

use crate::{Error, config::DrmRule};
use http::{HeaderMap, Uri, header};
use std::{fmt, sync::Arc};

/// Fewest characters of a token. A shorter one could be guessed.
const MIN_TOKEN: usize = 16;

/// Who may have keys.
#[derive(Clone)]
pub(super) enum Access {
    /// Nobody: players get them elsewhere.
    Nobody,
    Everybody,
    /// Those who send this token.
    Token(Arc<[u8]>),
    /// Nobody, because the token cannot be used. Holds a sentence for the operator.
    Broken(Arc<str>),
}

impl Access {
    /// Reads what the configuration states.
    pub(super) fn new(value: Option<&str>) -> Self {
        match value {
            None => Self::Nobody,
            Some(DrmRule::OPEN) => Self::Everybody,
            Some(value) => match from_env(value, MIN_TOKEN, "token") {
                Ok(token)
                    if token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) =>
                {
                    Self::Token(token.as_bytes().into())
                }
                Ok(_) => Self::Broken("the token for keys may contain only letters, digits and -._~".into()),
                Err(problem) => Self::Broken(problem.into()),
            },
        }
    }

    /// Returns a sentence for the operator if nobody can get keys, although the configuration says
    /// that they are served.
    pub(super) fn problem(&self) -> Option<&str> {
        if let Self::Broken(problem) = self { Some(problem) } else { None }
    }

    /// Checks a request, see [`super::TitleKeys::check_access`].
    pub(super) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Error> {
        match self {
            Self::Nobody => Err(Error::NoSuchUrl),
            Self::Everybody => Ok(()),
            Self::Broken(_) => Err(Error::KeysUnavailable),
            Self::Token(token) => {
                let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
                    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
                    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
                });
                let parameters = uri.query().unwrap_or_default().split('&');
                let mut sent =
                    parameters.filter_map(|p| p.strip_prefix("token=")).map(str::as_bytes).chain(bearer);
                if sent.any(|sent| equal(sent, token)) { Ok(()) } else { Err(Error::KeyDenied) }
            }
        }
    }
}

/// Compares in a time that does not depend on how much of a token is right.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |found, (a, b)| found | (a ^ b));
    a.len() == b.len() && difference == 0
}

/// Reads the environment variable that a value such as `env:NAME` names.
///
/// # Errors
/// A sentence for the operator, without the value.
pub(super) fn from_env(value: &str, shortest: usize, what: &str) -> Result<String, String> {
    let name = value.strip_prefix(DrmRule::ENV).ok_or_else(|| format!("no variable holds the {what}"))?;
    let secret = std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?;
    if secret.len() < shortest {
        return Err(format!("the {what} in {name} must have at least {shortest} characters"));
    }
    Ok(secret)
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nobody => "Nobody",
            Self::Everybody => "Everybody",
            Self::Token(_) => "Token",
            Self::Broken(_) => "Broken",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let access = Access::Token(b"0123456789abcdef".as_slice().into());
        let check = |query: &str, bearer: Option<&str>| {
            let uri: Uri = format!("/a/keys/1.key{query}").parse().unwrap();
            let headers = bearer.map(|value| (header::AUTHORIZATION, value.parse().unwrap()));
            access.check(&HeaderMap::from_iter(headers), &uri).is_ok()
        };
        assert!(check("?token=0123456789abcdef", None));
        assert!(check("?a=b&token=0123456789abcdef", None));
        assert!(check("", Some("Bearer 0123456789abcdef")));
        for (query, bearer) in [
            ("", None),
            ("?token=", None),
            ("?token=0123456789abcde", None),
            ("?token=0123456789abcdef0", None),
            ("?tokens=0123456789abcdef", None),
            ("", Some("Bearer ")),
            ("", Some("Basic 0123456789abcdef")),
            ("?token=x", Some("Bearer 0123456789abcde")),
        ] {
            assert!(!check(query, bearer), "{query} {bearer:?}");
        }
        assert!(!format!("{access:?}").contains("0123"));
    }
}
