//! The goodput of a load over one link, by the published model of request-response streams.

use crate::{
    bytes_per_second,
    function::{Function, Parameters, fraction},
    graph::Graph,
};
use latemux_quantity::{ByteSize, TimeSpan};
use latemux_streams::model::{Link, Streams, lossy_rate};

/// The queue of a link whose parameters state none, in seconds.
const QUEUE: f64 = 0.1;

/// The chunk of a load whose parameters state none, in bytes.
const CHUNK: f64 = 160_000.0;

/// Returns the goodput in bytes per second: equation 8, but at most the rate of the link. The model
/// covers one connection of a load with streams, over one link with a rate, beside no plain
/// downloads.
pub fn rate(graph: &Graph) -> Option<f64> {
    let mut links = graph.nodes().iter().filter(|node| node.function == Function::Link);
    let (Some(link), None) = (links.next(), links.next()) else { return None };
    let load = graph.client().filter(|client| client.function == Function::Load)?;
    let stated = |name: &str| load.parameters.get(name).map(String::as_str);
    let is_alone = stated("competing").is_none_or(|level| level == "0") && stated("connections") == Some("1");
    if !is_alone || !matches!(stated("kind"), Some("list" | "single")) {
        return None;
    }
    let chunk = stated("chunk").map_or(Some(CHUNK), |text| Some(text.parse::<ByteSize>().ok()?.0 as f64))?;
    let gap = seconds(&load.parameters, "gap").unwrap_or(0.0);
    let streams = Streams { count: stated("streams")?.parse().ok()?, chunk, gap };
    let link = link_of(&link.parameters)?;
    Some(lossy_rate(&link, &streams).min(link.bandwidth))
}

fn link_of(parameters: &Parameters) -> Option<Link> {
    Some(Link {
        bandwidth: bytes_per_second(parameters.get("rate")?.parse().ok()?) as f64,
        rtt: seconds(parameters, "rtt").unwrap_or(0.0),
        queue: seconds(parameters, "queue").unwrap_or(QUEUE),
        loss: parameters.get("loss").and_then(|loss| fraction(loss).ok()).unwrap_or(0.0),
    })
}

fn seconds(parameters: &Parameters, name: &str) -> Option<f64> {
    Some(parameters.get(name)?.parse::<TimeSpan>().ok()?.0.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Connection, Node};

    fn graph(link: &[(&str, &str)], load: &[(&str, &str)]) -> Graph {
        let node = |function: Function, parameters: &[(&str, &str)]| Node {
            id: function.name().to_owned(),
            function,
            host: function.has_host().then(|| function.name().to_owned()),
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let connect = |from: &str, to: &str| Connection { from: from.to_owned(), port: 0, to: to.to_owned() };
        let base = [("kind", "list"), ("format", "dash"), ("title", "t/mp4"), ("connections", "1")];
        let load: Vec<_> = base
            .into_iter()
            .filter(|(name, _)| !load.iter().any(|(own, _)| own == name))
            .chain(load.iter().copied())
            .collect();
        let nodes = vec![
            node(Function::Storage, &[("content", "t/mp4")]),
            node(Function::Origin, &[("config", "x")]),
            node(Function::Link, link),
            node(Function::Load, &load),
        ];
        let connections =
            vec![connect("storage", "origin"), connect("origin", "link"), connect("link", "load")];
        Graph::new(nodes, connections).unwrap()
    }

    #[test]
    fn the_rate_is_that_of_the_published_equations() {
        // The figures are those of `latemux model streams`.
        let link = [("rate", "8192kbit/s"), ("rtt", "100ms"), ("queue", "200ms")];
        let published = rate(&graph(&link, &[("streams", "5"), ("gap", "210ms")])).unwrap();
        assert!((published - 792_079.0).abs() < 1.0, "{published}");
        let lossy = [("rate", "8192kbit/s"), ("rtt", "100ms"), ("queue", "200ms"), ("loss", "2%")];
        let one = rate(&graph(&lossy, &[("streams", "1")])).unwrap();
        let five = rate(&graph(&lossy, &[("streams", "5")])).unwrap();
        assert!(one < five && five < 1_024_000.0, "{one} {five}");
        // No more than the link carries.
        let most = rate(&graph(&[("rate", "800kbit/s")], &[("streams", "5")])).unwrap();
        assert!((most - 100_000.0).abs() < 1e-6, "{most}");
    }

    #[test]
    fn other_loads_have_no_rate() {
        let link = [("rate", "8Mbit/s")];
        for load in [
            &[][..],
            &[("streams", "2"), ("competing", "1")],
            &[("streams", "2"), ("connections", "2")],
            &[("streams", "2"), ("kind", "watch")],
        ] {
            assert_eq!(rate(&graph(&link, load)), None, "{load:?}");
        }
        assert_eq!(rate(&graph(&[("rtt", "20ms")], &[("streams", "2")])), None, "the link has no rate");
    }
}
