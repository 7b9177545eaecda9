//! Names, sizes and versions of objects.

use std::fmt;

/// The name of an object or folder below the root: segments joined by `/`. No segment is empty, `.`
/// or `..`, or contains NUL or a backslash, and there is no leading or trailing `/`. The empty key
/// is the root.
///
/// A key is made from *decoded* URL text, so no encoding of `../` passes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<str>);

impl Key {
    /// Parses a key. Returns `None` if the text is not a valid key.
    pub fn new(text: &str) -> Option<Self> {
        let ok = text.is_empty()
            || text.split('/').all(|s| !matches!(s, "" | "." | "..") && !s.contains(['\0', '\\']));
        ok.then(|| Self(text.into()))
    }

    /// Returns the key of the root.
    pub fn root() -> Self {
        Self("".into())
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key one level down, or `None` if `name` is not a single segment.
    pub fn join(&self, name: &str) -> Option<Self> {
        if name.contains('/') || name.is_empty() {
            return None;
        }
        Self::new(&if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) })
    }

    /// Returns the folder of the key, and the name in that folder. The root has an empty name.
    pub fn split(&self) -> (Self, &str) {
        let (folder, name) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        (Self(folder.into()), name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Version of an object. Equal versions have equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Strong ETag as the storage wrote it, including quotes, if it sends one.
    pub etag: Option<Box<str>>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time as the storage reports it (in nanoseconds or seconds since 1970), if there
    /// is no ETag.
    pub modified: Option<i64>,
}

impl Version {
    /// Returns true if equal versions always mean equal bytes. A size alone is not enough.
    pub fn is_reliable(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }
}

/// Metadata of an object, as a response reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Size in bytes.
    pub size: u64,
    /// Version that the bytes belong to.
    pub version: Version,
}
