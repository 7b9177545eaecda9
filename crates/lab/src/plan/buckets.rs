//! Checks which functions read a storage that is a bucket.

use crate::{
    Error,
    function::{Function, is_bucket, reads_bucket},
    graph::{Graph, Node},
};

/// Checks that a bucket is read by origins that read buckets, and by nothing else.
///
/// # Errors
/// If another function reads a bucket, or an origin that reads buckets reads something else.
pub(super) fn check(graph: &Graph) -> Result<(), Error> {
    for node in graph.nodes().iter().filter(|node| node.function != Function::Link) {
        let Some(source) = source(graph, &node.id) else { continue };
        let reads = node.function == Function::Origin && reads_bucket(&node.parameters);
        let is_bucket = source.function == Function::Storage && is_bucket(&source.parameters);
        let (id, from) = (&node.id, &source.id);
        match (reads, is_bucket) {
            (true, false) => {
                let why =
                    format!("'{id}' has storage = 's3', but '{from}' is no storage of kind = 'versitygw'");
                return Err(Error::invalid(why));
            }
            (false, true) => {
                let why = format!("'{from}' is a bucket, so '{id}' must be an origin with storage = 's3'");
                return Err(Error::invalid(why));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the function that another one reads from first, directly or over links.
fn source<'a>(graph: &'a Graph, id: &str) -> Option<&'a Node> {
    let from = &graph.inputs(id).next()?.from;
    let node = graph.nodes().iter().find(|node| node.id == *from)?;
    if node.function == Function::Link { source(graph, from) } else { Some(node) }
}
