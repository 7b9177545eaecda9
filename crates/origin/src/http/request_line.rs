//! Escapes characters that clients send as they are in URLs, though RFC 3986 does not allow them.
//!
//! Filters contain quotes and angle brackets. Browsers escape them, but curl and many players do
//! not, and hyper refuses a request line that holds them. The bytes that arrive are therefore
//! escaped before hyper reads them, in request lines only. A message with a body ends this for the
//! rest of its connection, because its bytes could be mistaken for a request line.

/// Room for the longest of [`BODY_HEADERS`].
const NAME_ROOM: usize = 18;
/// Beginnings of the header lines without which a request has no body (RFC 9112 §6.3).
const BODY_HEADERS: [&[u8]; 2] = [b"content-length:", b"transfer-encoding:"];

/// Follows the lines of a connection's requests.
#[derive(Debug, Default)]
pub(crate) struct RequestLines {
    place: Place,
    /// First bytes of the current line, in lower case, without its end.
    begun: [u8; NAME_ROOM],
    length: usize,
}

/// Part of a request to which the next byte belongs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    RequestLine,
    Headers,
    /// Bytes that are not followed any more.
    Rest,
}

impl RequestLines {
    /// Follows the next bytes of the connection. Returns them with escapes if they need any.
    pub(crate) fn escape(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut escaped: Option<Vec<u8>> = None;
        let mut rest = bytes;
        while !rest.is_empty() && self.place != Place::Rest {
            let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            if self.place == Place::RequestLine && line.iter().any(|&byte| must_escape(byte)) {
                let start = bytes.len() - rest.len();
                let kept = escaped.get_or_insert_with(|| bytes.get(..start).unwrap_or_default().to_vec());
                line.iter().for_each(|&byte| push(kept, byte));
            } else if let Some(escaped) = &mut escaped {
                escaped.extend_from_slice(line);
            }
            self.take(line);
            rest = after;
        }
        if let Some(escaped) = &mut escaped {
            escaped.extend_from_slice(rest);
        }
        escaped
    }

    /// Takes a line, or a part of one.
    fn take(&mut self, line: &[u8]) {
        let text = line.iter().filter(|byte| !matches!(byte, b'\r' | b'\n'));
        for (room, byte) in self.begun.iter_mut().skip(self.length).zip(text) {
            *room = byte.to_ascii_lowercase();
            self.length += 1;
        }
        if !line.ends_with(b"\n") {
            return;
        }
        let begun = self.begun.get(..self.length).unwrap_or_default();
        self.place = match self.place {
            // Empty lines before a request are ignored (RFC 9112 §2.2).
            Place::RequestLine if begun.is_empty() => Place::RequestLine,
            Place::Headers if begun.is_empty() => Place::RequestLine,
            _ if BODY_HEADERS.iter().any(|name| begun.starts_with(name)) => Place::Rest,
            _ => Place::Headers,
        };
        self.length = 0;
    }
}

fn must_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`')
}

fn push(escaped: &mut Vec<u8>, byte: u8) {
    if must_escape(byte) {
        escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
    } else {
        escaped.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the bytes in pieces of each size and checks that the result is always the same.
    fn escaped(text: &str) -> String {
        let in_pieces = |size| {
            let mut lines = RequestLines::default();
            let pieces = text.as_bytes().chunks(size);
            let joined = pieces.flat_map(|piece| lines.escape(piece).unwrap_or_else(|| piece.to_vec()));
            String::from_utf8(joined.collect()).unwrap()
        };
        let whole = in_pieces(usize::MAX);
        for size in 1..text.len() {
            assert_eq!(in_pieces(size), whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn only_request_lines_are_escaped() {
        let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\nX-Quoted: \"<a>\"\r\n\r\n");
        let raw = request("/x/.mpd?filter=type==\"audio\"&&MaxHeight<=4");
        let good = request("/x/.mpd?filter=type==%22audio%22&&MaxHeight%3C=4");
        assert_eq!(escaped(&raw), good);
        // The second of two requests, with an empty line between them and bare line feeds.
        let bare = |text: &str| text.replace("\r\n", "\n");
        assert_eq!(escaped(&format!("{raw}\r\n{}", bare(&raw))), format!("{good}\r\n{}", bare(&good)));
        assert_eq!(escaped(&good), good);
    }

    #[test]
    fn the_bytes_of_a_body_are_never_changed() {
        for header in ["Content-Length: 34", "content-length:34", "Transfer-Encoding: chunked"] {
            let post = format!(
                "POST / HTTP/1.1\r\n{header}\r\nX: y\r\n\r\n\r\n\r\nGET /\"smuggled\" HTTP/1.1\r\n\r\n"
            );
            assert_eq!(escaped(&post), post);
        }
    }
}
