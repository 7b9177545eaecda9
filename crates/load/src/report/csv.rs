//! Results as tables for other programs (RFC 4180).

use crate::results::{Histogram, Run};
use std::fmt::Write as _;

/// Returns a table of requests by run and class: counts, bytes, and latencies in microseconds.
pub fn requests(runs: &[(String, Run)]) -> String {
    let mut out =
        String::from("run,class,requests,failed,bytes,mean_us,p50_us,p90_us,p99_us,p999_us,max_us\r\n");
    for (name, run) in runs {
        for (class, requests) in &run.whole.results.requests {
            let latency = &requests.latency;
            let _ = write!(
                out,
                "{},{class},{},{},{},{:.0},{},{},{},{},{}\r\n",
                field(name),
                requests.count,
                requests.failed(),
                requests.bytes,
                latency.mean(),
                latency.quantile(0.5),
                latency.quantile(0.9),
                latency.quantile(0.99),
                latency.quantile(0.999),
                latency.max(),
            );
        }
    }
    out
}

/// Returns a table of failed requests by run, class and reason.
pub fn errors(runs: &[(String, Run)]) -> String {
    let mut out = String::from("run,class,reason,requests\r\n");
    for (name, run) in runs {
        for (class, requests) in &run.whole.results.requests {
            for (reason, count) in &requests.errors {
                let _ = write!(out, "{},{class},{reason},{count}\r\n", field(name));
            }
        }
    }
    out
}

/// Returns a table of the seconds since the start of each run.
pub fn seconds(runs: &[(String, Run)]) -> String {
    let mut out = String::from("run,second,requests,failed,bytes,mean_us,came,left,players,stalls\r\n");
    for (name, run) in runs {
        let mut players = 0_u64;
        for (second, s) in run.whole.results.seconds.iter().enumerate() {
            players = players.saturating_add(s.came).saturating_sub(s.left);
            let mean = s.latency.checked_div(s.requests).unwrap_or(0);
            let _ = write!(
                out,
                "{},{second},{},{},{},{mean},{},{},{players},{}\r\n",
                field(name),
                s.requests,
                s.errors,
                s.bytes,
                s.came,
                s.left,
                s.stalls,
            );
        }
    }
    out
}

/// Returns a table of all histograms: each value with its count.
pub fn histograms(runs: &[(String, Run)]) -> String {
    let mut out = String::from("run,of,value,count\r\n");
    for (name, run) in runs {
        let mut add = |of: &str, histogram: &Histogram| {
            for (value, count) in histogram.recorded() {
                let _ = write!(out, "{},{of},{value},{count}\r\n", field(name));
            }
        };
        let results = &run.whole.results;
        for (class, requests) in &results.requests {
            add(&format!("{class} latency us"), &requests.latency);
            add(&format!("{class} first byte us"), &requests.first_byte);
        }
        add("start-up us", &results.players.startup);
        add("stalls us", &results.players.stalls);
        add("seeks us", &results.players.seeks);
        add("bit rate bit/s", &results.players.bitrate);
        add("quality (1+score)*1000", &results.players.quality);
        add("lag us", &results.lag);
    }
    out
}

/// Quotes a field if necessary.
fn field(text: &str) -> String {
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_only_if_necessary() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("a,b", "\"a,b\""),
            ("say \"a\"", "\"say \"\"a\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("", ""),
        ] {
            assert_eq!(field(text), expected, "{text}");
        }
    }
}
