//! The counters of a server: its metrics before and after a run, in the text format of Prometheus
//! and OpenMetrics.

use latemux_client::{
    failure::Failure,
    http::{Client, Connection},
    presentation::Resource,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio::time::Instant;
use url::Url;

/// The maximum number of bytes of a response.
const MAX_BYTES: usize = 8 << 20;

/// The maximum number of samples of a reading. Further ones are left out.
const MAX_SAMPLES: usize = 1 << 15;

/// Samples by name and labels, as the server writes them.
pub type Readings = BTreeMap<String, f64>;

/// The metrics of a server before and after a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// The samples before the run.
    pub before: Readings,
    /// The samples after the run; `None` if they are not known.
    pub after: Option<Readings>,
}

impl Counters {
    /// Returns the samples that are higher after the run, and by how much.
    pub fn grown(&self) -> impl Iterator<Item = (&str, f64)> {
        let grown = |(name, after): (_, &f64)| {
            let name: &String = name;
            let growth = after - self.before.get(name).unwrap_or(&0.0);
            (growth > 0.0).then_some((name.as_str(), growth))
        };
        self.after.iter().flatten().filter_map(grown)
    }

    /// Adds what another machine read from the same server: the earlier reading is the lower one of
    /// a counter, and the later reading the higher one.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (name, value) in &other.before {
            self.before.entry(name.clone()).and_modify(|known| *known = known.min(*value)).or_insert(*value);
        }
        for (name, value) in other.after.iter().flatten() {
            let after = self.after.get_or_insert_default();
            after.entry(name.clone()).and_modify(|known| *known = known.max(*value)).or_insert(*value);
        }
    }
}

/// Reads the metrics of a server.
///
/// # Errors
/// The [`Failure`] of the request. A body without samples is no failure.
pub async fn read_metrics(client: &Client, url: &Url) -> Result<Readings, Failure> {
    let resource = Resource { url: url.clone(), range: None };
    let mut connection = Connection::default();
    let (fetched, body) = client.get_whole(&mut connection, &resource, Instant::now(), MAX_BYTES).await;
    fetched.map_err(|failed| failed.failure)?;
    Ok(parse(&String::from_utf8_lossy(&body)))
}

/// Reads the samples of a text. Lines of another form are ignored, and so are values that are not
/// finite.
fn parse(text: &str) -> Readings {
    text.lines().filter_map(sample).take(MAX_SAMPLES).collect()
}

/// Reads `name{labels} value`, behind which a time and an exemplar may follow.
fn sample(line: &str) -> Option<(String, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = match line.find('{') {
        Some(start) => start + labels_end(line.get(start..)?)?,
        None => line.find(char::is_whitespace)?,
    };
    let (name, rest) = line.split_at_checked(end)?;
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    (value.is_finite() && !name.is_empty()).then(|| (name.to_owned(), value))
}

/// Returns the position behind the brace that closes labels. Values may contain braces.
fn labels_end(labels: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (place, byte) in labels.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(place + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_by_name_and_labels() {
        let text = "# HELP a What it counts {x} 1\n# TYPE a counter\n\
            a_total 3\n\
            b_total{path=\"/x y}\\\"\",code=\"200\"} 1.5e3 1700000000 # {trace=\"1\"} 2\n\
            c{le=\"+Inf\"} NaN\nd +Inf\ne\nf{ 1\n 5\ng{}\t7\n# EOF\n";
        let expected = [("a_total", 3.0), ("b_total{path=\"/x y}\\\"\",code=\"200\"}", 1500.0), ("g{}", 7.0)];
        let expected: Readings = expected.map(|(name, value)| (name.to_owned(), value)).into();
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn a_flood_of_samples_is_cut_off() {
        use std::fmt::Write as _;
        let mut text = String::new();
        (0..MAX_SAMPLES + 10).for_each(|number| writeln!(text, "a{{n=\"{number}\"}} 1").unwrap());
        assert_eq!(parse(&text).len(), MAX_SAMPLES);
    }

    #[test]
    fn readings_of_several_machines_cover_the_whole_run() {
        let readings = |value: f64| Readings::from([("a".to_owned(), value), ("b".to_owned(), 1.0)]);
        let mut one = Counters { before: readings(5.0), after: Some(readings(20.0)) };
        one.merge(&Counters { before: readings(3.0), after: Some(readings(30.0)) });
        one.merge(&Counters { before: readings(4.0), after: None });
        assert_eq!(one.grown().collect::<Vec<_>>(), [("a", 27.0)]);
        let unknown = Counters { before: readings(1.0), after: None };
        assert_eq!(unknown.grown().count(), 0);
    }
}
