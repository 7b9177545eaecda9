//! Checks at start whether a storage can be reached and accepts its settings.

use crate::{Key, ReadRequest, Storage, StorageError};

/// An object that need not exist. Reading it takes one small request on every back end.
const NAME: &str = "latemux-check";

/// Asks a storage for an object that need not exist. Storage that answers at all has been reached,
/// even if it denies access to that object: it may allow others.
///
/// # Errors
/// - [`StorageError::NoBucket`] or [`StorageError::WrongCredentials`] if storage says that its
///   settings are wrong
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
        _ => return Ok(()),
    })
}
