//! Workflow documents.

use super::{
    FUNCTION, HOST, MAX_ID,
    descriptor::{Configuration, General, Requirement, Scheme, Stream, Streams},
    from_json, to_json,
};
use crate::{
    Error,
    function::Function,
    graph::{self, Connection, Graph, Node},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The part of a function's id that names the kind of resource in an engine on Kubernetes, and the
/// prefix of ours.
const FUNCTION_ID: &str = "ClusterFunction/latemux-";

/// The prefix of the names of ports that a function serves at.
const OUT: &str = "out.";

/// The name of the port at which a function reads.
const IN: &str = "in";

/// A workflow: the functions of a cell under an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    /// The id, a DNS label of at most 40 characters.
    pub id: String,
    /// The workflow in one sentence.
    pub description: String,
    /// The functions and their connections.
    pub graph: Graph,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    scheme: Scheme,
    general: General,
    input: Streams,
    output: Streams,
    processing: Processing,
    requirement: Requirement,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Processing {
    keywords: Vec<String>,
    image: Vec<String>,
    connection_map: Vec<Mapping>,
    function_restrictions: Vec<Restriction>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Mapping {
    connection_id: String,
    from: From,
    to: To,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct From {
    id: String,
    instance: String,
    port_name: String,
    output_restrictions: Streams,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct To {
    id: String,
    instance: String,
    port_name: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Restriction {
    instance: String,
    general: General,
    configuration: Configuration,
}

impl Workflow {
    /// Makes a workflow.
    ///
    /// # Errors
    /// If the id is not a DNS label of at most 40 characters.
    pub fn new(id: String, description: String, graph: Graph) -> Result<Self, Error> {
        if !graph::is_label(&id) || id.len() > MAX_ID {
            return Err(Error::invalid(format!(
                "general: the id '{id}' is not a DNS label of at most {MAX_ID} characters"
            )));
        }
        Ok(Self { id, description, graph })
    }

    /// Returns the id of the task of a function: that of the function, and that of the workflow.
    pub fn task_id(&self, function: &str) -> String {
        format!("{function}-{}", self.id)
    }

    /// Writes the document.
    ///
    /// # Errors
    /// If it would be too large to be read again.
    pub fn to_json(&self) -> Result<String, Error> {
        let connections = self.graph.connections().iter().map(mapping);
        let restrictions = self.graph.nodes().iter().map(restriction);
        to_json(&Document {
            scheme: Scheme::ours(),
            general: general(&self.id, &self.id, &self.description),
            input: Streams::default(),
            output: Streams::default(),
            processing: Processing {
                keywords: Vec::new(),
                image: Vec::new(),
                connection_map: connections.collect(),
                function_restrictions: restrictions.collect(),
            },
            requirement: Requirement::default(),
        })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If it is too large or not JSON, has another scheme, states anything that the lab does not
    /// write, or its functions and connections are not a [`Graph`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let document: Document = from_json(bytes)?;
        document.scheme.check()?;
        check_general(&document.general)?;
        for (name, streams) in [("input", &document.input), ("output", &document.output)] {
            if !streams.media_parameters.is_empty() {
                return Err(Error::invalid(format!("{name}: workflows have no streams to the outside")));
            }
        }
        let Processing { keywords, image, connection_map, function_restrictions } = document.processing;
        if !keywords.is_empty() {
            return Err(Error::invalid("processing: keywords are not accepted"));
        }
        if !image.is_empty() {
            return Err(Error::invalid("processing: images are not accepted"));
        }
        let mut names = BTreeSet::new();
        for mapping in &connection_map {
            if !names.insert(mapping.connection_id.as_str()) {
                return Err(Error::invalid(format!("connection '{}': stated twice", mapping.connection_id)));
            }
        }
        let connections = connection_map.iter().map(connection).collect::<Result<_, _>>()?;
        let nodes = function_restrictions.iter().map(node).collect::<Result<_, _>>()?;
        let General { id, description, .. } = document.general;
        Self::new(id, description, Graph::new(nodes, connections)?)
    }
}

fn general(id: &str, name: &str, description: &str) -> General {
    let description = description.to_owned();
    let id = id.to_owned();
    let name = name.to_owned();
    General { id, name, description, input_ports: Vec::new(), output_ports: Vec::new() }
}

fn check_general(general: &General) -> Result<(), Error> {
    if general.input_ports.is_empty() && general.output_ports.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("general of '{}': only tasks have ports", general.id)))
}

fn mapping(Connection { from, port, to }: &Connection) -> Mapping {
    let connection_id = format!("{from}-{to}");
    let stream = Stream::pulled(&connection_id, "");
    Mapping {
        connection_id,
        from: From {
            id: from.clone(),
            instance: from.clone(),
            port_name: format!("{OUT}{port}"),
            output_restrictions: Streams { media_parameters: vec![stream] },
        },
        to: To { id: to.clone(), instance: to.clone(), port_name: IN.to_owned() },
    }
}

fn connection(Mapping { connection_id, from, to }: &Mapping) -> Result<Connection, Error> {
    let refuse = |why: &str| Error::invalid(format!("connection '{connection_id}': {why}"));
    if from.id != from.instance || to.id != to.instance {
        return Err(refuse("id and instance differ"));
    }
    if to.port_name != IN {
        return Err(refuse("it does not end at the port 'in'"));
    }
    let [stream] = from.output_restrictions.media_parameters.as_slice() else {
        return Err(refuse("it does not carry one stream"));
    };
    stream.check().map_err(|error| error.within(&format!("connection '{connection_id}'")))?;
    if stream.stream_id != *connection_id {
        return Err(refuse("its stream has another id"));
    }
    if !stream.caching_server_url.is_empty() {
        return Err(refuse("its stream has a URL, which the engine assigns"));
    }
    // Only the one way to write a number is accepted, or one port would have several names.
    let port = from.port_name.strip_prefix(OUT).and_then(|text| {
        text.parse::<usize>().ok().filter(|number| *number < graph::MAX_NODES && number.to_string() == text)
    });
    let port = port.ok_or_else(|| refuse("it does not begin at a port such as 'out.0'"))?;
    Ok(Connection { from: from.instance.clone(), port, to: to.instance.clone() })
}

fn restriction(node: &Node) -> Restriction {
    let mut parameters = node.parameters.clone();
    parameters.insert(FUNCTION.to_owned(), node.function.name().to_owned());
    if let Some(host) = &node.host {
        parameters.insert(HOST.to_owned(), host.clone());
    }
    Restriction {
        instance: node.id.clone(),
        general: general(&format!("{FUNCTION_ID}{}", node.function), node.function.name(), ""),
        configuration: Configuration::of(&parameters),
    }
}

fn node(restriction: &Restriction) -> Result<Node, Error> {
    let Restriction { instance, general, configuration } = restriction;
    let within = |error: Error| error.within(&format!("function '{instance}'"));
    check_general(general).map_err(within)?;
    let name = general.id.strip_prefix(FUNCTION_ID).ok_or_else(|| {
        within(Error::invalid(format!("the id '{}' does not begin with {FUNCTION_ID}", general.id)))
    })?;
    let function = Function::named(name).map_err(within)?;
    let mut parameters = configuration.parameters().map_err(within)?;
    if parameters.remove(FUNCTION).as_deref() != Some(name) {
        return Err(within(Error::invalid(format!("the parameter '{FUNCTION}' is not '{name}'"))));
    }
    let host = parameters.remove(HOST);
    Ok(Node { id: instance.clone(), function, host, parameters })
}
