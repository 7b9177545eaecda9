//! Checks at start whether a storage can be reached and accepts its settings.

use crate::{Key, ListRequest, ReadRequest, Storage, StorageError};

/// An object that need not exist. Reading it takes one small request on every back end.
const NAME: &str = "latemux-check";

/// Most folders that are listed to find an object.
const MOST_LISTINGS: usize = 4;

/// Most objects of a listing that are read.
const MOST_READS: usize = 3;

/// Asks a storage for an object that need not exist. Storage that answers at all has been reached.
/// If it denies access to that object, it may still allow others: then it is asked for a listing,
/// and for objects in it.
///
/// # Errors
/// - [`StorageError::NoBucket`] or [`StorageError::WrongCredentials`] if storage says that its
///   settings are wrong, if it denies access to all that was requested, or to objects that it
///   has listed
/// - the error of the read if storage failed or did not answer
///
/// The errors name the storage instead of the object.
pub async fn check(storage: &dyn Storage) -> Result<(), StorageError> {
    let Some(key) = Key::root().join(NAME) else { return Ok(()) };
    let Err(error) = storage.read(ReadRequest::head(&key, 1)).await else { return Ok(()) };
    let name = storage.describe();
    Err(match error {
        StorageError::NoBucket(_) => StorageError::NoBucket(name),
        StorageError::WrongCredentials { detail, .. } => StorageError::WrongCredentials { key: name, detail },
        StorageError::Throttled { retry_after, .. } => StorageError::Throttled { key: name, retry_after },
        StorageError::TimedOut { after, .. } => StorageError::TimedOut { key: name, after },
        StorageError::Unavailable { detail, .. } => StorageError::Unavailable { key: name, detail },
        StorageError::Denied(_) => match missing_permission(storage).await {
            Some(detail) => StorageError::WrongCredentials { key: name, detail },
            None => return Ok(()),
        },
        _ => return Ok(()),
    })
}

/// Says which permission is missing, or returns `None` if something may be read or if that cannot
/// be told. Buckets deny access to objects that do not exist if their names may not be listed.
async fn missing_permission(storage: &dyn Storage) -> Option<String> {
    let mut folder = Key::root();
    for _ in 0..MOST_LISTINGS {
        let mut listing = match storage.list(ListRequest::new(&folder)).await {
            Ok(listing) => listing,
            Err(StorageError::Denied(_)) if folder.as_str().is_empty() => {
                return Some(format!(
                    "neither reading nor listing is permitted. If only listing is not, add an empty object {NAME}"
                ));
            }
            Err(_) => return None,
        };
        if listing.objects.is_empty() {
            folder = folder.join(listing.folders.first()?)?;
            continue;
        }
        // Small objects may be none that are to be served.
        listing.objects.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        let mut denied = None;
        for (object, _) in listing.objects.iter().take(MOST_READS) {
            let key = folder.join(object)?;
            match storage.read(ReadRequest::head(&key, 1)).await {
                Err(StorageError::Denied(_)) => denied = denied.or(Some(key)),
                _ => return None,
            }
        }
        return denied.map(|key| format!("{key} is listed, but reading it is not permitted"));
    }
    None
}
