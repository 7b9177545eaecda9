//! TLS: certificate and key, and the protocols offered by ALPN.

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Certificate and key of a listener. ALPN offers HTTP/2 and HTTP/1.1.
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
}

/// The certificate or the key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is not PEM, or holds something else.
    #[error("{0}: not readable as PEM: {1}")]
    Pem(&'static str, rustls::pki_types::pem::Error),
    /// The certificate file holds no certificate.
    #[error("no certificate in the certificate file")]
    NoCertificate,
    /// Key and certificate do not match, or are of an unsupported kind.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// Reads a certificate chain and its private key, both in PEM.
    ///
    /// # Errors
    /// Returns a [`TlsError`] if one of the two cannot be used, or if they do not match.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| TlsError::Pem("certificate", error))?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Pem("key", error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
