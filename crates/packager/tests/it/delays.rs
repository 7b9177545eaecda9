//! Times in Smooth Streaming and HDS: the packets are the same, but all of them are later by one
//! constant.

use crate::media::Source;
use latemux_testmedia::probe::{Packet, Stream};

/// Returns hashes and sizes of packets, which identify a stream.
pub(crate) fn fingerprint(stream: &Stream) -> Vec<(String, u64)> {
    stream.packets.iter().map(|p| (p.hash.clone(), p.size)).collect()
}

/// Finds the stream of a source that holds these packets, and returns it with those of its packets
/// that are present. Only packets at its start that are never shown may be absent.
#[track_caller]
pub(crate) fn matching_source<'a>(
    what: &str,
    got: &Stream,
    source: &'a Source,
) -> (&'a Stream, &'a [Packet]) {
    let ours = fingerprint(got);
    let of_kind = source.streams().map(|(.., stream)| stream).filter(|stream| stream.kind == got.kind);
    let mut same = of_kind.filter(|stream| fingerprint(stream).ends_with(&ours));
    let want = same.next().unwrap_or_else(|| panic!("{what} {}: no source has these packets", got.kind));
    let (hidden, shown) = want.packets.split_at(want.packets.len() - got.packets.len());
    assert!(hidden.iter().all(|p| p.pts + p.duration <= 0), "{what}: a packet that is shown is absent");
    assert_eq!(want.codec, got.codec, "{what}");
    for (n, (got, want)) in got.packets.iter().zip(shown).enumerate() {
        assert_eq!(got.key, want.key, "{what}: packet {n}");
    }
    (want, shown)
}

/// Delays of packets against their source.
#[derive(Default)]
pub(crate) struct Delays {
    presented: Vec<i64>,
    decoded: Vec<(String, i64)>,
}

impl Delays {
    /// Adds a packet with `dts` and `pts` that the source presents at `presented`. `decoded` is its
    /// decode time in the source, if the packet must keep it.
    pub(crate) fn add(&mut self, kind: &str, (dts, pts): (i64, i64), presented: i64, decoded: Option<i64>) {
        self.presented.push(pts - presented);
        self.decoded.extend(decoded.map(|decoded| (kind.to_owned(), dts - decoded)));
    }

    /// Returns the common delay of all packets, which must be less than a second of `scale` ticks.
    #[track_caller]
    pub(crate) fn common(mut self, what: &str, scale: i64) -> i64 {
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
        // One delay for video, one for audio.
        assert!(self.decoded.len() <= 2, "{what}: {:?}", self.decoded);
        self.presented[0]
    }
}
