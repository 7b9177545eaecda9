//! From what a user writes to a storage.

use crate::backend::container::{Agent, ContainerCredentials, ECS};
use crate::backend::http::{client::Client, retry::Account};
use crate::backend::object::{Connector, no_retries};
use crate::options::{AccessKeys, Options};
use crate::{Bucket, Folder, HttpServer, Key, Storage, StorageClient};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ClientConfigKey, ObjectStore, StaticCredentialProvider, list::PaginatedListStore};
use percent_encoding::percent_decode_str;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// A location that cannot be opened. The messages hold no secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No folder, or one that cannot be read.
    #[error("{path}: {source}")]
    Folder {
        /// As written.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not written as a location is.
    #[error("{0}")]
    Location(String),
    /// The service's settings do not fit together.
    #[error("{name}: {detail}")]
    Settings {
        /// The bucket.
        name: String,
        /// Why.
        detail: String,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Opens a place to read from: a folder, `file:///folder`, `http(s)://host/path/`, `s3://bucket/prefix`,
/// `gs://bucket/prefix` or `az://container/prefix`. Touches the disk, not the network: call it at start.
///
/// # Errors
/// Where the location cannot be one. That a server is there and lets us in shows with the first read.
pub fn open(location: &str, options: &Options) -> Result<Arc<dyn Storage>, OpenError> {
    let account = Arc::new(Account::new(options));
    let (inner, bounded): (Arc<dyn Storage>, bool) = match address(location)? {
        None => (folder(Path::new(location))?, false),
        Some(url) => match url.scheme() {
            "file" => (folder(&local(&url)?)?, false),
            "http" | "https" => (Arc::new(HttpServer::new(&url, client(options, &account)?)), true),
            "s3" | "gs" | "az" => (Arc::new(any_bucket(&url, options, &account)?), true),
            scheme => {
                let detail = "not one of file, http, https, s3, gs, az";
                return Err(OpenError::Location(format!("{scheme}: {detail}")));
            }
        },
    };
    Ok(Arc::new(StorageClient::over(inner, account, options, bounded)))
}

fn client(options: &Options, account: &Arc<Account>) -> Result<Client, OpenError> {
    Ok(Client::new(options, Arc::clone(account))?)
}

/// Opens an `s3://` location as what it is: tests fill it.
///
/// # Errors
/// As [`open`].
#[cfg(any(test, feature = "testing"))]
pub fn open_bucket(location: &str, options: &Options) -> Result<Bucket, OpenError> {
    let account = Arc::new(Account::new(options));
    s3(&address(location)?.ok_or_else(|| OpenError::Location("no address".to_owned()))?, options, &account)
}

/// Opens the place an object lies in, and its key there: what `./film.mp4`, `https://host/vod/film.mp4` and
/// `s3://bucket/film.mp4` name. A local folder is named likewise.
///
/// # Errors
/// As [`open`], and where the location names no object.
pub fn open_object(location: &str, options: &Options) -> Result<(Arc<dyn Storage>, Key), OpenError> {
    let nameless = || OpenError::Location(format!("{}: names no object", shown(location)));
    let path = match address(location)? {
        None => Path::new(location).to_owned(),
        Some(url) if url.scheme() == "file" => local(&url)?,
        Some(mut url) => {
            let key = split_name(&mut url).ok_or_else(nameless)?;
            return Ok((open(url.as_str(), options)?, key));
        }
    };
    // Where a link leads is what the user means; the folder around it is not.
    let failed = |source| OpenError::Folder { path: location.to_owned(), source };
    let path = path.canonicalize().map_err(failed)?;
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nameless)?;
    let key = Key::root().join(name).ok_or_else(nameless)?;
    Ok((folder(path.parent().ok_or_else(nameless)?)?, key))
}

/// Takes the last component off an address. `None` where it is no name.
pub(crate) fn split_name(url: &mut Url) -> Option<Key> {
    let last = url.path().rsplit('/').next().unwrap_or_default().to_owned();
    let name = percent_decode_str(&last).decode_utf8().ok()?;
    let key = Key::root().join(&name)?;
    let folder = url.path().strip_suffix(&last)?.to_owned();
    url.set_path(&folder);
    Some(key)
}

/// `None` where the location is a path.
pub(crate) fn address(location: &str) -> Result<Option<Url>, OpenError> {
    if !location.contains("://") {
        return Ok(None);
    }
    let url = Url::parse(location).map_err(|e| OpenError::Location(format!("{}: {e}", shown(location))))?;
    if !url.username().is_empty() || url.password().is_some() {
        let detail = "credentials do not belong in an address";
        return Err(OpenError::Location(format!("{}: {detail}", shown(location))));
    }
    Ok(Some(url))
}

/// A location without what may be secret in it: user, password and query.
pub(crate) fn shown(location: &str) -> String {
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

fn folder(path: &Path) -> Result<Arc<Folder>, OpenError> {
    let failed = |source| OpenError::Folder { path: path.display().to_string(), source };
    Ok(Arc::new(Folder::new(path).map_err(failed)?))
}

pub(crate) fn local(url: &Url) -> Result<std::path::PathBuf, OpenError> {
    url.to_file_path().map_err(|()| OpenError::Location(format!("{url}: not the address of a local folder")))
}

/// Opens what `s3://`, `gs://` or `az://` names.
pub(crate) fn any_bucket(url: &Url, options: &Options, account: &Arc<Account>) -> Result<Bucket, OpenError> {
    match url.scheme() {
        "gs" => bucket(url, client(options, account)?, |connector, name| {
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(name)
                .with_http_connector(connector)
                .with_retry(no_retries())
                .build()
        }),
        "az" => bucket(url, client(options, account)?, |connector, name| {
            MicrosoftAzureBuilder::from_env()
                .with_container_name(name)
                .with_http_connector(connector)
                .with_retry(no_retries())
                .build()
        }),
        _ => s3(url, options, account),
    }
}

/// Opens `scheme://bucket/prefix`.
fn bucket<S: ObjectStore + PaginatedListStore>(
    url: &Url,
    client: Client,
    build: impl FnOnce(Connector, &str) -> object_store::Result<S>,
) -> Result<Bucket, OpenError> {
    let name = shown(url.as_str());
    let settings = |detail: String| OpenError::Settings { name: name.clone(), detail };
    let container = url.host_str().ok_or_else(|| settings("no bucket".to_owned()))?;
    let prefix = percent_decode_str(url.path()).decode_utf8().map_err(|e| settings(e.to_string()))?;
    let prefix =
        Key::new(prefix.trim_matches('/')).ok_or_else(|| settings("no prefix of keys".to_owned()))?;
    let service = build(Connector(client.clone()), container).map_err(|e| settings(e.to_string()))?;
    Ok(Bucket::new(service, prefix, name, client))
}

fn s3(url: &Url, options: &Options, account: &Arc<Account>) -> Result<Bucket, OpenError> {
    let settings =
        |detail: &str| OpenError::Settings { name: shown(url.as_str()), detail: detail.to_owned() };
    let client = client(options, account)?;
    let mut builder = AmazonS3Builder::from_env();
    if let Some(endpoint) = &options.s3_endpoint {
        // The option is passed under the name that wins over the other variable of the environment.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    } else {
        let from_environment = builder
            .get_config_value(&AmazonS3ConfigKey::S3Endpoint)
            .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint));
        let allowed = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
        if from_environment.is_some_and(|endpoint| endpoint.starts_with("http://"))
            && allowed.as_deref() != Some("true")
        {
            return Err(settings(
                "the endpoint in the environment has no TLS, and AWS_ALLOW_HTTP is not set",
            ));
        }
    }
    if let Some(region) = &options.s3_region {
        builder = builder.with_region(region);
    }
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

/// The container's agent, where the environment names one and neither keys nor a web identity, which come first.
fn agent(builder: &AmazonS3Builder) -> Option<Agent> {
    let setting = |key: AmazonS3ConfigKey| builder.get_config_value(&key).filter(|value| !value.is_empty());
    let keys = setting(AmazonS3ConfigKey::AccessKeyId).or(setting(AmazonS3ConfigKey::SecretAccessKey));
    let identity = setting(AmazonS3ConfigKey::WebIdentityTokenFile).and(setting(AmazonS3ConfigKey::RoleArn));
    let agent = Agent {
        relative: setting(AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
        full: setting(AmazonS3ConfigKey::ContainerCredentialsFullUri),
        token_file: setting(AmazonS3ConfigKey::ContainerAuthorizationTokenFile).map(Into::into),
        token: std::env::var("AWS_CONTAINER_AUTHORIZATION_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    let named = agent.relative.is_some() || agent.full.is_some();
    (keys.is_none() && identity.is_none() && named).then_some(agent)
}
