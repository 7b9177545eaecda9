//! Credentials of a container, from the agent whose address the environment holds.
//!
//! `object_store` supports such agents too, but only with a token in a file, and only at an address
//! where no test can listen.
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>

use super::http::client::{Client, Failure};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::StatusCode;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use object_store::client::{HttpRequest, HttpRequestBody};
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::{Host, Url};

/// Address of the ECS agent.
pub(crate) const ECS: &str = "http://169.254.170.2";
/// Largest response of an agent, in bytes.
const MAX_DOCUMENT: usize = 64 * 1024;
/// Credentials are renewed when they are valid for no longer than this.
const RENEW_BEFORE: Duration = Duration::from_secs(300);
/// Minimum time between requests to an agent, if its credentials are about to expire or it fails
/// while valid credentials are cached.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Settings of the agent, from the environment.
#[derive(Default)]
pub(crate) struct AgentSettings {
    /// `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`, relative to [`ECS`].
    pub(crate) relative: Option<String>,
    /// `AWS_CONTAINER_CREDENTIALS_FULL_URI`.
    pub(crate) full: Option<String>,
    /// `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE`.
    pub(crate) token_file: Option<PathBuf>,
    /// `AWS_CONTAINER_AUTHORIZATION_TOKEN`.
    pub(crate) token: Option<String>,
}

impl AgentSettings {
    /// Returns the address of the agent. Without TLS, it must be an address of this machine or of a
    /// container service, because the request and the response contain secrets.
    fn address(&self, ecs: &str) -> Result<Url, String> {
        if let Some(path) = &self.relative {
            return Url::parse(&format!("{ecs}{path}")).map_err(|e| format!("relative URI: {e}"));
        }
        let full = self.full.as_deref().ok_or("no URI")?;
        let url = Url::parse(full).map_err(|e| format!("full URI: {e}"))?;
        let eks6 = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23);
        let services =
            [Ipv4Addr::new(169, 254, 170, 2).into(), Ipv4Addr::new(169, 254, 170, 23).into(), eks6.into()];
        let near = |ip: IpAddr| ip.is_loopback() || services.contains(&ip);
        let allowed = match (url.scheme(), url.host()) {
            ("https", Some(_)) => true,
            ("http", Some(Host::Ipv4(ip))) => near(ip.into()),
            ("http", Some(Host::Ipv6(ip))) => near(ip.into()),
            ("http", Some(Host::Domain(name))) => name == "localhost",
            _ => false,
        };
        if allowed {
            Ok(url)
        } else {
            Err("full URI: neither https nor an address of this machine".to_owned())
        }
    }
}

pub(crate) struct ContainerCredentials {
    client: Client,
    agent: AgentSettings,
    address: Url,
    cached: Mutex<Option<CachedCredential>>,
}

struct CachedCredential {
    credential: Arc<AwsCredential>,
    /// `None` if the credentials do not expire.
    expires: Option<Instant>,
    requested_at: Instant,
}

impl fmt::Debug for ContainerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerCredentials").finish_non_exhaustive()
    }
}

/// The reason why there are no credentials. It contains no secret.
#[derive(Debug, thiserror::Error)]
enum NoCredentials {
    #[error("the token cannot be read: {0}")]
    Token(std::io::Error),
    #[error("the token is not a valid header")]
    TokenText,
    #[error("the agent cannot be asked")]
    Failure(#[from] Failure),
    /// Not a [`Failure`], which would mean that the object is missing or access to it denied.
    #[error("the agent answered {0}")]
    Refused(StatusCode),
    #[error("{0}")]
    Document(serde_json::Error),
    #[error("the request cannot be made: {0}")]
    Request(http::Error),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Document {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl ContainerCredentials {
    /// Creates the provider; `ecs` is the base of relative addresses.
    ///
    /// # Errors
    /// A message that says which setting of the environment is wrong.
    pub(crate) fn new(client: Client, agent: AgentSettings, ecs: &str) -> Result<Self, String> {
        let address = agent.address(ecs)?;
        Ok(Self { client, agent, address, cached: Mutex::new(None) })
    }

    async fn get(&self) -> Result<Arc<AwsCredential>, NoCredentials> {
        // The lock is held during the request, so that one request serves all readers that wait.
        let mut cached = self.cached.lock().await;
        if let Some(cached) = &*cached
            && (cached.left() > RENEW_BEFORE
                || cached.left() > Duration::ZERO && cached.requested_at.elapsed() < MIN_INTERVAL)
        {
            return Ok(Arc::clone(&cached.credential));
        }
        let requested_at = Instant::now();
        let response = self.request().await.and_then(|bytes| parse(&bytes, requested_at));
        match (response, &mut *cached) {
            (Ok(new), cached) => Ok(Arc::clone(&cached.insert(new).credential)),
            (Err(error), Some(old)) if old.left() > Duration::ZERO => {
                tracing::warn!(%error, "credentials cannot be renewed yet, using the current ones");
                old.requested_at = Instant::now();
                Ok(Arc::clone(&old.credential))
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn request(&self) -> Result<Bytes, NoCredentials> {
        let mut request =
            http::Request::builder().uri(self.address.as_str()).header(ACCEPT, "application/json");
        let token = match (&self.agent.token_file, &self.agent.token) {
            // The file is rewritten from time to time, so it is read each time.
            (Some(file), _) => Some(tokio::fs::read_to_string(file).await.map_err(NoCredentials::Token)?),
            (None, token) => token.clone(),
        };
        if let Some(token) = token {
            let mut token = HeaderValue::from_str(token.trim()).map_err(|_| NoCredentials::TokenText)?;
            token.set_sensitive(true);
            request = request.header(AUTHORIZATION, token);
        }
        let request: HttpRequest = request.body(HttpRequestBody::empty()).map_err(NoCredentials::Request)?;
        let response = self.client.document(request, MAX_DOCUMENT).await?;
        if !response.status().is_success() {
            return Err(NoCredentials::Refused(response.status()));
        }
        Ok(response.into_body())
    }
}

impl CachedCredential {
    fn left(&self) -> Duration {
        self.expires.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }
}

/// Parses the response of an agent. Its date is compared with the clock once.
fn parse(document: &[u8], requested_at: Instant) -> Result<CachedCredential, NoCredentials> {
    let document: Document = serde_json::from_slice(document).map_err(NoCredentials::Document)?;
    let expires = document.expiration.map(|date| requested_at + time_until(&date));
    let credential = Arc::new(AwsCredential {
        key_id: document.access_key_id,
        secret_key: document.secret_access_key,
        token: document.token,
    });
    Ok(CachedCredential { credential, expires, requested_at })
}

/// Returns the time until a date, or zero if it has passed or is not a date.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock is read once, when the date arrives; later times are monotonic"
)]
fn time_until(date: &str) -> Duration {
    let Ok(date) = chrono::DateTime::parse_from_rfc3339(date) else { return Duration::ZERO };
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let at = Duration::from_secs(u64::try_from(date.timestamp()).unwrap_or(0));
    // An `Instant` cannot be arbitrarily far away.
    at.saturating_sub(since_1970).min(Duration::from_secs(365 * 24 * 3600))
}

impl CredentialProvider for ContainerCredentials {
    type Credential = AwsCredential;

    fn get_credential<'life, 'future>(
        &'life self,
    ) -> BoxFuture<'future, object_store::Result<Arc<AwsCredential>>>
    where
        'life: 'future,
        Self: 'future,
    {
        let wrapped =
            |error: NoCredentials| object_store::Error::Generic { store: "S3", source: error.into() };
        async move { self.get().await.map_err(wrapped) }.boxed()
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
