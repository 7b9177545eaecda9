//! MPEG-DASH: the MPD (ISO/IEC 23009-1).

use crate::{PackError, address::DashTemplate};
use latemux_index::Title;

/// The MPD of a title. `name` is the basename its segment URLs carry.
///
/// # Errors
/// [`PackError::CannotCarry`] where DASH carries none of its tracks.
pub fn mpd(title: &Title, template: DashTemplate) -> Result<String, PackError> {
    let _ = (title, template);
    todo!()
}
