//! The boxes that state where fragments are: `sidx` and `mfra`.

use super::{Index, Run};
use crate::rewrite::{boxed, put};
use std::{collections::BTreeMap, ops::Range};

/// The values that indexes are made from.
pub(super) struct Plan<'a> {
    pub(super) fragments: &'a [Vec<Run>],
    /// Size of each fragment in bytes.
    pub(super) sizes: &'a [usize],
    pub(super) scales: &'a BTreeMap<u32, u32>,
}

/// Returns the composition times of a run: from its first sample in presentation order to the end
/// of its last.
fn composition(run: &Run) -> Range<u64> {
    let mut at = run.decode_time;
    let times: Vec<Range<u64>> = run
        .samples
        .iter()
        .map(|s| {
            let start = at.checked_add_signed(s.composition_offset.into()).expect("not before 0");
            at += u64::from(s.duration);
            start..start + u64::from(s.duration)
        })
        .collect();
    let start = times.iter().map(|t| t.start).min().expect("samples");
    start..times.iter().map(|t| t.end).max().expect("samples")
}

impl Plan<'_> {
    /// Returns the indexes before the first fragment, and those before other fragments with their
    /// numbers.
    pub(super) fn segment_indexes(&self, index: Index) -> (Vec<u8>, Vec<(usize, Vec<u8>)>) {
        let all = 0..self.fragments.len();
        let first = 0..all.end / 2;
        let second = first.end..all.end;
        match index {
            Index::Neither | Index::Mfra => (Vec::new(), Vec::new()),
            Index::Sidx | Index::Both => (self.of_all_tracks(&all), Vec::new()),
            Index::SidxTree => {
                let halves = [&first, &second].map(|half| self.of_all_tracks(half));
                let count = self.scales.len();
                let one = [0, 1].map(|half: usize| halves[half].len() / count);
                let media_size = |half: &Range<usize>| self.sizes[half.clone()].iter().sum::<usize>();
                let mut roots = Vec::new();
                for (n, &track) in self.scales.keys().enumerate() {
                    // From this track's index of the first half to that of the second, and from
                    // there to the end.
                    let one_to_other = (count - n) * one[0] + media_size(&first) + n * one[1];
                    let to_end = (count - n) * one[1] + media_size(&second);
                    let references = [
                        (true, one_to_other, self.duration(track, &first)),
                        (true, to_end, self.duration(track, &second)),
                    ];
                    // Past the roots of other tracks and, from there, to the first index of this
                    // track.
                    let root = self.sidx(track, 0, 0, &references).len();
                    roots.extend(self.sidx(track, 0, (count - 1 - n) * root + n * one[0], &references));
                }
                roots.extend(&halves[0]);
                (roots, vec![(second.start, halves[1].clone())])
            }
            Index::SidxChain => {
                let [(&track, _)] = self.scales.iter().collect::<Vec<_>>()[..] else { panic!("one track") };
                let last = self.of_all_tracks(&second);
                let mut references = self.media(track, &first);
                references.push((true, last.len(), self.duration(track, &second)));
                (self.sidx(track, 0, 0, &references), vec![(second.start, last)])
            }
        }
    }

    /// Returns a `sidx` for each track, one behind the other, of the fragments that follow.
    fn of_all_tracks(&self, range: &Range<usize>) -> Vec<u8> {
        let one = |track, skipped| self.sidx(track, range.start, skipped, &self.media(track, range));
        let last = self.scales.len() - 1;
        let size = |track| one(track, 0).len();
        let indexes = self.scales.keys().enumerate();
        indexes.flat_map(|(n, &track)| one(track, (last - n) * size(track))).collect()
    }

    /// Returns the references to these fragments.
    fn media(&self, track: u32, range: &Range<usize>) -> Vec<(bool, usize, u64)> {
        range.clone().map(|n| (false, self.sizes[n], self.duration(track, &(n..n + 1)))).collect()
    }

    /// Returns the composition time at which a fragment starts, or the end of the last one.
    fn start(&self, track: u32, number: usize) -> u64 {
        let run = |runs: &Vec<Run>| runs.iter().find(|run| run.track == track).map(composition);
        let times: Vec<_> = self.fragments.iter().map(|runs| run(runs).expect("of every track")).collect();
        times.get(number).map_or(times[times.len() - 1].end, |times| times.start)
    }

    /// Returns the duration of these fragments.
    fn duration(&self, track: u32, range: &Range<usize>) -> u64 {
        self.start(track, range.end) - self.start(track, range.start)
    }

    /// Writes a `sidx` whose references are (is an index, size, duration). The first one lies
    /// `skipped` bytes behind it.
    fn sidx(&self, track: u32, first: usize, skipped: usize, references: &[(bool, usize, u64)]) -> Vec<u8> {
        let word = |n: u64| u32::try_from(n).expect("small test files").to_be_bytes();
        let mut payload = vec![1, 0, 0, 0];
        payload.extend(track.to_be_bytes());
        payload.extend(self.scales[&track].to_be_bytes());
        payload.extend(self.start(track, first).to_be_bytes());
        payload.extend((skipped as u64).to_be_bytes());
        payload.extend(word(references.len() as u64));
        for &(is_index, size, duration) in references {
            payload.extend(word(u64::from(is_index) << 31 | size as u64));
            payload.extend(word(duration));
            // Starts with a sync sample (SAP type 1).
            payload.extend([0x90, 0, 0, 0]);
        }
        boxed(*b"sidx", &payload)
    }
}

/// Appends a `mfra` with the first sample of every fragment. `moofs` holds the offset of each
/// `moof` and the tracks in it.
pub(super) fn random_access(fragments: &[Vec<Run>], moofs: &[(usize, Vec<u32>)], out: &mut Vec<u8>) {
    let mut mfra = Vec::new();
    let tracks: std::collections::BTreeSet<u32> = fragments.iter().flatten().map(|run| run.track).collect();
    for track in tracks {
        let runs = fragments.iter().flatten().filter(|run| run.track == track);
        let position =
            |(at, tracks): &(usize, Vec<u32>)| tracks.iter().position(|t| *t == track).map(|n| (*at, n));
        let mut entries = Vec::new();
        for (run, (at, traf)) in runs.zip(moofs.iter().filter_map(position)) {
            entries.extend(composition(run).start.to_be_bytes());
            entries.extend((at as u64).to_be_bytes());
            entries.extend([u8::try_from(traf + 1).expect("few tracks"), 1, 1]);
        }
        let count = u32::try_from(entries.len() / 19).expect("a count");
        let head = [[1, 0, 0, 0], track.to_be_bytes(), [0; 4], count.to_be_bytes()].concat();
        put(&mut mfra, *b"tfra", &[head, entries].concat(), false);
    }
    let size = u32::try_from(mfra.len() + 8 + 16).expect("small");
    put(&mut mfra, *b"mfro", &[[0; 4], size.to_be_bytes()].concat(), false);
    put(out, *b"mfra", &mfra, false);
}
