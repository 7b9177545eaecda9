//! Documents of Network-Based Media Processing (ISO/IEC 23090-8): one workflow document for each
//! cell, and one task document for each of its functions.
//!
//! Only the descriptors that the lab needs are written, and nothing else is read: a document that
//! asks for more than it would get is refused.

mod descriptor;
mod task;
mod workflow;

pub use task::{Output, Task};
pub use workflow::Workflow;

use crate::Error;
use serde::{Serialize, de::DeserializeOwned};

/// The largest document, in bytes.
pub const MAX_DOCUMENT: usize = 1 << 20;

/// The scheme of documents. Other engines refuse others.
const SCHEME: &str = "urn:mpeg:mpegi:nbmp:2023";

/// The longest id of a workflow.
const MAX_ID: usize = 40;

/// The parameter that names the function. An engine passes parameters on to the program that it
/// starts, but not the function's id.
const FUNCTION: &str = "function";

/// The parameter that names the host. An engine places functions itself.
const HOST: &str = "host";

/// Reads JSON of bounded size. The error is one line.
fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    if bytes.len() > MAX_DOCUMENT {
        return Err(Error::invalid(format!("the document has more than {MAX_DOCUMENT} bytes")));
    }
    serde_json::from_slice(bytes).map_err(|error| Error::invalid(error.to_string()))
}

/// Writes JSON for people to read.
fn to_json(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::invalid(error.to_string()))?;
    if text.len() >= MAX_DOCUMENT {
        return Err(Error::invalid(format!("the document would have more than {MAX_DOCUMENT} bytes")));
    }
    Ok(text + "\n")
}
