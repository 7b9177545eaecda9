//! The flags of commands that read or write object storage.

use clap::Args;
use latemux_storage::Options;

/// Access to object storage. Credentials come from the environment, a web identity, the container
/// or the instance.
#[derive(Debug, Clone, Args)]
pub(crate) struct StorageFlags {
    /// S3-compatible endpoint, such as `https://minio.example:9000`
    #[arg(long, value_name = "URL")]
    pub(crate) s3_endpoint: Option<String>,
    /// S3 region
    #[arg(long, value_name = "REGION")]
    pub(crate) s3_region: Option<String>,
}

impl StorageFlags {
    /// Overrides options of the configuration file.
    pub(crate) fn apply(&self, options: &mut Options) {
        options.s3_endpoint = self.s3_endpoint.clone().or(options.s3_endpoint.take());
        options.s3_region = self.s3_region.clone().or(options.s3_region.take());
    }

    /// Returns the default options with these overrides.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        self.apply(&mut options);
        options
    }
}
