//! The segment that follows another one, for prefetching.

use crate::{
    Address, Resource,
    segment::{PackedTracks, smooth},
    selection::Selected,
};
use latemux_index::{Title, title::TrackName};
use std::time::Duration;

/// Returns the address of the segment that follows a segment of the same tracks. `None` after the
/// last segment, and for resources that are not media segments, such as I-frames.
pub fn following(title: &Title, address: &Address) -> Option<Address> {
    let selected = Selected::new(title, &address.selection, false).ok()?;
    let title = selected.title();
    let minimum = selected.minimum;
    let find = |name: &TrackName| {
        let index = title.find(name)?;
        Some((index, title.tracks().get(index)?))
    };
    let resource = match &address.resource {
        Resource::DashSegmentAt(name, time) => {
            let (_, track) = find(name)?;
            let this = track.segment_at(i64::try_from(*time).ok()?)?;
            let next = track.segment(this.number.checked_add(1)?)?;
            Resource::DashSegmentAt(name.clone(), u64::try_from(next.start).ok()?)
        }
        Resource::DashSegment(name, number) => {
            // Numbers in URLs count from 1, in the index from 0: this is the next one's index.
            let (_, track) = find(name)?;
            Resource::DashSegment(name.clone(), track.segment(*number)?.number.checked_add(1)?)
        }
        Resource::HlsSegment(names, number) => {
            Resource::HlsSegment(names.clone(), number_after(title, names, *number, minimum)?)
        }
        Resource::HlsTsSegment(names, number) => {
            Resource::HlsTsSegment(names.clone(), number_after(title, names, *number, minimum)?)
        }
        Resource::HlsText(name, number, container) => {
            let next = number_after(title, std::slice::from_ref(name), *number, minimum)?;
            Resource::HlsText(name.clone(), next, *container)
        }
        Resource::HdsFragment(names, number) => {
            Resource::HdsFragment(names.clone(), number_after(title, names, *number, None)?)
        }
        Resource::SmoothFragment(name, time) => {
            let (index, track) = find(name)?;
            let clock = smooth::clock(title);
            let this = clock.segment_at(index, i64::try_from(*time).ok()?)?;
            let next = track.segment(this.checked_add(1)?)?.number;
            Resource::SmoothFragment(name.clone(), u64::try_from(clock.boundary(index, next)?).ok()?)
        }
        _ => return None,
    };
    Some(Address { resource, ..address.clone() })
}

/// Returns the 1-based number of the segment that follows one of tracks packed together.
fn number_after(title: &Title, names: &[TrackName], number: u32, minimum: Option<Duration>) -> Option<u32> {
    let tracks = names.iter().map(|name| title.find(name)).collect::<Option<Vec<_>>>()?;
    let packed = PackedTracks::new(title, &tracks)?.joined(minimum);
    packed.following(number.checked_sub(1)?)?.checked_add(1)
}
