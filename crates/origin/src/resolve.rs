//! Which objects a base names.

use crate::Error;
use latemux_storage::{Key, Listing, Storage};

/// Extensions of files that are media.
const MEDIA: [&str; 14] =
    ["mp4", "m4v", "m4a", "mov", "3gp", "3g2", "f4v", "cmfv", "cmfa", "cmft", "ismv", "isma", "ismt", "mp4a"];

/// The objects of a title, in order: the media file itself, the files of a comma list, or the media files of a folder by
/// name.
///
/// # Errors
/// [`Error::NoMedia`], [`Error::TooManyObjects`], [`Error::BadPath`], or what listing says.
pub(crate) async fn resolve(storage: &dyn Storage, base: &str, limit: usize) -> Result<Vec<Key>, Error> {
    let keys = if let Some(list) = base.strip_suffix(".urlset") {
        comma_list(list)?
    } else if is_media(base) {
        vec![Key::new(base).ok_or(Error::BadPath)?]
    } else if has_extension(base, "ism") {
        // A server manifest; none is read yet.
        return Err(Error::NoSuchUrl);
    } else {
        let folder = Key::new(base).ok_or(Error::BadPath)?;
        let listing = storage.list(&folder).await?;
        media_files(&listing).filter_map(|name| folder.join(name)).collect()
    };
    match keys.len() {
        0 => Err(Error::NoMedia(base.to_owned())),
        count if count > limit => Err(Error::TooManyObjects { count, limit }),
        _ => Ok(keys),
    }
}

/// Names of the media files in a folder, in the order of the listing.
pub(crate) fn media_files(listing: &Listing) -> impl Iterator<Item = &str> {
    listing.objects.iter().map(|(name, _)| name.as_str()).filter(|name| is_media(name))
}

/// Whether a name is that of a media file.
pub(crate) fn is_media(name: &str) -> bool {
    MEDIA.iter().any(|extension| has_extension(name, extension))
}

fn has_extension(name: &str, extension: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').is_some_and(|(stem, e)| !stem.is_empty() && e.eq_ignore_ascii_case(extension))
}

/// `prefix,mid1,mid2,suffix`: what is before the first comma and behind the last one is common to all names.
fn comma_list(list: &str) -> Result<Vec<Key>, Error> {
    let (Some((prefix, rest)), Some((_, suffix))) = (list.split_once(','), list.rsplit_once(',')) else {
        return Err(Error::NoSuchUrl);
    };
    // One comma only: nothing between the first and the last.
    let Some(middles) = rest.strip_suffix(suffix).and_then(|m| m.strip_suffix(',')) else {
        return Err(Error::NoSuchUrl);
    };
    let keys = middles.split(',').map(|middle| Key::new(&format!("{prefix}{middle}{suffix}")));
    keys.collect::<Option<Vec<_>>>().ok_or(Error::BadPath)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        comma_list(list).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_comma_list_names_what_is_between_prefix_and_suffix() {
        assert_eq!(names("d/x_,360,720,.mp4"), ["d/x_360.mp4", "d/x_720.mp4"]);
        assert_eq!(names("x,a.mp4,"), ["xa.mp4"]);
        assert_eq!(names("d/,a/v.mp4,b/v.mp4,"), ["d/a/v.mp4", "d/b/v.mp4"]);
        // A middle may be empty: the file without any.
        assert_eq!(names("x,,_2,.mp4"), ["x.mp4", "x_2.mp4"]);
        assert!(matches!(comma_list("x.mp4"), Err(Error::NoSuchUrl)));
        assert!(matches!(comma_list("x,.mp4"), Err(Error::NoSuchUrl)));
        assert!(matches!(comma_list("x/,..,a,/y.mp4"), Err(Error::BadPath)));
    }

    #[test]
    fn media_is_known_by_its_extension() {
        assert!(is_media("a.mp4") && is_media("d.x/A.MOV") && is_media("x.cmfv"));
        assert!(!is_media("a.mp4/b") && !is_media("mp4") && !is_media("d/.mp4") && !is_media("a.ism"));
    }
}
