//! Signatures by which AWS recognises the sender of a request (Signature Version 4).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use object_store::{
    aws::{AwsAuthorizer, AwsCredential},
    client::HttpRequestBody,
};
use std::fmt;

/// Signs requests to a service of AWS other than storage.
pub struct AwsSigner {
    credential: AwsCredential,
    service: &'static str,
    region: String,
}

impl AwsSigner {
    /// Reads the access key from the environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and,
    /// if it is temporary, `AWS_SESSION_TOKEN`.
    ///
    /// # Errors
    /// A sentence for the operator, without a secret, if a variable is missing or cannot be sent.
    pub fn from_env(service: &'static str, region: &str) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let needed =
            |name: &str| variable(name).ok_or_else(|| format!("the environment variable {name} is not set"));
        let credential = AwsCredential {
            key_id: needed("AWS_ACCESS_KEY_ID")?,
            secret_key: needed("AWS_SECRET_ACCESS_KEY")?,
            token: variable("AWS_SESSION_TOKEN"),
        };
        // The authorizer panics on values that a header cannot have.
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", Some(&credential.key_id)),
            ("AWS_SESSION_TOKEN", credential.token.as_ref()),
        ] {
            if value.is_some_and(|value| HeaderValue::from_str(value).is_err()) {
                return Err(format!(
                    "the environment variable {name} has a character that headers cannot have"
                ));
            }
        }
        Ok(Self { credential, service, region: region.to_owned() })
    }

    /// Returns the headers that sign a request. `uri` is absolute. The request must be sent to its
    /// host, with `headers` and the body as they are here; other headers are not signed.
    ///
    /// # Errors
    /// The reason why the request cannot be signed.
    pub fn sign(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<HeaderMap, String> {
        let mut request = Request::new(HttpRequestBody::from(body));
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri.clone(), headers);
        let authorizer = AwsAuthorizer::new(&self.credential, self.service, &self.region);
        authorizer.try_authorize(&mut request, None).map_err(|error| error.to_string())?;
        Ok(std::mem::take(request.headers_mut()))
    }
}

impl fmt::Debug for AwsSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsSigner").field("region", &self.region).finish_non_exhaustive()
    }
}
