//! Gives a JSON body, a log line and a count to the requests that hyper itself refuses, after
//! escaping those characters in URLs that hyper need not refuse.
//!
//! hyper answers a head that it cannot parse without calling the service, with an empty body, and
//! closes the connection. No other response of this server has such a head, so it is recognised
//! where it is written, and replaced.

use crate::{
    http::request_line::RequestLines,
    observe::{access::log_refusal, metrics::Metrics},
};
use bytes::{Buf, Bytes};
use http::StatusCode;
use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A refusal that hyper makes.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    reason: &'static str,
    /// Sentence for the client.
    detail: &'static str,
}

const REFUSALS: [Refusal; 3] = [
    Refusal {
        status: StatusCode::BAD_REQUEST,
        reason: "bad_request",
        detail: "the request is not valid HTTP/1.1; in a URL, write a space as %20, \\\" as %22, < as %3C \
                 and > as %3E",
    },
    Refusal { status: StatusCode::URI_TOO_LONG, reason: "url_too_long", detail: "the URL is too long" },
    Refusal {
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        reason: "head_too_large",
        detail: "the URL and the headers of the request together are too large, or too many",
    },
];

/// The rest of the first lines of every refusal by hyper.
const EMPTY_AND_LAST: &str = "connection: close\r\ncontent-length: 0\r\n";

/// A connection whose refusals by hyper are replaced.
#[derive(Debug)]
pub(crate) struct ExplainedRefusals<T> {
    inner: T,
    /// Metrics that count the refusals, and the client that the log names. `None` on the admin
    /// address, whose requests are neither counted nor logged.
    observed: Option<(Arc<Metrics>, IpAddr)>,
    lines: RequestLines,
    /// Escaped bytes that did not fit into the reader's buffer.
    unread: Bytes,
    /// The rest of the response that replaces hyper's, and the length of hyper's.
    instead: Option<(Bytes, usize)>,
}

impl<T> ExplainedRefusals<T> {
    pub(crate) fn new(inner: T, metrics: Arc<Metrics>, peer: IpAddr) -> Self {
        Self { observed: Some((metrics, peer)), ..Self::unobserved(inner) }
    }

    /// Wraps a connection whose refusals are neither counted nor logged.
    pub(crate) fn unobserved(inner: T) -> Self {
        Self { inner, observed: None, lines: RequestLines::default(), unread: Bytes::new(), instead: None }
    }

    /// Starts the response in place of a refusal, if hyper writes one.
    fn replace(&mut self, written: &[u8]) {
        if self.instead.is_none()
            && let Some(refusal) = REFUSALS.iter().find(|refusal| refusal.is_head(written))
        {
            let (response, body) = refusal.response();
            if let Some((metrics, peer)) = &self.observed {
                log_refusal(metrics, *peer, Some(refusal.status), refusal.reason, body as u64);
            }
            self.instead = Some((response, written.len()));
        }
    }
}

impl Refusal {
    /// Returns true if hyper writes the head of this refusal.
    fn is_head(&self, written: &[u8]) -> bool {
        let rest = written.strip_prefix(b"HTTP/1.1 ");
        let rest = rest.and_then(|rest| rest.strip_prefix(self.status.as_str().as_bytes()));
        let line = rest.and_then(|rest| rest.iter().position(|&byte| byte == b'\n').map(|end| (rest, end)));
        line.and_then(|(rest, end)| rest.get(end + 1..))
            .is_some_and(|rest| rest.starts_with(EMPTY_AND_LAST.as_bytes()))
    }

    /// Returns the response, and the length of its body.
    fn response(&self) -> (Bytes, usize) {
        let body = format!("{{\"reason\":\"{}\",\"detail\":\"{}\"}}\n", self.reason, self.detail);
        let status = self.status;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\naccess-control-allow-origin: *\r\n\
             cache-control: no-store\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        (Bytes::from(head + &body), length)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ExplainedRefusals<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.unread.is_empty() {
            ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
            let read = buf.filled().get(before..).unwrap_or_default();
            let Some(escaped) = self.lines.escape(read) else { return Poll::Ready(Ok(())) };
            buf.set_filled(before);
            self.unread = escaped.into();
        }
        let fitting = self.unread.len().min(buf.remaining());
        buf.put_slice(&self.unread.split_to(fitting));
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ExplainedRefusals<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.replace(buf);
        let this = &mut *self;
        let Some((rest, answered)) = &mut this.instead else {
            return Pin::new(&mut this.inner).poll_write(cx, buf);
        };
        while !rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => rest.advance(written),
            }
        }
        let answered = *answered;
        this.instead = None;
        Poll::Ready(Ok(answered))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match bufs {
            // A refusal has no body, so it is written alone.
            [only] => self.poll_write(cx, only),
            _ => Pin::new(&mut self.inner).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
