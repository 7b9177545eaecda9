//! Finds the end of each response on a connection (RFC 9112, 6.3).

use std::fmt;

/// Longest head of a response in bytes. hyper gives up earlier.
const MAX_HEAD: usize = 512 * 1024;
/// Most header fields of a response, as many as hyper accepts.
const MAX_HEADERS: usize = 100;

/// Follows the bytes of a connection and tells which ones belong to a response.
///
/// If a response cannot be followed, all bytes after it count as part of it. hyper then reports the
/// error, or the connection ends with the response.
pub(super) struct Framing {
    state: State,
    /// Bytes of a head that is incomplete.
    head: Vec<u8>,
    /// The part of that head to which its last byte belongs.
    line: Line,
    /// True if the request has the method HEAD, whose response has no body.
    is_head: bool,
}

/// The part of a response that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No response, because there is no request.
    Idle,
    Head,
    /// This many bytes of a body whose length is stated.
    Length(u64),
    Chunks(Chunk),
    /// A body that ends with the connection.
    UntilClose,
}

/// The part of a chunked body that comes next (RFC 9112, 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// Digits of a size, after those with this value.
    Size(u64),
    /// The rest of the line after a size.
    Extension(u64),
    /// This many bytes of data.
    Data(u64),
    /// The line end after the data.
    DataEnd,
    /// A line of the trailer. The body ends with an empty one.
    Trailer { is_empty: bool },
}

/// The part of a head to which its last byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Empty lines before the head, which recipients ignore (RFC 9112, 2.2).
    Before,
    /// A line with contents.
    Full,
    /// Nothing, or only CR, since the end of a line. The head ends with the next LF.
    Empty,
}

impl Line {
    /// Returns the part after one more byte, or `None` if the byte ends the head.
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Before, b'\r' | b'\n') => Some(Self::Before),
            (Self::Empty, b'\n') => None,
            (Self::Empty, b'\r') | (Self::Full, b'\n') => Some(Self::Empty),
            _ => Some(Self::Full),
        }
    }
}

impl fmt::Debug for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Framing {
    /// Creates the framing of a new connection.
    pub(super) fn new() -> Self {
        Self { state: State::Idle, head: Vec::new(), line: Line::Before, is_head: false }
    }

    /// Returns true if no response is expected.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Notes bytes that are sent. While no response is expected, they begin a request.
    pub(super) fn sent(&mut self, bytes: &[u8]) {
        if self.state == State::Idle && !bytes.is_empty() {
            self.is_head = bytes.starts_with(b"HEAD ");
            self.state = State::Head;
        }
    }

    /// Notes bytes that arrived, and returns how many of them belong to the response.
    pub(super) fn received(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && self.state != State::Idle {
            let used = match self.state {
                State::Head => self.head(rest),
                State::Length(left) => {
                    let used = bounded(left, rest);
                    self.state = body_of(left - used as u64);
                    used
                }
                State::Chunks(chunk) => self.chunk(chunk, rest),
                State::Idle | State::UntilClose => rest.len(),
            };
            rest = rest.get(used..).unwrap_or_default();
        }
        bytes.len() - rest.len()
    }

    /// Takes bytes of a head, and returns their number. The head is parsed once, when its end has
    /// arrived, so that a head in many small pieces costs no more than in one.
    fn head(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        for &byte in bytes {
            used += 1;
            match self.line.after(byte) {
                Some(line) => self.line = line,
                None => {
                    let own = bytes.get(..used).unwrap_or_default();
                    self.state = if self.head.is_empty() {
                        state_after(own, self.is_head)
                    } else {
                        self.head.extend_from_slice(own);
                        state_after(&self.head, self.is_head)
                    };
                    (self.head, self.line) = (Vec::new(), Line::Before);
                    return used;
                }
            }
        }
        if self.head.len() + used > MAX_HEAD {
            self.state = State::UntilClose;
            (self.head, self.line) = (Vec::new(), Line::Before);
        } else {
            self.head.extend_from_slice(bytes);
        }
        used
    }

    /// Takes bytes of a chunked body, and returns their number, which is not 0.
    fn chunk(&mut self, chunk: Chunk, bytes: &[u8]) -> usize {
        if let Chunk::Data(left) = chunk {
            let used = bounded(left, bytes);
            let left = left - used as u64;
            self.state = State::Chunks(if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) });
            return used;
        }
        let Some(&byte) = bytes.first() else { return 0 };
        self.state = match (chunk, byte) {
            (Chunk::Size(size), b'\n') => end_of_size(size),
            (Chunk::Size(size), _) => match char::from(byte).to_digit(16) {
                Some(digit) => size
                    .checked_mul(16)
                    .map_or(State::UntilClose, |size| State::Chunks(Chunk::Size(size + u64::from(digit)))),
                None => State::Chunks(Chunk::Extension(size)),
            },
            (Chunk::Extension(size), b'\n') => end_of_size(size),
            (Chunk::DataEnd, b'\n') => State::Chunks(Chunk::Size(0)),
            (Chunk::Trailer { is_empty: true }, b'\n') => State::Idle,
            (Chunk::Trailer { .. }, b'\n') => State::Chunks(Chunk::Trailer { is_empty: true }),
            (Chunk::Trailer { is_empty }, _) => {
                State::Chunks(Chunk::Trailer { is_empty: is_empty && byte == b'\r' })
            }
            (Chunk::Extension(_) | Chunk::DataEnd | Chunk::Data(_), _) => State::Chunks(chunk),
        };
        1
    }
}

/// Returns the state after the line with the size of a chunk.
fn end_of_size(size: u64) -> State {
    State::Chunks(if size == 0 { Chunk::Trailer { is_empty: true } } else { Chunk::Data(size) })
}

/// Returns the state before a body of this many bytes.
fn body_of(length: u64) -> State {
    if length == 0 { State::Idle } else { State::Length(length) }
}

/// Returns how many of `bytes` are among the next `left` ones.
fn bounded(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
}

#[cfg(test)]
thread_local! {
    /// Bytes of heads that were parsed.
    static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Parses a whole head, and returns the state after it.
fn state_after(head: &[u8], is_head: bool) -> State {
    #[cfg(test)]
    PARSED.set(PARSED.get() + head.len());
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    if !response.parse(head).is_ok_and(|status| status.is_complete()) {
        return State::UntilClose;
    }
    let values = |name: &'static str| {
        let named = response.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value.trim_ascii())
    };
    match response.code.unwrap_or_default() {
        101 => State::UntilClose,
        // An interim response precedes the final one.
        100..=199 => State::Head,
        204 | 304 => State::Idle,
        _ if is_head => State::Idle,
        _ => match (values("transfer-encoding").next_back(), values("content-length").next()) {
            (Some(coding), _) if is_chunked(coding) => State::Chunks(Chunk::Size(0)),
            (None, Some(length)) => digits(length).map_or(State::UntilClose, body_of),
            (Some(_) | None, _) => State::UntilClose,
        },
    }
}

/// Returns true if `chunked` is the last coding of a `Transfer-Encoding`.
fn is_chunked(codings: &[u8]) -> bool {
    let last = codings.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    last.trim_ascii().eq_ignore_ascii_case(b"chunked")
}

fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Framing, PARSED, State};

    const SURPLUS: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

    /// Returns the number of bytes of one response, which arrive in pieces of `piece` bytes.
    fn received(request: &[u8], bytes: &[u8], piece: usize) -> usize {
        let mut framing = Framing::new();
        framing.sent(request);
        bytes.chunks(piece).map(|piece| framing.received(piece)).sum()
    }

    #[test]
    fn a_response_ends_where_its_length_or_its_last_chunk_says() {
        let get = b"GET / HTTP/1.1\r\n\r\n".as_slice();
        let head = b"HEAD / HTTP/1.1\r\n\r\n".as_slice();
        for (request, response) in [
            (get, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
            (get, "HTTP/1.1 206 OK\r\ncontent-length:  5 \r\nX: y\r\n\r\nhello"),
            (get, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            (get, "HTTP/1.1 204 No\r\n\r\n"),
            (get, "HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n"),
            (head, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
            (get, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            (get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n0\r\n\r\n"),
            // The transfer coding takes precedence over the length.
            (
                get,
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n\
                 00a ;x=\"y\"\r\n0123\r\n6789\r\nB\r\n0\r\n\r\n0\r\n\r\n00\r\n\r\n0\r\nA: b\r\nC:\r\n\r\n",
            ),
        ] {
            let whole = [response.as_bytes(), SURPLUS].concat();
            for piece in 1..=whole.len() {
                let own = received(request, &whole, piece);
                assert_eq!(own, response.len(), "{response:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn responses_that_cannot_be_followed_have_no_end() {
        for response in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "\u{1}",
        ] {
            let whole = [response.as_bytes(), SURPLUS].concat();
            for piece in [1, 7, whole.len()] {
                assert_eq!(received(b"GET /", &whole, piece), whole.len(), "{response:?}");
            }
        }
        let mut framing = Framing::new();
        framing.sent(b"GET /");
        assert_eq!(framing.received(b"HTTP/1.1 200 OK\r\nX: "), 20);
        for _ in 0..100 {
            assert_eq!(framing.received(&[b'x'; 10_000]), 10_000);
        }
        assert!(framing.head.is_empty(), "an endless head is not kept");
    }

    /// Each piece of a head had everything before it parsed again.
    #[test]
    fn a_head_in_small_pieces_was_parsed_for_each_piece() {
        let head = format!("\r\n\nHTTP/1.1 200 OK\r\n{}Content-Length: 5\r\n\r\n", "X: y\r\n".repeat(90));
        let mut framing = Framing::new();
        framing.sent(b"GET /");
        for byte in head.as_bytes() {
            assert_eq!(framing.state, State::Head);
            assert_eq!(framing.received(&[*byte]), 1);
        }
        assert_eq!(framing.state, State::Length(5));
        assert_eq!(PARSED.get(), head.len());
        // A head that never ends is not parsed at all.
        framing.state = State::Head;
        while framing.state == State::Head {
            framing.received(b"\r\nx");
        }
        assert_eq!(PARSED.get(), head.len());
    }

    #[test]
    fn bytes_without_a_request_belong_to_no_response() {
        let mut framing = Framing::new();
        assert_eq!(framing.received(SURPLUS), 0);
        framing.sent(b"GET /");
        assert_eq!(framing.received(SURPLUS), SURPLUS.len());
        assert!(framing.is_idle());
        assert_eq!(framing.received(SURPLUS), 0);
        framing.sent(b"HEAD /");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(framing.received(&[head, SURPLUS].concat()), head.len());
    }
}
