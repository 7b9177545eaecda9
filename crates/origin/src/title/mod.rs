//! From a base to a title: the objects it names, and their indexes.

pub(crate) mod beside;
pub(crate) mod flight;
pub(crate) mod index;
pub(crate) mod library;
pub(crate) mod manifest_tracks;
pub(crate) mod manifests;
pub(crate) mod media;
pub(crate) mod memo;
pub(crate) mod persisted;
pub(crate) mod places;
pub(crate) mod resolve;
pub(crate) mod titles;
pub(crate) mod write_index;
