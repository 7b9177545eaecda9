//! Writes the metrics as OpenMetrics text. `docs/operating.md` has a table of them.

use super::{
    CacheSnapshot, ClassLabel, ClientFigures, LookedUp, Metrics, Prefetched, ReadPurpose, Reloaded,
    ResultCounts, Written,
    process::Process,
    reasons::Reasons,
    responses::{BOUNDS, Histogram, ResponseSeries, STATUSES},
    storage::PurposeTotals,
};
use latemux_cache::CacheFigures;
use latemux_storage::{Outcome, Registry as BackEnds, counters::StorageFigures};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::{Registry, Unit},
};
use std::{
    fmt::Error,
    iter,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Media type of [`expose`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the body of `/metrics`.
pub(crate) fn expose(metrics: &Arc<Metrics>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(metrics.clone())));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Scrape(Arc<Metrics>);

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut out = Out(encoder);
        let metrics = &*self.0;
        responses(&mut out, metrics)?;
        storage(&mut out, metrics)?;
        back_ends(&mut out, metrics)?;
        let caches: Vec<CacheSnapshot> = metrics.watched().iter().map(|watch| watch.0()).collect();
        caches_of(&mut out, &caches)?;
        metrics.disk.get().map_or(Ok(()), |cache| unwritten(&mut out, &cache.figures()))?;
        let now = |number: &AtomicU64| number.load(Relaxed);
        let stale = [(NONE, now(&metrics.stale_manifests))];
        out.counters("latemux_stale_manifests", "Manifests that storage did not confirm", None, stale)?;
        let files = results(Written::ALL.map(|(_, word)| word), &metrics.index_files);
        let help = "Objects considered for writing an index MP4, by result";
        out.counters("latemux_index_files", help, None, files)?;
        let segments = results(Prefetched::ALL.map(|(_, word)| word), &metrics.prefetches);
        out.counters("latemux_prefetches", "Segments to prefetch, by result", None, segments)?;
        let cuts = results(LookedUp::ALL.map(|(_, word)| word), &metrics.stated_cuts);
        let help = "Segments whose cuts were looked up in an index MP4, by result";
        out.counters("latemux_stated_cuts", help, None, cuts)?;
        let reloads = results(Reloaded::ALL.map(|(_, word)| word), &metrics.reloads);
        out.counters("latemux_reloads", "Reloads of the configuration, by result", None, reloads)?;
        out.gauge("latemux_requests_in_flight", "Requests in flight", now(&metrics.in_flight))?;
        out.gauge("latemux_connections_open", "Open connections", now(&metrics.connections_open))?;
        let limit = now(&metrics.connections_limit);
        out.gauge("latemux_connections_limit", "Most connections that may be open", limit)?;
        let accepted = [(NONE, now(&metrics.connections))];
        out.counters("latemux_connections", "Accepted connections", None, accepted)?;
        metrics.clients.get().map_or(Ok(()), |clients| clients_of(&mut out, &clients.0()))?;
        out.info("latemux_build", "Version of the program", &[("version", env!("CARGO_PKG_VERSION"))])?;
        Process::read().map_or(Ok(()), |process| describe(&mut out, &process))
    }
}

fn clients_of(out: &mut Out<'_>, figures: &ClientFigures) -> Result<(), Error> {
    let help = "Bytes reserved for responses on their way to clients";
    let bytes = Some(&Unit::Bytes);
    out.gauges("latemux_responses_memory", help, bytes, [(NONE, figures.response_bytes)])?;
    let help = "Most bytes reserved for responses on their way to clients";
    out.gauges("latemux_responses_memory_limit", help, bytes, [(NONE, figures.response_limit)])?;
    let help = "Responses that gave back their source bytes because their clients were slow";
    out.counters("latemux_responses_paused", help, None, [(NONE, figures.pauses)])?;
    let help = "Idle connections closed because others needed their place";
    out.counters("latemux_connections_evicted", help, None, [(NONE, figures.evicted)])?;
    let help = "Connections closed at once because of the limits for one address";
    out.counters("latemux_connections_refused", help, None, [(NONE, figures.refused)])
}

/// Returns the counts by result, with their labels.
fn results<const N: usize>(
    words: [&'static str; N],
    counts: &ResultCounts<N>,
) -> impl Iterator<Item = ([(&'static str, &'static str); 1], u64)> {
    words.into_iter().zip(&counts.0).map(|(word, count)| ([("outcome", word)], count.load(Relaxed)))
}

fn responses(out: &mut Out<'_>, metrics: &Metrics) -> Result<(), Error> {
    let series = || metrics.responses.counted();
    let count = series().map(|(labels, series)| (labels, series.count.load(Relaxed)));
    let help = "Responses. The status is none if the client left before the head";
    out.counters("latemux_responses", help, None, count)?;
    let bytes = series().map(|(labels, series)| (labels, series.bytes.load(Relaxed)));
    out.counters("latemux_response", "Bytes of body handed to connections", Some(&Unit::Bytes), bytes)?;
    let mut times = |name, help, of: fn(&ResponseSeries) -> &Histogram| {
        // Responses without a head have no times.
        let with_head = series().filter(|(labels, _)| labels.iter().all(|(_, word)| *word != STATUSES[0]));
        out.histograms(name, help, with_head.map(|(labels, series)| (labels, of(series))))
    };
    let help = "Time from the end of a request's head to the first byte of body";
    times("latemux_response_first_byte", help, |s| &s.first_byte)?;
    let help = "Time to the last byte of body, complete responses only";
    times("latemux_response_last_byte", help, |s| &s.last_byte)?;
    let outcomes = ClassLabel::ALL.iter().zip(&metrics.outcomes).flat_map(|((_, class), outcomes)| {
        let words = iter::once(&"none").chain(&Outcome::NAMES).zip(outcomes);
        words.map(|(word, count)| ([("class", *class), ("outcome", *word)], count.load(Relaxed)))
    });
    let help = "Responses by the most expensive outcome of their look-ups and reads";
    out.counters("latemux_response_outcomes", help, None, outcomes.filter(|(_, count)| *count > 0))?;
    let mut reasons = |name, help, reasons: &Reasons| {
        out.counters(name, help, None, reasons.counted().map(|(reason, count)| ([("reason", reason)], count)))
    };
    reasons("latemux_refusals", "Responses that are errors", &metrics.refusals)?;
    reasons("latemux_broken_off", "Responses that ended early", &metrics.broken_off)
}

fn storage(out: &mut Out<'_>, metrics: &Metrics) -> Result<(), Error> {
    let mut each = |name, help, unit, of: fn(&PurposeTotals) -> &AtomicU64| {
        let kinds = ReadPurpose::ALL.iter().map(|(purpose, kind)| {
            let count = of(metrics.storage.of(*purpose)).load(Relaxed);
            ([("kind", *kind)], count)
        });
        out.counters(name, help, unit, kinds)
    };
    each("latemux_storage_requests", "Requests to storage", None, |t| &t.requests)?;
    each("latemux_storage_errors", "Requests to storage that failed", None, |t| &t.errors)?;
    each("latemux_storage_read", "Bytes of bodies from storage", Some(&Unit::Bytes), |t| &t.bytes)?;
    let times = ReadPurpose::ALL
        .iter()
        .map(|(purpose, kind)| ([("kind", *kind)], &metrics.storage.of(*purpose).first_byte));
    let help = "Time from a request to storage to the head of its response";
    out.histograms("latemux_storage_first_byte", help, times)?;
    let used = metrics.media_used.load(Relaxed);
    let help = "Source bytes that went into responses";
    out.counters("latemux_media_used", help, Some(&Unit::Bytes), [(NONE, used)])?;
    let read = metrics.storage.of(ReadPurpose::Media).bytes.load(Relaxed);
    let help = "Source bytes that went into responses, divided by the media bytes read from storage";
    match read {
        0 => Ok(()),
        read => out.ratio("latemux_conversion_efficiency", help, used, read),
    }
}

/// Writes the counters that the client of each back end keeps.
fn back_ends(out: &mut Out<'_>, metrics: &Metrics) -> Result<(), Error> {
    let all = metrics.back_ends.get().map(BackEnds::all).unwrap_or_default();
    let all: Vec<(String, StorageFigures)> =
        all.into_iter().map(|(name, counters)| (name, counters.figures())).collect();
    if all.is_empty() {
        return Ok(());
    }
    let each = |of: fn(&StorageFigures) -> u64| {
        all.iter().map(move |(name, figures)| ([("backend", name.as_str())], of(figures)))
    };
    let mut counters = |name, help, of| out.counters(name, help, None, each(of));
    counters("latemux_storage_retries", "Retries", |f| f.retries)?;
    let help = "Retries not made because the budget was used up";
    counters("latemux_storage_retries_refused", help, |f| f.retries_refused)?;
    counters("latemux_storage_resumed", "Retries for the rest of an interrupted body", |f| f.resumed)?;
    counters("latemux_storage_hedges", "Second requests sent beside slow ones", |f| f.hedges)?;
    counters("latemux_storage_hedges_won", "Second requests that got a response first", |f| f.hedges_won)?;
    counters("latemux_storage_timeouts", "Connections, responses and bodies that timed out", |f| f.timeouts)?;
    counters("latemux_storage_throttled", "Responses that asked to slow down", |f| f.throttled)?;
    let help = "Requests that failed because of the back end, after all retries";
    counters("latemux_storage_failed", help, |f| f.failed)?;
    counters("latemux_storage_fallbacks", "Requests that this mirror answered for another", |f| f.fallbacks)?;
    counters("latemux_storage_busy", "Requests that got no permit in time", |f| f.busy)?;
    counters("latemux_storage_waits", "Requests that waited for a permit", |f| f.waited)?;
    counters("latemux_storage_split", "Long reads that were split among several requests", |f| f.split)?;
    let mut gauges = |name, help, of| out.gauges(name, help, None, each(of));
    gauges("latemux_storage_streams", "Requests among which long reads are split", |f| f.streams)?;
    let help = "Median throughput of long reads with one request, in bytes per second";
    gauges("latemux_storage_rate_of_one", help, |f| f.rate_of_one)?;
    let help = "Median throughput of long reads with latemux_storage_streams requests, in bytes per second";
    gauges("latemux_storage_rate_of_streams", help, |f| f.rate_of_streams)?;
    gauges("latemux_storage_in_flight", "Requests in flight", |f| f.in_flight)?;
    gauges("latemux_storage_queued", "Requests that wait for a permit", |f| f.queued)?;
    let help = "1 while the storage counts as failing, so that its mirrors are asked first";
    gauges("latemux_storage_suspended", help, |f| f.suspended)
}

fn caches_of(out: &mut Out<'_>, caches: &[CacheSnapshot]) -> Result<(), Error> {
    let each = |of: fn(&CacheSnapshot) -> u64| {
        caches.iter().map(move |cache| ([("cache", cache.cache), ("tier", cache.tier)], of(cache)))
    };
    out.gauges("latemux_cache", "Bytes in the cache", Some(&Unit::Bytes), each(|c| c.bytes))?;
    let help = "Most bytes the cache may hold";
    out.gauges("latemux_cache_limit", help, Some(&Unit::Bytes), each(|c| c.limit))?;
    out.gauges("latemux_cache_entries", "Entries in the cache", None, each(|c| c.entries))?;
    out.counters("latemux_cache_hits", "Look-ups that found an entry", None, each(|c| c.hits))?;
    out.counters("latemux_cache_misses", "Look-ups that found none", None, each(|c| c.misses))?;
    let help = "Waits for work that another request had started";
    out.counters("latemux_cache_joins", help, None, each(|c| c.joins))?;
    let help = "Entries evicted, replaced, or refused as too large";
    out.counters("latemux_cache_evictions", help, None, each(|c| c.evictions))
}

/// Writes the number of units that the range cache could not write to its disk.
fn unwritten(out: &mut Out<'_>, disk: &CacheFigures) -> Result<(), Error> {
    let reasons = [
        ("queue_full", disk.disk_dropped_full),
        ("disk_failed", disk.disk_dropped_failed),
        ("shutdown", disk.disk_dropped_closed),
    ];
    let reasons = reasons.map(|(reason, units)| ([("reason", reason)], units));
    out.counters("latemux_cache_disk_dropped", "Units that were not written to disk", None, reasons)
}

/// Writes the figures of the process under the names that Prometheus' own clients use.
fn describe(out: &mut Out<'_>, process: &Process) -> Result<(), Error> {
    out.seconds_used("process_cpu", "CPU time used", process.cpu)?;
    let memory = Some(&Unit::Bytes);
    out.gauges("process_resident_memory", "Memory in RAM", memory, [(NONE, process.resident)])?;
    let help = "Largest amount of memory in RAM so far";
    out.gauges("process_resident_memory_max", help, memory, [(NONE, process.resident_max)])?;
    out.gauge("process_threads", "Threads", process.threads)?;
    out.gauge("process_open_fds", "Open file descriptors", process.open_fds)?;
    out.gauge("process_max_fds", "Most file descriptors that may be open", process.max_fds)?;
    out.seconds("process_start_time", "Start of the process, since 1970", process.started)
}

/// The empty list of labels.
const NONE: [(&str, &str); 0] = [];

/// Writes one metric for each call.
struct Out<'a>(DescriptorEncoder<'a>);

/// No exemplar, in the type that the library expects.
const NO_EXEMPLAR: Option<&Exemplar<[(&str, &str); 0], f64>> = None;

impl Out<'_> {
    fn counters<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        series: impl IntoIterator<Item = (L, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        let mut series = series.into_iter();
        series.try_for_each(|(labels, n)| metric.encode_family(&labels)?.encode_counter(&n, NO_EXEMPLAR))
    }

    fn gauges<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        series: impl IntoIterator<Item = (L, u64)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        series.into_iter().try_for_each(|(labels, n)| metric.encode_family(&labels)?.encode_gauge(&n))
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        self.gauges(name, help, None, [(NONE, value)])
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits are precise enough for a ratio")]
    fn ratio(&mut self, name: &str, help: &str, part: u64, whole: u64) -> Result<(), Error> {
        let ratio = part as f64 / whole as f64;
        self.0
            .encode_descriptor(name, help, Some(&Unit::Other("ratio".to_owned())), MetricType::Gauge)?
            .encode_gauge(&ratio)
    }

    fn seconds(&mut self, name: &str, help: &str, value: f64) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?.encode_gauge(&value)
    }

    fn seconds_used(&mut self, name: &str, help: &str, value: f64) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Counter)?;
        metric.encode_counter(&value, NO_EXEMPLAR)
    }

    fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Result<(), Error> {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(&labels)
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years fit")]
    fn histograms<'a, L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        series: impl Iterator<Item = (L, &'a Histogram)>,
    ) -> Result<(), Error> {
        let mut metric = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (labels, histogram) in series {
            let (buckets, sum) = histogram.snapshot();
            // Requests go on meanwhile. The sum of these buckets is a count that agrees with them.
            let count = buckets.iter().sum();
            let bounds = BOUNDS.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(buckets).collect();
            let mut family = metric.encode_family(&labels)?;
            family.encode_histogram::<[(&str, &str); 0]>(sum as f64 / 1e6, count, &buckets, None)?;
        }
        Ok(())
    }
}
