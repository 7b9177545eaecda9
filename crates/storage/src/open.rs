//! From what a user writes to a storage.
