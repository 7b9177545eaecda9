//! Responses by the labels of their requests and by status.

use http::StatusCode;
use latemux_packager::{Resource, address::HlsContainer};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

labels! {
    /// The protocol that a URL belongs to.
    #[derive(Default)]
    pub(crate) enum ProtocolLabel {
        Dash = "dash",
        /// HLS with TS, or with a container that the player chooses.
        HlsTs = "hls_ts",
        HlsCmaf = "hls_cmaf",
        Mss = "mss",
        Hds = "hds",
        /// Sheets of thumbnails and storyboards, which players of all protocols show.
        Thumbnails = "thumbnails",
        /// The page, the library and health checks.
        Page = "page",
        /// Everything else, such as URLs that do not exist.
        #[default]
        Other = "other",
    }
}

labels! {
    /// The class of a requested resource.
    #[derive(Default)]
    pub(crate) enum ClassLabel {
        Manifest = "manifest",
        Init = "init",
        Media = "media",
        #[default]
        Other = "other",
    }
}

/// The labels of a request in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RequestLabels {
    pub(crate) protocol: ProtocolLabel,
    pub(crate) class: ClassLabel,
}

impl RequestLabels {
    /// Labels of the page, the library and health checks.
    pub(crate) const PAGE: Self = Self { protocol: ProtocolLabel::Page, class: ClassLabel::Other };

    /// Returns the labels of a resource from its URL alone. HLS without a chosen container counts
    /// as TS.
    pub(crate) fn of(resource: &Resource) -> Self {
        use ClassLabel::{Init, Manifest, Media};
        use ProtocolLabel::{Dash, Hds, HlsCmaf, HlsTs, Mss, Thumbnails};
        let hls = |container: &HlsContainer| match container {
            HlsContainer::Auto => HlsTs,
            HlsContainer::Cmaf => HlsCmaf,
        };
        let (protocol, class) = match resource {
            Resource::DashManifest(_) => (Dash, Manifest),
            Resource::DashInit(_) => (Dash, Init),
            Resource::DashSegmentAt(..) | Resource::DashIFrame(..) | Resource::DashSegment(..) => {
                (Dash, Media)
            }
            Resource::HlsMultivariant(container)
            | Resource::HlsPlaylist(_, container)
            | Resource::HlsIFramePlaylist(_, container) => (hls(container), Manifest),
            Resource::HlsTsSegment(..) | Resource::HlsIFrameTs(..) => (HlsTs, Media),
            Resource::HlsText(_, _, container) => (hls(container), Media),
            Resource::HlsInit(_) | Resource::HlsLeadInit(_) => (HlsCmaf, Init),
            Resource::HlsSegment(..) | Resource::HlsIFrameCmaf(..) => (HlsCmaf, Media),
            Resource::ThumbnailSheet(..) => (Thumbnails, Media),
            Resource::ThumbnailPlaylist(_) | Resource::Storyboard => (Thumbnails, Manifest),
            Resource::SmoothManifest => (Mss, Manifest),
            Resource::SmoothFragment(..) => (Mss, Media),
            Resource::HdsManifest | Resource::HdsBootstrap(_) => (Hds, Manifest),
            Resource::HdsFragment(..) => (Hds, Media),
        };
        Self { protocol, class }
    }
}

/// Classes of status codes. `none` stands for responses whose head was not sent.
pub(crate) const STATUSES: [&str; 5] = ["none", "2xx", "3xx", "4xx", "5xx"];

fn status_class(status: Option<StatusCode>) -> usize {
    match status.map_or(0, |s| s.as_u16() / 100) {
        class @ 2..=5 => usize::from(class) - 1,
        _ => 0,
    }
}

/// Identifies a [`ResponseSeries`] of [`Responses`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesId(usize);

/// One series for every combination of labels, allocated at the start.
#[derive(Debug)]
pub(crate) struct Responses {
    series: Box<[ResponseSeries]>,
    /// Series for an index out of range, which does not occur.
    nowhere: ResponseSeries,
}

/// Counters of responses with the same labels and status class.
#[derive(Debug, Default)]
pub(crate) struct ResponseSeries {
    /// Responses, counted when their status is known or their client has left.
    pub(crate) count: AtomicU64,
    /// Bytes of body handed to connections.
    pub(crate) bytes: AtomicU64,
    /// Times from the request's head to the first byte of body, or to the end if there is no body.
    pub(crate) first_byte: Histogram,
    /// Times from the request's head until the last byte of body was handed over, for complete
    /// responses only.
    pub(crate) last_byte: Histogram,
}

impl Default for Responses {
    fn default() -> Self {
        let number = ProtocolLabel::ALL.len() * ClassLabel::ALL.len() * STATUSES.len();
        Self {
            series: std::iter::repeat_with(ResponseSeries::default).take(number).collect(),
            nowhere: ResponseSeries::default(),
        }
    }
}

impl Responses {
    /// Returns the series of responses with these labels and status. There is no status if the
    /// client left before the head was sent.
    pub(crate) fn series_of(labels: RequestLabels, status: Option<StatusCode>) -> SeriesId {
        let labels = labels.protocol as usize * ClassLabel::ALL.len() + labels.class as usize;
        SeriesId(labels * STATUSES.len() + status_class(status))
    }

    pub(crate) fn get(&self, id: SeriesId) -> &ResponseSeries {
        self.series.get(id.0).unwrap_or(&self.nowhere)
    }

    /// Returns the series that have counted something, with the labels protocol, class and status.
    pub(crate) fn counted(
        &self,
    ) -> impl Iterator<Item = ([(&'static str, &'static str); 3], &ResponseSeries)> {
        let labels = ProtocolLabel::ALL.iter().flat_map(|(_, protocol)| {
            ClassLabel::ALL.iter().flat_map(move |(_, class)| {
                STATUSES.map(|status| [("protocol", *protocol), ("class", *class), ("status", status)])
            })
        });
        labels.zip(&self.series).filter(|(_, series)| series.count.load(Relaxed) > 0)
    }
}

/// Upper bounds of the buckets of a histogram, in µs. One more bucket has no bound.
pub(crate) const BOUNDS: [u64; 16] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000,
];

/// A histogram of times without a lock. The histogram of the metrics library takes one.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// Sum of all times in µs.
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < us);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add(us, Relaxed);
    }

    /// Returns the number of times in each bucket, not cumulated, and the sum of all times in µs.
    pub(crate) fn snapshot(&self) -> ([u64; BOUNDS.len() + 1], u64) {
        (std::array::from_fn(|i| self.buckets.get(i).map_or(0, |b| b.load(Relaxed))), self.sum.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_labels_has_its_own_series() {
        let responses = Responses::default();
        let mut seen = 0;
        for (protocol, protocol_word) in ProtocolLabel::ALL {
            for (class, class_word) in ClassLabel::ALL {
                for (status, status_word) in [
                    (None, "none"),
                    (Some(204), "2xx"),
                    (Some(304), "3xx"),
                    (Some(416), "4xx"),
                    (Some(502), "5xx"),
                ] {
                    let status = status.map(|s| StatusCode::from_u16(s).unwrap());
                    let series = Responses::series_of(RequestLabels { protocol, class }, status);
                    responses.get(series).count.fetch_add(1, Relaxed);
                    seen += 1;
                    assert_eq!(responses.counted().count(), seen);
                    let last = [("protocol", protocol_word), ("class", class_word), ("status", status_word)];
                    assert!(responses.counted().any(|(labels, _)| labels == last), "{last:?}");
                }
            }
        }
        assert!(responses.counted().all(|(_, series)| series.count.load(Relaxed) == 1));
        assert_eq!(responses.nowhere.count.load(Relaxed), 0);
    }

    #[test]
    fn a_time_falls_into_the_first_bucket_whose_bound_is_not_below_it() {
        let histogram = Histogram::default();
        for us in [0, 250, 251, 30_000_000, 30_000_001] {
            histogram.observe(Duration::from_micros(us));
        }
        let (buckets, sum) = histogram.snapshot();
        assert_eq!((buckets[0], buckets[1], buckets[15], buckets[16]), (2, 1, 1, 1));
        assert_eq!(sum, 60_000_502);
    }
}
