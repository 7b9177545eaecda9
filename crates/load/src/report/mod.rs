//! Results for people: a table, a page with plots, and tables for other programs.

pub mod csv;
mod html;
mod plot;
mod summary;

pub use html::page;
pub(crate) use summary::limits;
pub use summary::summary;
