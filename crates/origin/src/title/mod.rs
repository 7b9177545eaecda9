//! From a base to a title: the files of a title, their indexes, and the caches of both.

pub(crate) mod checks;
pub(crate) mod current;
pub(crate) mod cut_box_maker;
pub(crate) mod cut_records;
pub(crate) mod index_reader;
pub(crate) mod index_record;
pub(crate) mod index_store;
pub(crate) mod index_writer;
pub(crate) mod indexed;
pub(crate) mod indexer;
pub(crate) mod library;
pub(crate) mod loaded_title;
pub(crate) mod loading_memory;
pub(crate) mod manifest_tracks;
pub(crate) mod memory_cache;
pub(crate) mod quick_work;
pub(crate) mod references;
pub(crate) mod refused;
pub(crate) mod renditions;
pub(crate) mod resolve;
pub(crate) mod single_flight;
pub(crate) mod sources;
pub(crate) mod storages;
pub(crate) mod tile_names;
pub(crate) mod titles;
pub(crate) mod work_queue;
