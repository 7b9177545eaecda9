//! Which segment comes next.

use crate::{
    Address, Resource,
    segment::{Mux, smooth},
    selected::Selected,
};
use latemux_index::{Title, title::TrackName};
use std::time::Duration;

/// The address of the segment behind a segment, of the same tracks. `None` after the last one, and for all that is no media segment, such
/// as the single frames of trick play.
#[must_use]
pub fn following(title: &Title, address: &Address) -> Option<Address> {
    let selected = Selected::new(title, address).ok()?;
    let (title, minimum) = (selected.title(), selected.minimum);
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
            // Counted from 1: the next one's number, from 0, is this one's.
            let (_, track) = find(name)?;
            Resource::DashSegment(name.clone(), track.segment(*number)?.number.checked_add(1)?)
        }
        Resource::HlsSegment(names, number) => {
            Resource::HlsSegment(names.clone(), behind(title, names, *number, minimum)?)
        }
        Resource::HlsTsSegment(names, number) => {
            Resource::HlsTsSegment(names.clone(), behind(title, names, *number, minimum)?)
        }
        Resource::HdsFragment(names, number) => {
            Resource::HdsFragment(names.clone(), behind(title, names, *number, None)?)
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

/// Number, from 1, of the segment behind one of tracks packed together.
fn behind(title: &Title, names: &[TrackName], number: u32, minimum: Option<Duration>) -> Option<u32> {
    let tracks = names.iter().map(|name| title.find(name)).collect::<Option<Vec<_>>>()?;
    let mux = Mux::new(title, &tracks)?.joined(minimum);
    mux.following(number.checked_sub(1)?)?.checked_add(1)
}
