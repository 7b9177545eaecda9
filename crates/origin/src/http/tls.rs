//! TLS: certificate and key, and the protocols offered by ALPN.

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Certificate and key of a listener. ALPN offers HTTP/2 and HTTP/1.1. Clones are replaced
/// together.
#[derive(Clone)]
pub struct Tls(Arc<ArcSwap<ServerConfig>>);

/// The certificate or the key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file is not PEM, or holds something else.
    #[error("{0}: not readable as PEM: {1}")]
    Pem(&'static str, rustls::pki_types::pem::Error),
    /// The certificate file holds no certificate.
    #[error("no certificate in the certificate file")]
    NoCertificate,
    /// The key is that of another certificate.
    #[error("the key does not belong to the certificate")]
    Mismatch,
    /// The certificate or the key is of an unsupported kind.
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
            .with_single_cert(chain, key)
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
                other => TlsError::Rustls(other),
            })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(ArcSwap::from_pointee(config))))
    }

    /// Replaces the certificate and the key for new connections. Open ones go on with the old
    /// certificate.
    pub fn replace(&self, new: &Self) {
        self.0.store(new.0.load_full());
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load_full())
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
