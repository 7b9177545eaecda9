//! Requests to key servers. A response is small, must arrive soon, and is not trusted.

use crate::{
    Error,
    config::{DrmRule, KeysConfig},
    keys::access::from_env,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use latemux_protect::document::MAX_BYTES;
use latemux_storage::AwsSigner;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{fmt, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

/// Longest time from connecting to the last byte of a response.
const WAIT: Duration = Duration::from_secs(5);
/// Service of AWS for which requests are signed: the one in front of key servers.
const AWS_SERVICE: &str = "execute-api";
/// Most requests of a rule that are under way.
const MAX_REQUESTS: usize = 8;

/// The client of a key server.
pub(super) struct KeyServer {
    tls: TlsConnector,
    headers: HeaderMap,
    signer: Option<AwsSigner>,
    requests: Semaphore,
}

impl KeyServer {
    /// Reads headers, certificates and their key.
    ///
    /// # Errors
    /// A sentence for the operator, without a secret.
    pub(super) fn new(config: &KeysConfig) -> Result<Self, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let named =
                HeaderName::try_from(name).map_err(|_| format!("'{name}' is not the name of a header"))?;
            let value = match value.starts_with(DrmRule::ENV) {
                true => from_env(value, 1, "header")?,
                false => value.clone(),
            };
            let value = HeaderValue::try_from(value).map(|mut value| {
                value.set_sensitive(true);
                value
            });
            let problem = || format!("the header {name} has a value that headers cannot have");
            headers.insert(named, value.map_err(|_| problem())?);
        }
        let tls = TlsConnector::from(Arc::new(tls_of(config)?));
        let region = config.aws_region.as_deref();
        let signer = region.map(|region| AwsSigner::from_env(AWS_SERVICE, region)).transpose()?;
        Ok(Self { tls, headers, signer, requests: Semaphore::new(MAX_REQUESTS) })
    }

    /// Requests a document: by POST if there is a body, else by GET.
    ///
    /// # Errors
    /// [`Error::KeysUnavailable`] if the server is slow, down, or says that it failed,
    /// [`Error::KeysDenied`] if it refuses or redirects, [`Error::KeysMalformed`] for a response
    /// that is too long or no text.
    pub(super) async fn request(&self, uri: &Uri, body: Option<String>) -> Result<Zeroizing<String>, Error> {
        let requested = async {
            let _permit = self.requests.acquire().await.map_err(|_| Error::KeysUnavailable)?;
            self.request_now(uri, body).await
        };
        timeout(WAIT, requested).await.unwrap_or(Err(Error::KeysUnavailable))
    }

    async fn request_now(&self, uri: &Uri, body: Option<String>) -> Result<Zeroizing<String>, Error> {
        let host = uri.host().ok_or(Error::KeysUnavailable)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(|_| Error::KeysUnavailable)?;
        if !is_tls {
            return self.exchange(stream, uri, body).await;
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Error::KeysUnavailable)?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| {
            tracing::warn!(host, "no TLS connection to the key server: {error}");
            Error::KeysUnavailable
        })?;
        self.exchange(stream, uri, body).await
    }

    async fn exchange<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        uri: &Uri,
        body: Option<String>,
    ) -> Result<Zeroizing<String>, Error> {
        let unavailable = |_| Error::KeysUnavailable;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unavailable)?;
        // Dropped with the response, which ends the connection.
        let connection = AbortOnDrop(tokio::spawn(connection));
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::builder()
            .uri(path)
            .header(header::HOST, authority)
            .header(header::USER_AGENT, concat!("latemux/", env!("CARGO_PKG_VERSION")));
        if body.is_some() {
            request = request
                .method(Method::POST)
                .header(header::CONTENT_TYPE, "application/xml")
                .header("x-speke-version", "2.0");
        }
        let body = Bytes::from(body.unwrap_or_default());
        let mut request = request.body(Full::new(body.clone())).map_err(|_| Error::KeysUnavailable)?;
        request.headers_mut().extend(self.headers.clone());
        if let Some(signer) = &self.signer {
            // Only what no proxy changes is signed.
            let kind = request.headers().get(header::CONTENT_TYPE).cloned();
            let kind = kind.map(|kind| (header::CONTENT_TYPE, kind)).into_iter().collect();
            let signed = signer.sign(request.method().clone(), uri, kind, body).map_err(|problem| {
                tracing::warn!(host = authority, "the request for keys cannot be signed: {problem}");
                Error::KeysUnavailable
            })?;
            request.headers_mut().extend(signed);
        }
        let response = sender.send_request(request).await.map_err(unavailable)?;
        let status = response.status();
        if status != StatusCode::OK {
            tracing::warn!(host = authority, %status, "the key server refused a request for keys");
            let failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(if failed { Error::KeysUnavailable } else { Error::KeysDenied });
        }
        let text = read(response.into_body()).await;
        drop(connection);
        text
    }
}

/// Reads a body, up to the most bytes of a document.
async fn read(mut body: hyper::body::Incoming) -> Result<Zeroizing<String>, Error> {
    let mut bytes = Zeroizing::new(Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::KeysUnavailable)?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > MAX_BYTES {
            return Err(Error::KeysMalformed("the document is longer than 1 MiB".to_owned()));
        }
        bytes.extend_from_slice(data);
    }
    let text = String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new);
    text.map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        Error::KeysMalformed("the document is not UTF-8".to_owned())
    })
}

struct AbortOnDrop(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the settings of TLS: the authorities of the system, that of `ca`, and the certificate of
/// this client.
fn tls_of(config: &KeysConfig) -> Result<ClientConfig, String> {
    let named = |path: &Path, problem: &str| format!("{}: {problem}", path.display());
    let certificates = |path: &Path| {
        let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let found = found.ok().filter(|found| !found.is_empty());
        found.ok_or_else(|| named(path, "cannot be read as certificates (PEM)"))
    };
    let mut roots = RootCertStore::empty();
    let trusted = match &config.ca {
        Some(path) => certificates(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    // Certificates of the system that cannot be read are not trusted.
    let _ = roots.add_parsable_certificates(trusted);
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_| "TLS has no protocol version".to_owned())?
        .with_root_certificates(roots);
    match (&config.client_cert, &config.client_key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => {
            let secret = PrivateKeyDer::from_pem_file(key)
                .map_err(|_| named(key, "cannot be read as a private key (PEM)"))?;
            builder
                .with_client_auth_cert(certificates(cert)?, secret)
                .map_err(|_| named(cert, "does not fit the private key"))
        }
        _ => Err("client_cert and client_key are needed together".to_owned()),
    }
}

impl fmt::Debug for KeyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyServer").finish_non_exhaustive()
    }
}
