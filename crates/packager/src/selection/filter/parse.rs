//! The parser of filters. Clients send them, so length, depth and number of tokens are bounded.

use super::{Expression, NUMBERS, OPERATORS, Operator, TEXTS};

/// Longest accepted filter, in bytes.
pub const MAX_BYTES: usize = 1024;
/// Deepest nesting of parentheses.
pub(super) const MAX_DEPTH: usize = 16;
pub(super) const MAX_TOKENS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    And,
    Or,
    Operator(Operator),
    Word(&'a str),
    Number(u64),
    Quoted(&'a str),
}

pub(super) fn expression(text: &str) -> Result<Expression, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("longer than {MAX_BYTES} bytes"));
    }
    let tokens = tokens(text)?;
    let mut reader = TokenReader { tokens: &tokens, at: 0, depth: 0 };
    let expression = reader.any()?;
    match reader.next() {
        None => Ok(expression),
        Some((at, _)) => Err(format!("'&&' or '||' expected at character {at}")),
    }
}

/// Splits a filter into tokens, each with the 1-based number of its first character.
fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let before = text.get(..text.len() - rest.len()).unwrap_or_default();
        let at = before.chars().count() + 1;
        if tokens.len() >= MAX_TOKENS {
            return Err(format!("more than {MAX_TOKENS} tokens"));
        }
        let (token, length) = token(rest, first).map_err(|problem| format!("{problem} at character {at}"))?;
        tokens.push((at, token));
        rest = rest.get(length..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

/// Returns the token that a text begins with, and its length in bytes.
fn token(text: &str, first: char) -> Result<(Token<'_>, usize), String> {
    for (sign, token) in [("(", Token::Open), (")", Token::Close), ("&&", Token::And), ("||", Token::Or)] {
        if text.starts_with(sign) {
            return Ok((token, sign.len()));
        }
    }
    if let Some((operator, symbol)) = OPERATORS.into_iter().find(|(_, symbol)| text.starts_with(symbol)) {
        return Ok((Token::Operator(operator), symbol.len()));
    }
    if let quote @ ('"' | '\'') = first {
        let inner = text.get(1..).unwrap_or_default();
        let (quoted, _) = inner.split_once(quote).ok_or_else(|| format!("no closing {quote}"))?;
        if quoted.contains(char::is_control) {
            return Err("a control character in the text".to_owned());
        }
        return Ok((Token::Quoted(quoted), quoted.len() + 2));
    }
    let length = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let word = text.get(..length).unwrap_or_default();
    if word.is_empty() {
        return Err(format!("'{}' is not allowed here", first.escape_default()));
    }
    if word.bytes().all(|b| b.is_ascii_digit()) {
        let number = word.parse().map_err(|_| "a number of more than 64 bits".to_owned())?;
        return Ok((Token::Number(number), length));
    }
    Ok((Token::Word(word), length))
}

struct TokenReader<'a> {
    tokens: &'a [(usize, Token<'a>)],
    at: usize,
    depth: usize,
}

impl<'a> TokenReader<'a> {
    fn next(&mut self) -> Option<(usize, Token<'a>)> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    fn skip_if(&mut self, token: Token<'_>) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|(_, next)| *next == token);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> Result<Expression, String> {
        let first = self.all()?;
        let mut terms = vec![first];
        while self.skip_if(Token::Or) {
            terms.push(self.all()?);
        }
        Ok(one_or(terms, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, String> {
        let first = self.term()?;
        let mut terms = vec![first];
        while self.skip_if(Token::And) {
            terms.push(self.term()?);
        }
        Ok(one_or(terms, Expression::All))
    }

    fn term(&mut self) -> Result<Expression, String> {
        match self.next() {
            Some((at, Token::Open)) => {
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(format!("more than {MAX_DEPTH} nested parentheses at character {at}"));
                }
                let inner = self.any()?;
                self.depth -= 1;
                if !self.skip_if(Token::Close) {
                    return Err(format!("the '(' at character {at} is not closed"));
                }
                Ok(inner)
            }
            Some((at, Token::Word(word))) => self.comparison(word, at),
            Some((at, _)) => Err(format!("a variable or '(' expected at character {at}")),
            None => Err("a variable or '(' expected at the end".to_owned()),
        }
    }

    fn comparison(&mut self, word: &str, at: usize) -> Result<Expression, String> {
        let Some((_, Token::Operator(operator))) = self.next() else {
            return Err(format!("no operator after '{}' at character {at}", shown(word)));
        };
        let value = self.next().map(|(_, value)| value);
        if let Some((number, _)) = NUMBERS.into_iter().find(|(_, symbol)| *symbol == word) {
            return match value {
                Some(Token::Number(value)) => Ok(Expression::Number(number, operator, value)),
                _ => Err(format!("{word} must be compared with a number, at character {at}")),
            };
        }
        let Some((text, _)) = TEXTS.into_iter().find(|(_, symbol)| *symbol == word) else {
            return Err(format!("unknown variable '{}' at character {at}", shown(word)));
        };
        let equal = match operator {
            Operator::Equal => true,
            Operator::NotEqual => false,
            _ => return Err(format!("{word} can only be compared by == or !=, at character {at}")),
        };
        match value {
            Some(Token::Quoted(value)) => Ok(Expression::Text(text, equal, value.to_owned())),
            _ => Err(format!("{word} must be compared with text in quotes, at character {at}")),
        }
    }
}

fn one_or(mut terms: Vec<Expression>, list: impl FnOnce(Vec<Expression>) -> Expression) -> Expression {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        last => {
            terms.extend(last);
            list(terms)
        }
    }
}

/// Shortens text from a client for an error message.
fn shown(word: &str) -> String {
    word.chars().take(40).collect()
}
