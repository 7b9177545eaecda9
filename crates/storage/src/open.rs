//! From the location that a user writes to a storage.

use crate::backend::container::{AgentSettings, ContainerCredentials, ECS};
use crate::backend::http::{client::Client, retry::Account};
use crate::backend::object::{Connector, no_retries};
use crate::options::{AccessKeys, Options};
use crate::settings::{check_headers, endpoint};
use crate::{Bucket, Folder, HttpServer, Key, Mirrored, Storage, StorageClient};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientConfigKey, ObjectStore, StaticCredentialProvider, list::PaginatedListStore};
use percent_encoding::percent_decode_str;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// A location that cannot be opened. The messages contain no secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder does not exist or cannot be read.
    #[error("{path}: {error}")]
    Folder {
        /// Path as the user wrote it.
        path: String,
        /// Cause of the failure.
        error: std::io::Error,
    },
    /// The text is not a valid location.
    #[error("{0}")]
    Location(String),
    /// The settings of the service do not fit together.
    #[error("{name}: {detail}")]
    Settings {
        /// Address of the bucket.
        name: String,
        /// Description of the problem.
        detail: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(rustls::Error),
}

/// Opens a storage: a folder, `file:///folder`, `http(s)://host/path/`, `s3://bucket/prefix`,
/// `gs://bucket/prefix` or `az://container/prefix`. This blocks on the disk but not on the network,
/// so do it at start.
///
/// # Errors
/// [`OpenError`] if the location is invalid. A missing server or missing permissions show with the
/// first read.
pub fn open(location: &str, options: &Options) -> Result<Arc<dyn Storage>, OpenError> {
    // Commands read a few objects, and places that files refer to are many.
    Ok(Arc::new(open_client(location, &Options { connections_ahead: 0, ..options.clone() })?))
}

/// Opens a storage to be served: like [`open`], but together with the mirrors that the options
/// name, and with connections that are opened ahead.
///
/// # Errors
/// [`OpenError`] for the same causes as [`open`].
pub fn open_mirrored(location: &str, options: &Options) -> Result<Arc<dyn Storage>, OpenError> {
    let own = open_client(location, options)?;
    let mirrors = options.mirror.iter().map(|mirror| open_client(&mirror.location, &mirror.over(options)));
    let mirrors = mirrors.collect::<Result<Vec<_>, _>>()?;
    Ok(if mirrors.is_empty() { Arc::new(own) } else { Arc::new(Mirrored::new(own, mirrors)) })
}

fn open_client(location: &str, options: &Options) -> Result<StorageClient, OpenError> {
    let account = Arc::new(Account::new(options));
    let (inner, bounded): (Arc<dyn Storage>, bool) = match address(location)? {
        None => (folder(Path::new(location))?, false),
        Some(url) => match url.scheme() {
            "file" => (folder(&local_path(&url)?)?, false),
            "http" | "https" => (Arc::new(HttpServer::new(&url, client(options, &account)?)), true),
            "s3" | "gs" | "az" => (Arc::new(any_bucket(&url, options, &account)?), true),
            scheme => return Err(unknown_scheme(scheme)),
        },
    };
    Ok(StorageClient::over(inner, account, options, bounded))
}

/// Checks a location without a connection: its form, and whether a local folder exists.
///
/// # Errors
/// [`OpenError::Location`] for another form than those of [`open`], and [`OpenError::Folder`] for a
/// folder that cannot be opened.
pub fn check_location(location: &str) -> Result<(), OpenError> {
    match address(location)? {
        None => folder(Path::new(location)).map(drop),
        Some(url) => match url.scheme() {
            "file" => folder(&local_path(&url)?).map(drop),
            "http" | "https" | "s3" | "gs" | "az" => Ok(()),
            scheme => Err(unknown_scheme(scheme)),
        },
    }
}

fn unknown_scheme(scheme: &str) -> OpenError {
    let detail = "not a path, file://, http://, https://, s3://, gs:// or az://";
    OpenError::Location(format!("{scheme}://: {detail}"))
}

fn client(options: &Options, account: &Arc<Account>) -> Result<Client, OpenError> {
    Client::new(options, Arc::clone(account)).map_err(OpenError::Tls)
}

/// Opens an `s3://` location as a bucket, which tests can fill.
///
/// # Errors
/// [`OpenError`] for the same causes as [`open`].
#[cfg(any(test, feature = "testing"))]
pub fn open_bucket(location: &str, options: &Options) -> Result<Bucket, OpenError> {
    let account = Arc::new(Account::new(options));
    s3(&address(location)?.ok_or_else(|| OpenError::Location("no address".to_owned()))?, options, &account)
}

/// Opens the storage of an object and returns it with the object's key. The location is one such as
/// `./film.mp4`, `https://host/vod/film.mp4` or `s3://bucket/film.mp4`, or a local folder.
///
/// # Errors
/// [`OpenError`] for the same causes as [`open`], and if the location names no object.
pub fn open_object(location: &str, options: &Options) -> Result<(Arc<dyn Storage>, Key), OpenError> {
    let nameless = || OpenError::Location(format!("{}: names no object", without_secrets(location)));
    let path = match address(location)? {
        None => Path::new(location).to_owned(),
        Some(url) if url.scheme() == "file" => local_path(&url)?,
        Some(mut url) => {
            let key = split_name(&mut url).ok_or_else(nameless)?;
            return Ok((open(url.as_str(), options)?, key));
        }
    };
    // The target of a link counts, not the folder that contains the link.
    let failed = |error| OpenError::Folder { path: location.to_owned(), error };
    let path = path.canonicalize().map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?;
    let key = Key::root().join(name).ok_or_else(nameless)?;
    Ok((folder(path.parent().ok_or_else(nameless)?)?, key))
}

/// Removes the last component of an address and returns it as a key, if it is a valid name.
pub(crate) fn split_name(url: &mut Url) -> Option<Key> {
    let last = url.path().rsplit('/').next().unwrap_or_default().to_owned();
    let name = percent_decode_str(&last).decode_utf8().ok()?;
    let key = Key::root().join(&name)?;
    let folder = url.path().strip_suffix(&last)?.to_owned();
    url.set_path(&folder);
    Some(key)
}

/// Parses an address. Returns `None` if the location is a path.
pub(crate) fn address(location: &str) -> Result<Option<Url>, OpenError> {
    if !location.contains("://") {
        if let Some((scheme @ ("http" | "https" | "s3" | "gs" | "az"), rest)) = location.split_once(':')
            && !Path::new(location).exists()
        {
            let rest = rest.trim_start_matches('/');
            return Err(OpenError::Location(format!("{location}: write {scheme}://{rest}")));
        }
        return Ok(None);
    }
    let url = Url::parse(location)
        .map_err(|e| OpenError::Location(format!("{}: {e}", without_secrets(location))))?;
    if !url.username().is_empty() || url.password().is_some() {
        let detail = "an address must not contain credentials";
        return Err(OpenError::Location(format!("{}: {detail}", without_secrets(location))));
    }
    Ok(Some(url))
}

/// Returns a location without its possibly secret parts: user, password and query.
pub fn without_secrets(location: &str) -> String {
    let location = location.split(['?', '#']).next().unwrap_or_default();
    match location.split_once("://") {
        None => location.to_owned(),
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
    }
}

pub(crate) fn folder(path: &Path) -> Result<Arc<Folder>, OpenError> {
    if path.is_file() {
        let detail = "is a file; name the folder it is in";
        return Err(OpenError::Location(format!("{} {detail}", path.display())));
    }
    let failed = |error| OpenError::Folder { path: path.display().to_string(), error };
    Ok(Arc::new(Folder::new(path).map_err(failed)?))
}

pub(crate) fn local_path(url: &Url) -> Result<std::path::PathBuf, OpenError> {
    url.to_file_path().map_err(|()| OpenError::Location(format!("{url}: not the address of a local folder")))
}

pub(crate) fn any_bucket(url: &Url, options: &Options, account: &Arc<Account>) -> Result<Bucket, OpenError> {
    match url.scheme() {
        "gs" => {
            let mut builder = GoogleCloudStorageBuilder::from_env();
            if let Some(address) = builder.get_config_value(&GoogleConfigKey::BaseUrl) {
                builder = builder.with_base_url(endpoint("GOOGLE_BASE_URL", &address)?);
            }
            bucket(url, client(options, account)?, |connector, name| {
                builder.with_bucket_name(name).with_http_connector(connector).with_retry(no_retries()).build()
            })
        }
        "az" => {
            let mut builder = MicrosoftAzureBuilder::from_env();
            let value = |key: AzureConfigKey| builder.get_config_value(&key);
            let is_emulator = value(AzureConfigKey::UseEmulator).is_some_and(|value| value == "true");
            if value(AzureConfigKey::AccountName).is_none() && !is_emulator {
                let detail = "AZURE_STORAGE_ACCOUNT_NAME is not set: it names the storage account".to_owned();
                return Err(OpenError::Settings { name: without_secrets(url.as_str()), detail });
            }
            if let Some(address) = builder.get_config_value(&AzureConfigKey::Endpoint) {
                builder = builder.with_endpoint(endpoint("AZURE_STORAGE_ENDPOINT", &address)?.to_owned());
            }
            bucket(url, client(options, account)?, |connector, name| {
                builder
                    .with_container_name(name)
                    .with_http_connector(connector)
                    .with_retry(no_retries())
                    .build()
            })
        }
        _ => s3(url, options, account),
    }
}

fn bucket<S: ObjectStore + PaginatedListStore>(
    url: &Url,
    client: Client,
    build: impl FnOnce(Connector, &str) -> object_store::Result<S>,
) -> Result<Bucket, OpenError> {
    let name = without_secrets(url.as_str());
    let settings = |detail: String| OpenError::Settings { name: name.clone(), detail };
    let container = url.host_str().ok_or_else(|| settings("no bucket".to_owned()))?;
    let prefix = percent_decode_str(url.path()).decode_utf8().map_err(|e| settings(e.to_string()))?;
    let prefix = Key::new(prefix.trim_matches('/'))
        .ok_or_else(|| settings("the path is not a valid prefix of keys".to_owned()))?;
    let service = build(Connector(client.clone()), container).map_err(|e| settings(e.to_string()))?;
    Ok(Bucket::new(service, prefix, name, client))
}

fn s3(url: &Url, options: &Options, account: &Arc<Account>) -> Result<Bucket, OpenError> {
    let settings =
        |detail: &str| OpenError::Settings { name: without_secrets(url.as_str()), detail: detail.to_owned() };
    let client = client(options, account)?;
    let mut builder = AmazonS3Builder::from_env();
    if let Some(address) = &options.s3_endpoint {
        // This key takes precedence over the other variable of the environment.
        let address = endpoint("the S3 endpoint", address)?;
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, address);
    } else if let Some(address) = builder
        .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
    {
        let address = endpoint("AWS_ENDPOINT_URL", &address)?;
        let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
        if address.starts_with("http://") && allowed.as_deref() != Some("true") {
            return Err(settings(
                "the endpoint in the environment has no TLS, and AWS_ALLOW_HTTP is not set",
            ));
        }
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, address);
    }
    if let Some(region) = &options.s3_region {
        builder = builder.with_region(region);
    }
    check_headers(&builder)?;
    if let Some(AccessKeys { id, secret }) = &options.s3.keys {
        let keys = AwsCredential { key_id: id.clone(), secret_key: secret.clone(), token: None };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(keys)));
    } else if let Some(agent) = agent(&builder) {
        let ecs = options.s3.container_endpoint.as_deref().unwrap_or(ECS);
        let container = ContainerCredentials::new(client.clone(), agent, ecs);
        builder = builder.with_credentials(Arc::new(container.map_err(|e| settings(&e))?));
    }
    if let Some(metadata_endpoint) = &options.s3.metadata_endpoint {
        builder = builder.with_metadata_endpoint(metadata_endpoint);
    }
    bucket(url, client, |connector, name| {
        builder.with_bucket_name(name).with_http_connector(connector).with_retry(no_retries()).build()
    })
}

/// Returns the container's agent if the environment names one, and neither keys nor a web identity,
/// which take precedence.
fn agent(builder: &AmazonS3Builder) -> Option<AgentSettings> {
    let setting = |key: AmazonS3ConfigKey| builder.get_config_value(&key).filter(|value| !value.is_empty());
    let keys = setting(AmazonS3ConfigKey::AccessKeyId).or(setting(AmazonS3ConfigKey::SecretAccessKey));
    let identity = setting(AmazonS3ConfigKey::WebIdentityTokenFile).and(setting(AmazonS3ConfigKey::RoleArn));
    let agent = AgentSettings {
        relative: setting(AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
        full: setting(AmazonS3ConfigKey::ContainerCredentialsFullUri),
        token_file: setting(AmazonS3ConfigKey::ContainerAuthorizationTokenFile).map(Into::into),
        token: std::env::var("AWS_CONTAINER_AUTHORIZATION_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    let named = agent.relative.is_some() || agent.full.is_some();
    (keys.is_none() && identity.is_none() && named).then_some(agent)
}
