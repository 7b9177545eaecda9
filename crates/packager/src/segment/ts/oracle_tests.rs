//! Independent readers.
