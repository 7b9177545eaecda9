//! Playlists read back.
