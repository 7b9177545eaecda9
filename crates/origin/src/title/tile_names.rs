//! Grids of tiles that the names of files state, such as `film.thumbs-5x4.mp4`.

use crate::title::indexed::IndexedObject;
use latemux_index::MediaIndex;
use std::sync::Arc;

/// The word before the grid.
const WORD: &str = "thumbs-";

/// Sets the grids of thumbnails that do not state one themselves.
pub(crate) fn set_tiles(indexes: &mut [Arc<MediaIndex>], objects: &[Arc<IndexedObject>]) {
    for (index, object) in indexes.iter_mut().zip(objects) {
        let lacks_tiles = index.thumbnails.iter().any(|of| of.stated_tiles.is_none());
        if let (true, Some(tiles)) = (lacks_tiles, tiles_of(object.file.key.split().1)) {
            *index = Arc::new(MediaIndex::clone(index).with_tiles(tiles));
        }
    }
}

/// Returns the text behind the word in the name of a file: in its first part, or after a dot.
fn tiles_of(name: &str) -> Option<&str> {
    let (stem, _extension) = name.rsplit_once('.')?;
    stem.split('.').find_map(|part| part.strip_prefix(WORD))
}

#[cfg(test)]
mod tests {
    use super::tiles_of;

    #[test]
    fn names_state_the_grid_after_a_word() {
        for (name, tiles) in [
            ("film.thumbs-5x4.mp4", Some("5x4")),
            ("thumbs-10x1.mp4", Some("10x1")),
            ("film.thumbs-0x5.index.mp4", Some("0x5")),
            ("film.mp4", None),
            ("my-thumbs-5x4.mp4", None),
            ("film.thumbs.mp4", None),
            ("film.thumbs-5x4", None),
        ] {
            assert_eq!(tiles_of(name), tiles, "{name}");
        }
    }
}
