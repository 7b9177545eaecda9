//! Answers by what was asked for and how it was answered.

use http::StatusCode;
use latemux_packager::{Resource, address::HlsContainer};
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Whose URL it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    Dash,
    /// HLS whose URLs let TS be chosen.
    HlsTs,
    HlsCmaf,
    Mss,
    Hds,
    /// The page, the library, health.
    Page,
    /// Nothing that exists here.
    #[default]
    Other,
}

impl Protocol {
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::Dash, "dash"),
        (Self::HlsTs, "hls_ts"),
        (Self::HlsCmaf, "hls_cmaf"),
        (Self::Mss, "mss"),
        (Self::Hds, "hds"),
        (Self::Page, "page"),
        (Self::Other, "other"),
    ];
}

/// What kind of thing was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Class {
    Manifest,
    Init,
    Media,
    #[default]
    Other,
}

impl Class {
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Manifest, "manifest"), (Self::Init, "init"), (Self::Media, "media"), (Self::Other, "other")];
}

/// What a request was for, as far as numbers tell requests apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kind {
    pub(crate) protocol: Protocol,
    pub(crate) class: Class,
}

impl Kind {
    /// The page, the library, health.
    pub(crate) const PAGE: Self = Self { protocol: Protocol::Page, class: Class::Other };

    /// By the form of the URL alone: HLS that leaves the container open counts as TS.
    pub(crate) fn of(resource: &Resource) -> Self {
        use Class::{Init, Manifest, Media};
        use Protocol::{Dash, Hds, HlsCmaf, HlsTs, Mss};
        let hls = |container: &HlsContainer| match container {
            HlsContainer::Auto => HlsTs,
            HlsContainer::Cmaf => HlsCmaf,
        };
        let (protocol, class) = match resource {
            Resource::DashManifest(_) => (Dash, Manifest),
            Resource::DashInit(_) => (Dash, Init),
            Resource::DashSegmentAt(..) | Resource::DashSegment(..) => (Dash, Media),
            Resource::HlsMultivariant(container)
            | Resource::HlsPlaylist(_, container)
            | Resource::HlsIFramePlaylist(_, container) => (hls(container), Manifest),
            Resource::HlsTsSegment(..) | Resource::HlsIFrameTs(..) => (HlsTs, Media),
            Resource::HlsInit(_) => (HlsCmaf, Init),
            Resource::HlsSegment(..) | Resource::HlsIFrameCmaf(..) => (HlsCmaf, Media),
            Resource::SmoothManifest => (Mss, Manifest),
            Resource::SmoothFragment(..) => (Mss, Media),
            Resource::HdsManifest | Resource::HdsBootstrap(_) => (Hds, Manifest),
            Resource::HdsFragment(..) => (Hds, Media),
        };
        Self { protocol, class }
    }
}

/// Classes of status codes; `none` where no head was sent.
pub(crate) const STATUSES: [&str; 5] = ["none", "2xx", "3xx", "4xx", "5xx"];

fn status_class(status: Option<StatusCode>) -> usize {
    match status.map_or(0, |s| s.as_u16() / 100) {
        class @ 2..=5 => usize::from(class) - 1,
        _ => 0,
    }
}

/// Names a [`Series`] of [`Responses`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Which(usize);

/// Every combination of labels there is, made once.
#[derive(Debug)]
pub(crate) struct Responses {
    series: Box<[Series]>,
    /// Where an index that cannot be goes.
    nowhere: Series,
}

/// Answers of one kind and status.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Answers whose status was decided.
    pub(crate) count: AtomicU64,
    /// Bytes of body handed to connections.
    pub(crate) bytes: AtomicU64,
    /// From the request's head to the first byte of body, or to the end where there is none.
    pub(crate) first_byte: Histogram,
    /// From the request's head until the last byte of body was handed over; complete answers only.
    pub(crate) last_byte: Histogram,
}

impl Default for Responses {
    fn default() -> Self {
        let number = Protocol::ALL.len() * Class::ALL.len() * STATUSES.len();
        Self {
            series: std::iter::repeat_with(Series::default).take(number).collect(),
            nowhere: Series::default(),
        }
    }
}

impl Responses {
    /// Where answers of a kind and status are counted; no status where the client left before.
    pub(crate) fn which(kind: Kind, status: Option<StatusCode>) -> Which {
        let kind = kind.protocol as usize * Class::ALL.len() + kind.class as usize;
        Which(kind * STATUSES.len() + status_class(status))
    }

    pub(crate) fn get(&self, which: Which) -> &Series {
        self.series.get(which.0).unwrap_or(&self.nowhere)
    }

    /// All that counted something, with their labels: protocol, class, status.
    pub(crate) fn counted(&self) -> impl Iterator<Item = ([(&'static str, &'static str); 3], &Series)> {
        let labels = Protocol::ALL.iter().flat_map(|(_, protocol)| {
            Class::ALL.iter().flat_map(move |(_, class)| {
                STATUSES.map(|status| [("protocol", *protocol), ("class", *class), ("status", status)])
            })
        });
        labels.zip(&self.series).filter(|(_, series)| series.count.load(Relaxed) > 0)
    }
}

/// Upper bounds of the buckets of times, in µs; one more has no bound.
pub(crate) const BOUNDS: [u64; 16] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000,
];

/// How often what took how long. Not the library's: that one takes a lock to observe.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    /// µs.
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

    /// Number in each bucket alone, and the sum of all times in µs.
    pub(crate) fn snapshot(&self) -> ([u64; BOUNDS.len() + 1], u64) {
        (std::array::from_fn(|i| self.buckets.get(i).map_or(0, |b| b.load(Relaxed))), self.sum.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_has_a_place_of_its_own_and_its_labels() {
        let responses = Responses::default();
        let mut seen = 0;
        for (protocol, protocol_word) in Protocol::ALL {
            for (class, class_word) in Class::ALL {
                for (status, status_word) in [
                    (None, "none"),
                    (Some(204), "2xx"),
                    (Some(304), "3xx"),
                    (Some(416), "4xx"),
                    (Some(502), "5xx"),
                ] {
                    let status = status.map(|s| StatusCode::from_u16(s).unwrap());
                    let which = Responses::which(Kind { protocol, class }, status);
                    responses.get(which).count.fetch_add(1, Relaxed);
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
    fn a_time_is_in_the_first_bucket_that_is_not_below_it() {
        let histogram = Histogram::default();
        for us in [0, 250, 251, 30_000_000, 30_000_001] {
            histogram.observe(Duration::from_micros(us));
        }
        let (buckets, sum) = histogram.snapshot();
        assert_eq!((buckets[0], buckets[1], buckets[15], buckets[16]), (2, 1, 1, 1));
        assert_eq!(sum, 60_000_502);
    }
}
