//! What Smooth Streaming and HDS do to times: the same packets, all of them later by one constant.

use crate::media::Source;
use latemux_testmedia::probe::{Packet, Stream};

/// Bytes and sizes of packets: what a stream is known by.
pub(crate) fn fingerprint(stream: &Stream) -> Vec<(String, u64)> {
    stream.packets.iter().map(|p| (p.hash.clone(), p.size)).collect()
}

/// The stream of a source that holds these packets, and those of its own that are there: all but some at its start that are never shown.
#[track_caller]
pub(crate) fn origin_of<'a>(what: &str, got: &Stream, source: &'a Source) -> (&'a Stream, &'a [Packet]) {
    let ours = fingerprint(got);
    let of_kind = source.streams().map(|(.., stream)| stream).filter(|stream| stream.kind == got.kind);
    let mut same = of_kind.filter(|stream| fingerprint(stream).ends_with(&ours));
    let want = same.next().unwrap_or_else(|| panic!("{what} {}: of no source", got.kind));
    let (hidden, shown) = want.packets.split_at(want.packets.len() - got.packets.len());
    assert!(hidden.iter().all(|p| p.pts + p.duration <= 0), "{what}: only hidden ones go");
    assert_eq!(want.codec, got.codec, "{what}");
    for (n, (got, want)) in got.packets.iter().zip(shown).enumerate() {
        assert_eq!(got.key, want.key, "{what}: packet {n}");
    }
    (want, shown)
}

/// By how much times were moved.
#[derive(Default)]
pub(crate) struct Moved {
    presented: Vec<i64>,
    decoded: Vec<(String, i64)>,
}

impl Moved {
    /// Notes a packet of ours with `dts` and `pts`, which the source presents at `presented`. `decoded` where its decode time is to be
    /// that, and not just before its presentation.
    pub(crate) fn note(&mut self, kind: &str, (dts, pts): (i64, i64), presented: i64, decoded: Option<i64>) {
        self.presented.push(pts - presented);
        self.decoded.extend(decoded.map(|decoded| (kind.to_owned(), dts - decoded)));
    }

    /// The one delay of everything, within a second of `scale` ticks.
    #[track_caller]
    pub(crate) fn delay(mut self, what: &str, scale: i64) -> i64 {
        self.presented.sort_unstable();
        self.presented.dedup();
        assert_eq!(self.presented.len(), 1, "{what}: presented with delays {:?}", self.presented);
        assert!(
            (0..scale).contains(&self.presented[0]),
            "{what}: a delay of {} / {scale} s",
            self.presented[0]
        );
        self.decoded.sort_unstable();
        self.decoded.dedup();
        // One for video, one for audio.
        assert!(self.decoded.len() <= 2, "{what}: {:?}", self.decoded);
        self.presented[0]
    }
}
