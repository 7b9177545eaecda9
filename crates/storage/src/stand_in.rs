//! GCS and Azure at an address chosen by a test, for lack of servers to test against.

use crate::backend::http::{client::Client, retry::Account};
use crate::backend::object::{Connector, no_retries};
use crate::{Bucket, Key, OpenError, Options, Storage, StorageClient};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use std::sync::Arc;

/// Opens `gs://bucket/prefix` as if GCS were at `endpoint` (`http://host:port`).
///
/// # Errors
/// [`OpenError`] for the same causes as [`crate::open()`].
pub fn google(
    endpoint: &str,
    bucket: &str,
    prefix: &Key,
    options: &Options,
) -> Result<Arc<dyn Storage>, OpenError> {
    around(options, format!("gs://{bucket}/{prefix}"), |client, name| {
        let service = GoogleCloudStorageBuilder::new()
            .with_bucket_name(bucket)
            .with_base_url(endpoint)
            .with_bearer_token("token")
            .with_http_connector(Connector(client.clone()))
            .with_retry(no_retries())
            .build()?;
        Ok(Bucket::new(service, prefix.clone(), name, client))
    })
}

/// Opens `az://container/prefix` as if Azure were at `endpoint` (`http://host:port`).
///
/// # Errors
/// [`OpenError`] for the same causes as [`crate::open()`].
pub fn azure(
    endpoint: &str,
    container: &str,
    prefix: &Key,
    options: &Options,
) -> Result<Arc<dyn Storage>, OpenError> {
    around(options, format!("az://{container}/{prefix}"), |client, name| {
        let service = MicrosoftAzureBuilder::new()
            .with_container_name(container)
            .with_account("account")
            .with_access_key("c2VjcmV0")
            .with_endpoint(endpoint.to_owned())
            .with_allow_http(true)
            .with_http_connector(Connector(client.clone()))
            .with_retry(no_retries())
            .build()?;
        Ok(Bucket::new(service, prefix.clone(), name, client))
    })
}

fn around(
    options: &Options,
    name: String,
    build: impl FnOnce(Client, String) -> object_store::Result<Bucket>,
) -> Result<Arc<dyn Storage>, OpenError> {
    let account = Arc::new(Account::new(options));
    let client = Client::new(options, Arc::clone(&account)).map_err(OpenError::Tls)?;
    let bucket =
        build(client, name.clone()).map_err(|e| OpenError::Settings { name, detail: e.to_string() })?;
    Ok(Arc::new(StorageClient::over(Arc::new(bucket), account, options, true)))
}
