//! Bootstrap information: `abst` with its segment and fragment run tables (Adobe Flash Video File
//! Format Specification 10.1 §2.11.2).

use super::Fragments;
use crate::segment::f4f;
use bytes::BufMut as _;
use latemux_isobmff::{FourCc, emit::put_header};

/// Returns the `abst` of fragments.
pub(super) fn information(listed: &Fragments) -> Vec<u8> {
    let times = &listed.times;
    let count = u32::try_from(times.len().saturating_sub(1)).unwrap_or(u32::MAX);
    // Fragments before a clip count too: players find a fragment's segment by its number.
    let fragments = listed.first.saturating_sub(1) + count;
    let mut fields = Vec::new();
    // Version and flags; the version of the information; profile "named", not live, no update.
    fields.put_u32(0);
    fields.put_u32(1);
    fields.put_u8(0);
    fields.put_u32(f4f::SCALE.get());
    // CurrentMediaTime: the end, because the presentation is complete. SmpteTimeCodeOffset.
    fields.put_i64(times.last().copied().unwrap_or(0));
    fields.put_u64(0);
    // MovieIdentifier, ServerEntryCount, QualityEntryCount, DrmData, MetaData: none.
    fields.put_bytes(0, 5);
    let mut segments = Vec::new();
    segments.put_u32(0);
    // No quality entries; one run: the first segment holds all fragments.
    segments.put_u8(0);
    segments.put_u32(1);
    segments.put_u32(1);
    segments.put_u32(fragments);

    // SegmentRunTableCount and FragmentRunTableCount precede their tables.
    fields.put_u8(1);
    put_box(&mut fields, *b"asrt", &segments);
    fields.put_u8(1);
    put_box(&mut fields, *b"afrt", &fragment_runs(listed));
    let mut information = Vec::new();
    put_box(&mut information, *b"abst", &fields);
    information
}

fn put_box(out: &mut Vec<u8>, kind: [u8; 4], payload: &[u8]) {
    put_header(out, FourCc(kind), payload.len() as u64);
    out.put_slice(payload);
}

/// Returns the payload of `afrt`, in milliseconds: one entry for a run of equal durations. The last
/// fragment has its own, because some players take a run before the end for one fragment.
fn fragment_runs(listed: &Fragments) -> Vec<u8> {
    let times = &listed.times;
    let mut runs: Vec<(u32, i64, u32)> = Vec::new();
    for ((number, position), pair) in (listed.first..).zip(0..).zip(times.windows(2)) {
        let &[start, end] = pair else { continue };
        // A duration of 0 would state the end of the presentation.
        let duration = u32::try_from((end - start).max(1)).unwrap_or(u32::MAX);
        if position + 2 == times.len() || runs.last().is_none_or(|run| run.2 != duration) {
            runs.push((number, start, duration));
        }
    }
    let mut fields = Vec::new();
    fields.put_u32(0);
    fields.put_u32(f4f::SCALE.get());
    fields.put_u8(0);
    fields.put_u32(u32::try_from(runs.len() + 1).unwrap_or(u32::MAX));
    for (first, start, duration) in runs {
        fields.put_u32(first);
        fields.put_i64(start);
        fields.put_u32(duration);
    }
    // DiscontinuityIndicator 0: end of presentation.
    fields.put_u32(0);
    fields.put_u64(0);
    fields.put_u32(0);
    fields.put_u8(0);
    fields
}
