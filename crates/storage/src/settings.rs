//! Checks settings that `object_store` takes as they are, and panics on later.

use crate::OpenError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use url::Url;

/// Returns the address of a service without its final `/`. `setting` is the name of the setting
/// that holds it.
///
/// # Errors
/// [`OpenError::Settings`] if it is not `http://` or `https://` with a host, or has more than a
/// path after it. The message says what to write instead.
pub(crate) fn endpoint<'a>(setting: &str, address: &'a str) -> Result<&'a str, OpenError> {
    let refuse = |detail: String| OpenError::Settings { name: format!("{setting} '{address}'"), detail };
    match address.split_once("://") {
        None if address.trim().is_empty() => {
            return Err(refuse("is empty; write an address such as https://minio.example:9000".to_owned()));
        }
        None => {
            let address = address.trim_start_matches('/');
            return Err(refuse(format!("has no scheme; write http://{address} or https://{address}")));
        }
        Some(("http" | "https", _)) => {}
        Some(_) => return Err(refuse("must begin with http:// or https://".to_owned())),
    }
    if !is_plain(address) {
        return Err(refuse("contains a space, a line break or a character beyond ASCII".to_owned()));
    }
    let url = Url::parse(address).map_err(|e| refuse(format!("is not an address: {e}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        let setting = setting.to_owned();
        let detail = "must not contain credentials; set them in the environment".to_owned();
        return Err(OpenError::Settings { name: setting, detail });
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refuse("must end with its path, without '?' and '#'".to_owned()));
    }
    Ok(address.trim_end_matches('/'))
}

/// Checks the texts that become part of the headers of requests to S3.
///
/// # Errors
/// [`OpenError::Settings`] with the name of the first setting that no header can hold. Its value
/// may be secret, so the message leaves it out.
pub(crate) fn check_headers(builder: &AmazonS3Builder) -> Result<(), OpenError> {
    for (key, setting) in [
        (AmazonS3ConfigKey::AccessKeyId, "the access key (AWS_ACCESS_KEY_ID)"),
        (AmazonS3ConfigKey::SecretAccessKey, "the secret key (AWS_SECRET_ACCESS_KEY)"),
        (AmazonS3ConfigKey::Token, "the session token (AWS_SESSION_TOKEN)"),
        (AmazonS3ConfigKey::Region, "the region (--s3-region or AWS_REGION)"),
    ] {
        if builder.get_config_value(&key).is_some_and(|value| !is_plain(&value)) {
            let detail = "contains a space, a line break or a character beyond ASCII".to_owned();
            return Err(OpenError::Settings { name: setting.to_owned(), detail });
        }
    }
    Ok(())
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}
