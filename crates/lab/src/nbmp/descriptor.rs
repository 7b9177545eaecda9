//! The descriptors that documents consist of, with the fields that the lab writes. All other fields
//! are refused.

use super::SCHEME;
use crate::{Error, function::Parameters};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The scheme descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scheme {
    pub(super) uri: String,
}

/// The general descriptor. Its ports are empty in workflow documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct General {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    #[serde(default)]
    pub(super) input_ports: Vec<Port>,
    #[serde(default)]
    pub(super) output_ports: Vec<Port>,
}

/// A port, bound to the stream of the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Port {
    pub(super) port_name: String,
    pub(super) bind: Binding,
}

/// The stream of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Binding {
    pub(super) stream_id: String,
    pub(super) name: String,
}

/// The input or output descriptor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Streams {
    pub(super) media_parameters: Vec<Stream>,
}

/// A stream that its reader requests over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Stream {
    pub(super) stream_id: String,
    pub(super) name: String,
    pub(super) keywords: Vec<String>,
    pub(super) mime_type: String,
    pub(super) protocol: String,
    pub(super) mode: String,
    pub(super) caching_server_url: String,
}

/// The requirement descriptor, which is always empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {}

/// The configuration descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Configuration {
    pub(super) parameters: Vec<Parameter>,
}

/// A parameter, which is always a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) id: i64,
    pub(super) datatype: String,
    pub(super) values: Vec<Values>,
}

/// The one value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Values {
    pub(super) name: String,
    pub(super) id: i64,
    pub(super) restrictions: Vec<String>,
}

impl Scheme {
    pub(super) fn ours() -> Self {
        Self { uri: SCHEME.to_owned() }
    }

    /// Refuses documents of another scheme.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.uri == SCHEME {
            return Ok(());
        }
        Err(Error::invalid(format!("scheme: '{}' is not {SCHEME}", self.uri)))
    }
}

impl Stream {
    /// Makes a stream that is requested over HTTP. `url` is empty where the engine chooses it.
    pub(super) fn pulled(id: &str, url: &str) -> Self {
        Self {
            stream_id: id.to_owned(),
            name: id.to_owned(),
            keywords: Vec::new(),
            mime_type: "application/octet-stream".to_owned(),
            protocol: "http".to_owned(),
            mode: "pull".to_owned(),
            caching_server_url: url.to_owned(),
        }
    }

    /// Refuses streams that are not requested over HTTP, or have keywords.
    pub(super) fn check(&self) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::invalid(format!("stream '{}': {why}", self.stream_id)));
        match self {
            _ if self.protocol != "http" => refuse("its protocol is not http"),
            _ if self.mode != "pull" => refuse("its mode is not pull"),
            _ if !self.keywords.is_empty() => refuse("keywords are not accepted"),
            _ => Ok(()),
        }
    }
}

impl Configuration {
    /// Makes the descriptor of parameters.
    pub(super) fn of(parameters: &Parameters) -> Self {
        let parameters = parameters.iter().zip(1..).map(|((name, value), id)| Parameter {
            name: name.clone(),
            id,
            datatype: "string".to_owned(),
            values: vec![Values { name: name.clone(), id: 1, restrictions: vec![value.clone()] }],
        });
        Self { parameters: parameters.collect() }
    }

    /// Returns the parameters by name.
    ///
    /// # Errors
    /// If one is not a text, has no value or several, or two have the same name or number.
    pub(super) fn parameters(&self) -> Result<Parameters, Error> {
        let mut parameters = Parameters::new();
        let mut numbers = BTreeSet::new();
        for Parameter { name, id, datatype, values } in &self.parameters {
            let refuse = |why: &str| Err(Error::invalid(format!("parameter '{name}': {why}")));
            if datatype != "string" {
                return refuse("its datatype is not string");
            }
            let [Values { restrictions, .. }] = values.as_slice() else {
                return refuse("it does not have one value");
            };
            let [value] = restrictions.as_slice() else {
                return refuse("its value does not have one restriction");
            };
            if !numbers.insert(id) {
                return refuse("its id is used twice");
            }
            if parameters.insert(name.clone(), value.clone()).is_some() {
                return refuse("it is stated twice");
            }
        }
        Ok(parameters)
    }
}
