//! How connections are made.

use crate::failure::{Failure, Reason};
use futures_util::future::BoxFuture;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
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

/// Whose certificates are good.
#[derive(Debug, Clone, Default)]
pub enum Trust {
    /// Those the system trusts.
    #[default]
    System,
    /// These too.
    SystemAnd(Vec<CertificateDer<'static>>),
    /// Any at all: the connection is encrypted, and nobody knows to whom.
    Any,
}

impl Trust {
    /// Certificates in PEM beside those the system trusts.
    ///
    /// # Errors
    /// Where there is none, or something that is none.
    pub fn system_and(pem: &[u8]) -> Result<Self, String> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let found = found.map_err(|error| error.to_string())?;
        if found.is_empty() {
            return Err("no certificate in it".to_owned());
        }
        Ok(Self::SystemAnd(found))
    }
}

/// TCP, with TLS where asked for.
pub struct Network {
    tls: Arc<ClientConfig>,
}

impl fmt::Debug for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// Connections to servers whose certificates are good.
    ///
    /// # Errors
    /// Where a certificate to trust cannot be one.
    pub fn new(trust: &Trust) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let config = config.map_err(|error| error.to_string())?;
        let config = match trust {
            Trust::Any => config.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider))),
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
}

/// Takes any certificate for good; whoever shows it must have its key all the same.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
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
