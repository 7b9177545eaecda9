//! Names, sizes and versions of objects.

use std::fmt;

/// The name of an object or folder below the root: segments joined by `/`, none of them empty, `.` or `..`, without
/// NUL or backslash; no leading or trailing `/`. The empty key is the root itself.
///
/// A key is made from *decoded* URL text, so no encoding of `../` passes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Box<str>);

impl Key {
    /// `None` where the text is no key.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let ok = text.is_empty()
            || text.split('/').all(|s| !matches!(s, "" | "." | "..") && !s.contains(['\0', '\\']));
        ok.then(|| Self(text.into()))
    }

    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self("".into())
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// One level down. `None` where `name` is no single segment.
    #[must_use]
    pub fn join(&self, name: &str) -> Option<Self> {
        if name.contains('/') || name.is_empty() {
            return None;
        }
        Self::new(&if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) })
    }

    /// The folder it is in, and its name there. The root's name is empty.
    #[must_use]
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

/// Which version of an object: equal versions have equal bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// Strong ETag as the storage wrote it, quotes included, where it gives one.
    pub etag: Option<Box<str>>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time as the storage states it (nanoseconds or seconds since 1970), where there is no ETag.
    pub modified: Option<i64>,
}

impl Version {
    /// Whether equal versions are the same bytes also after a while. A size alone says too little.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }
}

/// What an answer says of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Size in bytes.
    pub size: u64,
    /// Version the bytes are of.
    pub version: Version,
}
