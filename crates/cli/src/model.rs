//! `latemux model`: what published models predict.

mod sweep;

use crate::standard_output::say;
use anyhow::{Result, ensure};
use clap::{Args as ClapArgs, Subcommand};
use latemux_quantity::{BitRate, ByteSize, TimeSpan};
use latemux_streams::model::{Link, Streams, Term, terms};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use sweep::Sweep;

/// The maximum number of streams. The time to compute the refined model is proportional to it.
const MAX_STREAMS: f64 = 10_000.0;

/// Compute what published models predict
#[derive(Debug, ClapArgs)]
pub(crate) struct Model {
    #[command(subcommand)]
    model: Kind,
}

// The help text of a model is the doc comment of its flags.
#[derive(Debug, Subcommand)]
enum Kind {
    Streams(StreamsModel),
}

/// Throughput of request-response streams: chunks requested over several connections
///
/// The equations are those of Kuschnig, Kofler and Hellwagner, "Evaluation of HTTP-based
/// request-response streams for internet video streaming" (MMSys 2011), with an MSS of 1460 bytes.
/// They leave out slow start and TCP timeouts. The authors meant them as an upper bound; measured
/// goodput can exceed them. The terms marked "refined" are a model of our own for links without
/// loss.
#[derive(Debug, ClapArgs)]
struct StreamsModel {
    /// Bandwidth of the link
    #[arg(long, value_name = "RATE")]
    bandwidth: BitRate,
    /// Round-trip time without queueing
    #[arg(long, value_name = "DURATION")]
    rtt: TimeSpan,
    /// Longest queueing delay of the link
    #[arg(long, value_name = "DURATION")]
    queue: TimeSpan,
    /// Share of packets that are lost, such as 0.1%
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = percent)]
    loss: f64,
    /// Number of bytes of a chunk, such as 160kB
    #[arg(long, value_name = "SIZE")]
    chunk: ByteSize,
    /// Number of streams
    #[arg(long, value_name = "N")]
    streams: u32,
    /// Time between the end of a chunk and the next request on the same connection
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    gap: TimeSpan,
    /// Print JSON
    #[arg(long, conflicts_with = "sweep")]
    json: bool,
    /// Print CSV with a row for each value of a parameter: NAME=FROM..TO:STEP, such as
    /// rtt=0..200ms:10ms. NAME is bandwidth, rtt, queue, loss, chunk, streams or gap
    #[arg(long, value_name = "SWEEP")]
    sweep: Option<Sweep>,
}

/// Reads a share such as `0.1%`, from 0 % to below 100 %.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|number| number / 100.0).filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "not a share such as 0.1%, from 0% to below 100%".to_owned())
}

/// Prints what a model predicts.
pub(crate) fn run(flags: &Model) -> Result<()> {
    let Kind::Streams(flags) = &flags.model;
    let (link, streams) = flags.parameters();
    check(&link, &streams)?;
    say(&match &flags.sweep {
        Some(sweep) => rows(sweep, link, streams)?,
        None if flags.json => format!("{:#}\n", document(&link, &streams)),
        None => text(&link, &streams),
    })
}

impl StreamsModel {
    fn parameters(&self) -> (Link, Streams) {
        let link = Link {
            bandwidth: self.bandwidth.0 / 8.0,
            rtt: self.rtt.0.as_secs_f64(),
            queue: self.queue.0.as_secs_f64(),
            loss: self.loss,
        };
        let chunk = self.chunk.0 as f64;
        let gap = self.gap.0.as_secs_f64();
        (link, Streams { count: f64::from(self.streams), chunk, gap })
    }
}

/// Fails if the model is not defined for the parameters.
fn check(link: &Link, streams: &Streams) -> Result<()> {
    ensure!(streams.count > 0.0, "--streams must not be 0");
    ensure!(streams.count <= MAX_STREAMS, "--streams must be at most {MAX_STREAMS}");
    ensure!(streams.chunk > 0.0, "--chunk must not be 0");
    ensure!(link.queue > 0.0, "--queue must not be 0: the streams share it");
    ensure!(link.bandwidth > 0.0, "--bandwidth must not be 0");
    Ok(())
}

/// Returns the parameters with their names, values and units.
fn named(link: &Link, streams: &Streams) -> [(&'static str, f64, &'static str); 7] {
    [
        ("bandwidth", link.bandwidth, "B/s"),
        ("rtt", link.rtt, "s"),
        ("queue", link.queue, "s"),
        ("loss", link.loss, ""),
        ("chunk", streams.chunk, "B"),
        ("streams", streams.count, ""),
        ("gap", streams.gap, "s"),
    ]
}

fn text(link: &Link, streams: &Streams) -> String {
    let mut out = String::new();
    for (name, value, unit) in named(link, streams) {
        let _ = writeln!(out, "{name:<10} {:>14} {unit}", number(value));
    }
    out.push('\n');
    for Term { symbol, meaning, value, unit, formula } in terms(link, streams) {
        let rate = if unit == "B/s" && value.is_finite() {
            format!("= {:.3} Mbit/s", value * 8.0 / 1e6)
        } else {
            String::new()
        };
        let _ = writeln!(out, "{symbol:<10} {:>14} {unit:<3} {rate:<18} {meaning}: {formula}", number(value));
    }
    out.push_str(
        "\nSource: Kuschnig, Kofler, Hellwagner, MMSys 2011; [n] is the number of the equation\n\
         Refined: a model of latemux for links without loss\n",
    );
    out
}

/// Writes a number with six significant digits at least.
fn number(value: f64) -> String {
    if value.is_infinite() {
        "unlimited".to_owned()
    } else if value >= 1e5 {
        format!("{value:.0}")
    } else {
        format!("{value:.6}")
    }
}

/// Returns parameters and terms as JSON. A term that is unlimited is `null`.
fn document(link: &Link, streams: &Streams) -> Value {
    let parameters: Map<String, Value> =
        named(link, streams).into_iter().map(|(name, value, _)| (name.to_owned(), json!(value))).collect();
    let term = |term: Term| {
        json!({
            "symbol": term.symbol,
            "meaning": term.meaning,
            "value": term.value,
            "unit": term.unit,
            "formula": term.formula,
        })
    };
    let terms: Vec<Value> = terms(link, streams).into_iter().map(term).collect();
    json!({ "parameters": parameters, "terms": terms })
}

/// Returns a table (RFC 4180) of all terms for each value of a parameter. Terms that are unlimited
/// are empty.
fn rows(sweep: &Sweep, link: Link, streams: Streams) -> Result<String> {
    let symbols: Vec<&str> = terms(&link, &streams).iter().map(|term| term.symbol).collect();
    let mut out = format!("{},{}\r\n", sweep.parameter.name(), symbols.join(","));
    for value in sweep.values() {
        let mut link = link;
        let mut streams = streams;
        sweep.parameter.set(&mut link, &mut streams, value);
        check(&link, &streams)?;
        out.push_str(&sweep::rounded(value));
        for term in terms(&link, &streams) {
            let value = if term.value.is_finite() { term.value.to_string() } else { String::new() };
            let _ = write!(out, ",{value}");
        }
        out.push_str("\r\n");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser as _;

    const FLAGS: &str = "latemux model streams --bandwidth 8192kbit/s --rtt 100ms --queue 200ms --loss 0.1% --chunk 160kB --streams 5 --gap 210ms";

    fn parsed(more: &str) -> Result<StreamsModel, clap::Error> {
        let line = format!("{FLAGS} {more}");
        match Args::try_parse_from(line.split_whitespace())?.command {
            Command::Model(Model { model: Kind::Streams(model) }) => Ok(model),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn terms_are_printed_with_units_and_equations() {
        let (link, streams) = parsed("").unwrap().parameters();
        let text = text(&link, &streams);
        for line in [
            "bandwidth         1024000 B/s",
            "t_ch             0.800000 s                      time of a chunk: ceil(n_rt) (RTT + t_qav) [3]",
            "r_rr               792079 B/s = 6.337 Mbit/s     streams, no loss: n_c l_ch / (t_ch + t_gap) [4]",
            "r_refined          910370 B/s = 7.283 Mbit/s     refined: streams, no loss: BW (1 - idle)",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
        (1..=8).for_each(|number| assert!(text.contains(&format!("[{number}]")), "{text}"));
        let document = document(&link, &streams);
        assert_eq!(document["parameters"]["loss"], 0.001);
        assert_eq!(document["terms"][7]["symbol"], "r_rr");
        assert!((document["terms"][7]["value"].as_f64().unwrap() - 792_079.2).abs() < 0.1);
        let lossless = super::document(&Link { loss: 0.0, ..link }, &streams);
        assert_eq!(lossless["terms"][0]["value"], Value::Null, "unlimited");
    }

    #[test]
    fn sweeps_have_a_row_for_each_value() {
        let flags = parsed("--sweep rtt=0..200ms:10ms").unwrap();
        let (link, streams) = flags.parameters();
        let table = rows(&flags.sweep.unwrap(), link, streams).unwrap();
        let lines: Vec<&str> = table.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 22);
        assert!(lines[0].starts_with("rtt,r_tcp,r,l_q,l_rr,"), "{}", lines[0]);
        assert!(lines[1].starts_with("0,,"), "unlimited at once: {}", lines[1]);
        assert!(lines[4].starts_with("0.03,") && lines[21].starts_with("0.2,"), "{}", lines[4]);
        let columns = lines.iter().map(|line| line.split(',').count());
        assert!(columns.min() == Some(21) && lines[21].split(',').count() == 21);
    }

    #[test]
    fn parameters_without_a_model_are_refused() {
        for more in ["--loss 100%", "--loss 0.1", "--loss -1%", "--loss NaN%"] {
            let line = FLAGS.replace("--loss 0.1%", more);
            assert!(Args::try_parse_from(line.split_whitespace()).is_err(), "{more}");
        }
        let (link, streams) = parsed("").unwrap().parameters();
        assert!(check(&Link { queue: 0.0, ..link }, &streams).is_err());
        assert!(check(&link, &Streams { count: 0.0, ..streams }).is_err());
        assert!(check(&link, &Streams { count: 10_001.0, ..streams }).is_err());
        assert!(check(&link, &Streams { chunk: 0.0, ..streams }).is_err());
    }
}
