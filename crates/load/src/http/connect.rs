//! How connections are made.

use crate::failure::{Failure, Reason};
use futures_util::future::BoxFuture;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{
    fmt,
    io::{Error, ErrorKind},
    sync::Arc,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use url::Url;

/// A connection to a server.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// Name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// With TLS.
    pub tls: bool,
}

impl Server {
    /// Of a URL; `None` where it names none.
    #[must_use]
    pub fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
        Some(Self { host, port: url.port_or_known_default()?, tls: url.scheme() == "https" })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

/// Makes connections.
pub trait Connect: Send + Sync + 'static {
    /// Makes one.
    ///
    /// The future's errors: [`Reason::Refused`], [`Reason::Unreachable`], [`Reason::Tls`].
    fn connect(&self, server: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>>;
}

/// TCP, with TLS where asked for. Certificates are checked against those the system trusts.
pub struct Network {
    tls: Arc<ClientConfig>,
}

impl fmt::Debug for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Default for Network {
    fn default() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self { tls: Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()) }
    }
}

impl Connect for Network {
    fn connect(&self, server: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let tcp = TcpStream::connect((server.host.as_str(), server.port))
                .await
                .map_err(|error| failure(&server, &error))?;
            // A request is one small write; waiting for more of it would only add to what is measured.
            let _ = tcp.set_nodelay(true);
            if !server.tls {
                return Ok(Box::new(tcp) as Box<dyn Stream>);
            }
            let name = ServerName::try_from(server.host.clone())
                .map_err(|error| Failure::new(Reason::Tls, format!("{server}: {error}")))?;
            let tls = TlsConnector::from(tls).connect(name, tcp).await;
            Ok(Box::new(tls.map_err(|error| Failure::new(Reason::Tls, format!("{server}: {error}")))?))
        })
    }
}

fn failure(server: &Server, error: &Error) -> Failure {
    let reason = match error.kind() {
        ErrorKind::ConnectionRefused => Reason::Refused,
        _ => Reason::Unreachable,
    };
    Failure::new(reason, format!("{server}: {error}"))
}
