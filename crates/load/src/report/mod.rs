//! Results for people and other programs: a text, a page and tables.

pub mod csv;
mod html;
mod summary;

pub use html::page;
pub use summary::summary;
pub(crate) use summary::{generator, generator_notes};
