//! Results as tables for other programs (RFC 4180).

use crate::{
    results::{Histogram, Run},
    usage::{HostRecord, HostSample},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

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

/// Returns a table of the plateaus of steps: times in milliseconds, latencies in microseconds.
pub fn steps(runs: &[(String, Run)]) -> String {
    let mut out = String::from(
        "run,step,level,from_ms,until_ms,requests,failed,bytes,mean_us,p50_us,p90_us,p99_us,max_us\r\n",
    );
    for (name, run) in runs {
        for (number, step) in (1..).zip(&run.whole.results.steps) {
            let requests = &step.requests;
            let latency = &step.requests.latency;
            let _ = write!(
                out,
                "{},{number},{},{},{},{},{},{},{:.0},{},{},{},{}\r\n",
                field(name),
                step.level,
                step.from,
                step.until,
                requests.count,
                requests.failed(),
                requests.bytes,
                latency.mean(),
                latency.quantile(0.5),
                latency.quantile(0.9),
                latency.quantile(0.99),
                latency.max(),
            );
        }
    }
    out
}

/// Returns a table of request–response streams and of plain downloads beside players: a row for
/// each run that has one of them. Times are in microseconds, rates in bytes per second.
pub fn streams(runs: &[(String, Run)]) -> String {
    let mut out = String::from(
        "run,resources,truncated,bytes,missing,rate,requests,chunk_mean_us,chunk_p50_us,chunk_p99_us,timeouts,duplicated,beyond_end,opened,failed,given_up,competing,competing_rate,fairness,streams,reopened,refused,most_timeouts\r\n",
    );
    let number = |number: Option<f64>| number.map(|number| format!("{number:.3}")).unwrap_or_default();
    for (name, run) in runs {
        let streams = &run.whole.results.streams;
        let competing = &run.whole.results.competing;
        if streams.requests == 0 && competing.downloads == 0 {
            continue;
        }
        let times = &streams.chunk_times;
        let _ = write!(
            out,
            "{},{},{},{},{},{},{},{:.0},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
            field(name),
            streams.resources,
            streams.truncated,
            streams.bytes,
            streams.missing,
            number(run.whole.results.rate()),
            streams.requests,
            times.mean(),
            times.quantile(0.5),
            times.quantile(0.99),
            streams.timeouts,
            streams.duplicated,
            streams.beyond_end,
            streams.opened,
            streams.failed,
            streams.given_up,
            competing.downloads,
            number(competing.rate()),
            number(run.whole.results.fairness()),
            streams.streams,
            streams.reopened,
            streams.refused,
            streams.most_timeouts,
        );
    }
    out
}

/// Returns a table of the usage of machines: each row is the time between two readings.
pub fn hosts(runs: &[(String, Run)]) -> String {
    let mut out = String::from("run,host,at_ms,took_ms,cores,cpu,memory,sockets,opened,retransmits\r\n");
    for (start, record, sample) in readings(runs) {
        let _ = write!(
            out,
            "{start},{},{:.4},{},{},{},{}\r\n",
            record.cores,
            sample.busy as f64 / sample.ticks.max(1) as f64,
            sample.memory,
            sample.sockets,
            sample.opened,
            sample.retransmits,
        );
    }
    out
}

/// Returns a table of the bytes over each interface of machines, for the rows of [`hosts`].
pub fn interfaces(runs: &[(String, Run)]) -> String {
    let mut out = String::from("run,host,at_ms,took_ms,interface,received,sent\r\n");
    for (start, _, sample) in readings(runs) {
        for (interface, traffic) in &sample.interfaces {
            let _ = write!(out, "{start},{},{},{}\r\n", field(interface), traffic.received, traffic.sent);
        }
    }
    out
}

/// Iterates over the readings of all machines, each with the first columns of its row.
fn readings(runs: &[(String, Run)]) -> impl Iterator<Item = (String, &HostRecord, &HostSample)> {
    let hosts = runs.iter().flat_map(|(name, run)| run.whole.hosts.iter().map(move |host| (name, host)));
    hosts.flat_map(|(name, (host, record))| {
        let columns = move |sample: &HostSample| {
            format!("{},{},{},{}", field(name), field(host), sample.at, sample.took)
        };
        record.samples.iter().map(move |sample| (columns(sample), record, sample))
    })
}

/// Returns a table of the metrics of servers before and after each run. Values that are not known
/// are empty.
pub fn counters(runs: &[(String, Run)]) -> String {
    let mut out = String::from("run,url,sample,before,after\r\n");
    for (name, run) in runs {
        for (url, counters) in &run.whole.counters {
            let after = counters.after.as_ref();
            let samples: BTreeSet<&String> =
                counters.before.keys().chain(after.into_iter().flat_map(BTreeMap::keys)).collect();
            for sample in samples {
                let value = |value: Option<&f64>| value.map(f64::to_string).unwrap_or_default();
                let before = value(counters.before.get(sample));
                let after = value(after.and_then(|after| after.get(sample)));
                let _ = write!(out, "{},{},{},{before},{after}\r\n", field(name), field(url), field(sample));
            }
        }
    }
    out
}

/// Quotes a field if necessary.
pub(super) fn field(text: &str) -> String {
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
