//! Task documents.

use super::{
    FUNCTION, HOST, Workflow,
    descriptor::{Binding, Configuration, General, Port, Requirement, Scheme, Stream, Streams},
    from_json, to_json,
};
use crate::{
    Error,
    function::{Function, Parameters},
};
use serde::{Deserialize, Serialize};

/// One function of a workflow, with the addresses of its neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The id: that of the function in the workflow, and that of the workflow.
    pub id: String,
    /// The function.
    pub function: Function,
    /// The parameters by name.
    pub parameters: Parameters,
    /// The URLs to read from.
    pub inputs: Vec<String>,
    /// The connections at which the task serves.
    pub outputs: Vec<Output>,
}

/// A connection at which a task serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The id of the connection.
    pub connection: String,
    /// The URL under which the reader reaches this task.
    pub url: String,
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
    configuration: Configuration,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Processing {
    keywords: Vec<String>,
    image: Vec<String>,
}

impl Task {
    /// Makes the tasks of a workflow, in the order in which they start. `url` returns the address
    /// of a connection, for which it gets the writer's id and the number of its port.
    pub fn of(workflow: &Workflow, url: impl Fn(&str, usize) -> String) -> Vec<Self> {
        let graph = &workflow.graph;
        let task = |node: &crate::graph::Node| Self {
            id: workflow.task_id(&node.id),
            function: node.function,
            parameters: node.parameters.clone(),
            inputs: graph.inputs(&node.id).map(|input| url(&input.from, input.port)).collect(),
            outputs: graph
                .outputs(&node.id)
                .map(|output| Output {
                    connection: format!("{}-{}", output.from, output.to),
                    url: url(&output.from, output.port),
                })
                .collect(),
        };
        graph.nodes().iter().map(task).collect()
    }

    /// Writes the document.
    ///
    /// # Errors
    /// If it would be too large to be read again.
    pub fn to_json(&self) -> Result<String, Error> {
        let inputs =
            self.inputs.iter().zip(0..).map(|(url, number)| Stream::pulled(&format!("in.{number}"), url));
        let outputs = self.outputs.iter().map(|output| Stream::pulled(&output.connection, &output.url));
        let (input, output): (Vec<_>, Vec<_>) = (inputs.collect(), outputs.collect());
        let mut parameters = self.parameters.clone();
        parameters.insert(FUNCTION.to_owned(), self.function.name().to_owned());
        to_json(&Document {
            scheme: Scheme::ours(),
            general: General {
                id: self.id.clone(),
                name: self.function.name().to_owned(),
                description: String::new(),
                input_ports: ports("in", &input),
                output_ports: ports("out", &output),
            },
            input: Streams { media_parameters: input },
            output: Streams { media_parameters: output },
            processing: Processing::default(),
            requirement: Requirement::default(),
            configuration: Configuration::of(&parameters),
        })
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If it is too large or not JSON, has another scheme, states anything that the lab does not
    /// write, or the function does not take its parameters.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        let document: Document = from_json(bytes)?;
        document.scheme.check()?;
        let Processing { keywords, image } = &document.processing;
        if !keywords.is_empty() || !image.is_empty() {
            return Err(Error::invalid("processing: keywords and images are not accepted"));
        }
        for stream in document.input.media_parameters.iter().chain(&document.output.media_parameters) {
            stream.check()?;
            if !stream.caching_server_url.starts_with("http://") {
                return Err(Error::invalid(format!(
                    "stream '{}': its URL does not begin with http://",
                    stream.stream_id
                )));
            }
        }
        let General { id, input_ports, output_ports, .. } = document.general;
        let bound = [
            (ports("in", &document.input.media_parameters), input_ports),
            (ports("out", &document.output.media_parameters), output_ports),
        ];
        if bound.iter().any(|(expected, stated)| expected != stated) {
            return Err(Error::invalid("general: the ports do not match the streams"));
        }
        let mut parameters = document.configuration.parameters()?;
        let name =
            parameters.remove(FUNCTION).ok_or_else(|| Error::invalid("no parameter names the function"))?;
        let function = Function::named(&name)?;
        // An engine passes it on, but has already placed the task.
        parameters.remove(HOST);
        function.check(&parameters)?;
        let inputs = document.input.media_parameters.into_iter().map(|stream| stream.caching_server_url);
        let inputs: Vec<String> = inputs.collect();
        let (least, most) = function.inputs();
        if !(least..=most).contains(&inputs.len()) {
            return Err(Error::invalid(format!("{function} does not read from {} functions", inputs.len())));
        }
        let output = |stream: Stream| Output { connection: stream.stream_id, url: stream.caching_server_url };
        let outputs = document.output.media_parameters.into_iter().map(output).collect();
        Ok(Self { id, function, parameters, inputs, outputs })
    }
}

fn ports(name: &str, streams: &[Stream]) -> Vec<Port> {
    let port = |(stream, number): (&Stream, usize)| Port {
        port_name: format!("{name}.{number}"),
        bind: Binding { stream_id: stream.stream_id.clone(), name: stream.name.clone() },
    };
    streams.iter().zip(0..).map(port).collect()
}
