//! Connections over TCP and TLS.

use crate::failure::{Failure, Reason};
use futures_util::future::BoxFuture;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use std::{fmt, io::ErrorKind, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use url::Url;

/// The name of HTTP/2 over TLS (RFC 9113 §3.2).
const HTTP2: &[u8] = b"h2";

/// A connection to a server.
pub trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Stream for T {}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// The host name or IP address. An IPv6 address has no brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// True if the connection uses TLS.
    pub tls: bool,
}

impl Server {
    /// Returns the server of a URL, or `None` if the URL names no host.
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
    /// Connects to a server. The future fails with [`Reason::Refused`], [`Reason::Unreachable`] or
    /// [`Reason::Tls`].
    fn connect(&self, server: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>>;
}

/// The certificates that a client accepts.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// The certificates that the system trusts.
    #[default]
    System,
    /// The certificates that the system trusts, and these.
    SystemAnd(Vec<CertificateDer<'static>>),
    /// Any certificate. The connection is encrypted, but the server is not authenticated.
    Any,
}

impl Trust {
    /// Accepts the certificates in `pem` besides those that the system trusts.
    ///
    /// # Errors
    /// If `pem` holds no certificate, or a certificate that cannot be read.
    pub fn system_and(pem: &[u8]) -> Result<Self, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let found = found.map_err(|error| error.to_string())?;
        if found.is_empty() {
            return Err("the file holds no certificate".to_owned());
        }
        Ok(Self::SystemAnd(found))
    }
}

/// Makes connections over TCP, with TLS for `https`.
#[derive(Debug)]
pub struct Network {
    tls: Arc<ClientConfig>,
}

impl Network {
    /// Makes a network that connects to servers whose certificates `trust` accepts.
    ///
    /// # Errors
    /// If a certificate in `trust` cannot be used as a root, or TLS cannot be configured.
    pub fn new(trust: &Trust) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?;
        let config = match trust {
            Trust::Any => config.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider))),
            Trust::System | Trust::SystemAnd(_) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if let Trust::SystemAnd(more) = trust {
                    for certificate in more {
                        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
                    }
                }
                config.with_root_certificates(roots)
            }
        };
        Ok(Self { tls: Arc::new(config.with_no_client_auth()) })
    }

    /// Returns true if a server offers HTTP/2 over TLS (ALPN, RFC 7301). Opens a connection of its
    /// own for that, and closes it. Returns false if that fails.
    pub async fn offers_http2(&self, server: &Server) -> bool {
        let mut config = ClientConfig::clone(&self.tls);
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        let Ok(name) = ServerName::try_from(server.host.clone()) else { return false };
        let Ok(tcp) = TcpStream::connect((server.host.as_str(), server.port)).await else { return false };
        let stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
        stream.is_ok_and(|stream| stream.get_ref().1.alpn_protocol() == Some(HTTP2))
    }
}

/// Accepts any certificate. The server must still prove that it has the certificate's key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Connect for Network {
    fn connect(&self, server: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let tcp = TcpStream::connect((server.host.as_str(), server.port)).await.map_err(|error| {
                let is_refused = error.kind() == ErrorKind::ConnectionRefused;
                let reason = if is_refused { Reason::Refused } else { Reason::Unreachable };
                Failure::new(reason, format!("{server}: {error}"))
            })?;
            // A request is one small write. Delaying it would only add to the measured latency.
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
