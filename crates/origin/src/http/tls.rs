//! TLS: certificate and key, and the protocols offered by ALPN.

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What a TLS listener needs: HTTP/2 and HTTP/1.1 are offered.
#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
}

/// Certificates or a key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not PEM, or not what it should be.
    #[error("{0}: not readable as PEM: {1}")]
    Pem(&'static str, rustls::pki_types::pem::Error),
    /// No certificate in it.
    #[error("no certificate in the certificate file")]
    NoCertificate,
    /// Key and certificate do not fit, or are of a kind not supported.
    #[error(transparent)]
    Rustls(#[from] rustls::Error),
}

impl Tls {
    /// From a certificate chain and its private key, both PEM.
    ///
    /// # Errors
    /// See [`TlsError`].
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
