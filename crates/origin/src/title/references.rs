//! References from one file to another: the data location in an index MP4, the `src` in a server
//! manifest. Only allowed references are followed. Otherwise anyone who can upload a file could
//! make the server fetch anything.

use crate::{Error, config::SourcesConfig, observe::metrics::ReadPurpose, title::storages::Storages};
use latemux_storage::{Key, Storage};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

/// Characters that a relative URL must escape. `:` is among them because it would end a scheme.
const RESERVED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b':')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Returns a path as a relative URL, the form in which index MP4s and server manifests name the
/// files beside them.
pub fn relative_url(path: &str) -> String {
    utf8_percent_encode(path, RESERVED).to_string()
}

/// Reference to an object: its key and its storage. Two references are equal if they lead to the
/// same object.
#[derive(Debug, Clone)]
pub(crate) struct ObjectRef {
    /// Storage of the object, for reading its index.
    pub(crate) storage: Arc<dyn Storage>,
    /// The same storage, for reading media through the range cache.
    pub(crate) media: Arc<dyn Storage>,
    /// Allowed folder or host that holds the object. Empty for the served storage.
    root: Arc<str>,
    /// Key of the object in its storage.
    pub(crate) key: Key,
}

impl ObjectRef {
    /// Returns the bytes of memory this value alone holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.key.as_str().len()
    }
}

impl PartialEq for ObjectRef {
    fn eq(&self, other: &Self) -> bool {
        (&self.root, &self.key) == (&other.root, &other.key)
    }
}

impl Eq for ObjectRef {}

impl Hash for ObjectRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.root, &self.key).hash(state);
    }
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &*self.root {
            "" => write!(f, "{}", self.key),
            root => write!(f, "{}/{}", root.trim_end_matches('/'), self.key),
        }
    }
}

impl ObjectRef {
    /// Returns a reference to an object of the served storage, read through the two given storages.
    pub(crate) fn served(storage: Arc<dyn Storage>, media: Arc<dyn Storage>, key: Key) -> Self {
        Self { storage, media, root: Arc::from(""), key }
    }

    /// Returns true if the object is not in the served storage.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.root.is_empty()
    }
}

/// Follows references, as far as the configuration allows.
#[derive(Debug)]
pub(crate) struct References {
    allow: Vec<Allowed>,
    /// Storages opened so far, by URL: at most one for each allowed folder, and two for each host,
    /// one for http and one for https.
    opened: Mutex<BTreeMap<String, Arc<dyn Storage>>>,
    storages: Storages,
    /// Root of the served storage.
    served: ObjectRef,
}

/// Entry of `sources.allow`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    /// `.`: a relative reference may leave its file's folder, but not the storage.
    Storage,
    /// A local folder and everything below it, without a `/` at the end.
    Folder(String),
    /// `host` or `host:port`, in lower case.
    Host(String),
}

impl Allowed {
    fn parse(text: &str) -> Option<Self> {
        let components = |path: &str| path.split('/').skip(1).all(|c| !matches!(c, "" | "." | ".."));
        let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        match text {
            "." => Some(Self::Storage),
            _ if text.starts_with('/') => {
                let root = text.trim_end_matches('/');
                (!root.is_empty() && components(root)).then(|| Self::Folder(root.to_owned()))
            }
            _ => {
                let is_host =
                    !text.is_empty() && text.chars().all(host) && !text.starts_with(['.', '-', ':']);
                is_host.then(|| Self::Host(text.to_ascii_lowercase()))
            }
        }
    }
}

impl SourcesConfig {
    /// Checks the entries.
    ///
    /// # Errors
    /// Returns a sentence that names the first entry which is neither `.` nor an absolute path nor
    /// `host[:port]`.
    pub fn check(&self) -> Result<(), String> {
        match self.allow.iter().find(|text| Allowed::parse(text).is_none()) {
            Some(text) => {
                Err(format!("sources.allow: '{text}' is neither an absolute path nor host[:port] nor '.'"))
            }
            None => Ok(()),
        }
    }
}

impl References {
    pub(crate) fn new(config: &SourcesConfig, storages: Storages, served: &Arc<dyn Storage>) -> Self {
        let allow = config.allow.iter().filter_map(|text| Allowed::parse(text)).collect();
        let media = storages.media(served.clone());
        let storage = storages.counted(served.clone(), ReadPurpose::Index);
        let served = ObjectRef::served(storage, media, Key::root());
        Self { allow, opened: Mutex::default(), storages, served }
    }

    /// Returns a reference to an object of the served storage.
    pub(crate) fn served(&self, key: Key) -> ObjectRef {
        ObjectRef { key, ..self.served.clone() }
    }

    pub(crate) fn storages(&self) -> &Storages {
        &self.storages
    }

    /// Finds the object that `location`, written in the file `from`, refers to.
    pub(crate) fn find(&self, from: &ObjectRef, location: &str) -> Result<ObjectRef, Error> {
        let refuse = |why| Error::LocationRefused {
            file: from.to_string(),
            location: location.chars().take(200).collect(),
            why,
        };
        if location.chars().any(char::is_control) {
            return Err(refuse("it contains control characters"));
        }
        let (scheme, rest) = match location.split_once(':') {
            Some((scheme, rest)) if rest.starts_with("//") || is_known_scheme(scheme) => (Some(scheme), rest),
            _ => (None, location),
        };
        let decode = |text: &str| {
            percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| refuse("it is not UTF-8"))
        };
        match scheme.map(str::to_ascii_lowercase).as_deref() {
            None if location.starts_with("//") => Err(refuse("it begins with //")),
            None if location.starts_with('/') => self.local(&decode(location)?, &refuse),
            None => self.relative(from, &decode(location)?, &refuse),
            Some("file") => {
                match rest.strip_prefix("//").map(|path| path.strip_prefix("localhost").unwrap_or(path)) {
                    Some(path) if path.starts_with('/') => self.local(&decode(path)?, &refuse),
                    _ => Err(refuse("it is not a path on this machine")),
                }
            }
            Some(scheme @ ("http" | "https")) => {
                let (host, path) = rest.trim_start_matches('/').split_once('/').unwrap_or_default();
                self.remote(scheme, host, &decode(path)?, location, &refuse)
            }
            Some(_) => Err(refuse("its scheme is not supported")),
        }
    }

    fn relative(
        &self,
        from: &ObjectRef,
        path: &str,
        refuse: &dyn Fn(&'static str) -> Error,
    ) -> Result<ObjectRef, Error> {
        let folder: Vec<&str> = match from.key.as_str().rsplit_once('/') {
            Some((folder, _)) => folder.split('/').collect(),
            None => Vec::new(),
        };
        let mut components = folder.clone();
        for component in path.split('/') {
            match component {
                "." => {}
                ".." => {
                    components.pop().ok_or_else(|| refuse("it leaves the storage"))?;
                }
                name => components.push(name),
            }
        }
        let key = Key::new(&components.join("/")).filter(|key| !key.as_str().is_empty());
        let key = key.ok_or_else(|| refuse("it is not the name of a file"))?;
        let inside = components.starts_with(&folder) && components.len() > folder.len();
        if inside || self.allow.contains(&Allowed::Storage) {
            return Ok(ObjectRef { key, ..from.clone() });
        }
        Err(refuse("it leaves the folder of the file"))
    }

    fn local(&self, path: &str, refuse: &dyn Fn(&'static str) -> Error) -> Result<ObjectRef, Error> {
        let below = |root: &str| path.strip_prefix(root)?.strip_prefix('/').map(str::to_owned);
        let found = self.allow.iter().find_map(|allowed| match allowed {
            Allowed::Folder(root) => Some((root.clone(), below(root)?)),
            _ => None,
        });
        let (root, rest) = found.ok_or_else(|| refuse("it is outside the allowed folders"))?;
        let key = Key::new(&rest).filter(|key| !key.as_str().is_empty());
        let key = key.ok_or_else(|| refuse("it is not the name of a file"))?;
        self.open(&root, key, refuse)
    }

    fn remote(
        &self,
        scheme: &str,
        host: &str,
        path: &str,
        location: &str,
        refuse: &dyn Fn(&'static str) -> Error,
    ) -> Result<ObjectRef, Error> {
        let host = host.to_ascii_lowercase();
        let port = if scheme == "https" { ":443" } else { ":80" };
        let allowed = self.allow.iter().any(|allowed| match allowed {
            Allowed::Host(name) => {
                let plain = |name: &str| name.strip_suffix(port).unwrap_or(name).to_owned();
                plain(name) == plain(&host)
            }
            _ => false,
        });
        if host.is_empty() || !allowed {
            return Err(refuse("its host is not allowed"));
        }
        if location.contains(['?', '#']) {
            return Err(refuse("it has a query"));
        }
        let key = Key::new(path).filter(|key| !key.as_str().is_empty());
        let key = key.ok_or_else(|| refuse("it is not the name of a file"))?;
        let root = format!("{scheme}://{host}/");
        self.open(&root, key, refuse)
    }

    fn open(&self, root: &str, key: Key, refuse: &dyn Fn(&'static str) -> Error) -> Result<ObjectRef, Error> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = match opened.get(root) {
            Some(storage) => storage.clone(),
            None => {
                let storage = latemux_storage::open::open(root, self.storages.options());
                let storage = storage.map_err(|_| refuse("the allowed root cannot be opened"))?;
                opened.insert(root.to_owned(), storage.clone());
                storage
            }
        };
        let media = self.storages.media(storage.clone());
        let storage = self.storages.counted(storage, ReadPurpose::Index);
        Ok(ObjectRef { storage, media, root: Arc::from(root), key })
    }
}

/// Returns true for schemes that are also written without `//`. Any other `name:` may be part of a
/// file name.
fn is_known_scheme(scheme: &str) -> bool {
    ["file", "data", "http", "https", "javascript", "urn"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_storage::Memory;

    fn find(allow: &[&str], from: &str, location: &str) -> Result<String, (&'static str, String)> {
        let config = SourcesConfig { allow: allow.iter().map(ToString::to_string).collect() };
        config.check().unwrap();
        let served: Arc<dyn Storage> = Arc::new(Memory::new());
        let references = References::new(&config, Storages::default(), &served);
        let found = references.find(&references.served(Key::new(from).unwrap()), location);
        found.map(|place| place.to_string()).map_err(|e| (e.reason(), e.to_string()))
    }

    #[test]
    fn locations_in_the_folder_of_the_file_are_found() {
        for (location, place) in [
            ("b.mp4", "d/e/b.mp4"),
            ("./b.mp4", "d/e/b.mp4"),
            ("f/b%20c.mp4", "d/e/f/b c.mp4"),
            ("f/../b.mp4", "d/e/b.mp4"),
            ("100%.mp4", "d/e/100%.mp4"),
            ("a:b.mp4", "d/e/a:b.mp4"),
            ("../e/b.mp4", "d/e/b.mp4"),
        ] {
            assert_eq!(find(&[], "d/e/x.index.mp4", location).as_deref(), Ok(place), "{location}");
        }
        assert_eq!(find(&[], "x.index.mp4", "b.mp4").as_deref(), Ok("b.mp4"));
    }

    #[test]
    fn locations_outside_the_folder_are_refused() {
        for location in [
            "../b.mp4",
            "..",
            "",
            ".",
            "f/../../b.mp4",
            "../../../etc/passwd",
            "%2e%2e/b.mp4",
            "..%2fb.mp4",
            "..\\b.mp4",
            "f//b.mp4",
            "/etc/passwd",
            "//host/b.mp4",
            "file:///etc/passwd",
            "file:/etc/passwd",
            "FILE:///etc/passwd",
            "http://169.254.169.254/latest/meta-data",
            "https://host/b.mp4",
            "s3://bucket/b.mp4",
            "gopher://host/x",
            "data:video/mp4;base64,AAAA",
            "b\n.mp4",
            "b%00.mp4",
            "b%ff.mp4",
        ] {
            let (reason, message) = find(&[], "d/e/x.index.mp4", location).unwrap_err();
            assert_eq!(reason, "location_refused", "{location}");
            assert!(message.starts_with("d/e/x.index.mp4: "), "{message}");
        }
    }

    #[test]
    fn allowed_locations_are_found() {
        fn find(allow: &[&str], location: &str) -> Result<String, &'static str> {
            super::tests::find(allow, "d/e/x.index.mp4", location).map_err(|e| e.0)
        }
        assert_eq!(find(&["."], "../b.mp4").as_deref(), Ok("d/b.mp4"));
        assert_eq!(find(&["."], "../../../b.mp4"), Err("location_refused"));
        assert_eq!(find(&["."], "/d/b.mp4"), Err("location_refused"));

        let root = std::env::temp_dir().canonicalize().unwrap();
        let root = root.to_str().unwrap();
        let below = format!("{root}/a/b.mp4");
        assert_eq!(find(&[root], &below), Ok(below.clone()));
        assert_eq!(find(&[&format!("{root}/")], &format!("file://{below}")), Ok(below.clone()));
        assert_eq!(find(&["/srv/other"], &below), Err("location_refused"));
        assert_eq!(find(&[root], &format!("{root}x/b.mp4")), Err("location_refused"));
        assert_eq!(find(&[root], &format!("{root}/../etc/passwd")), Err("location_refused"));
        assert_eq!(find(&[root], root), Err("location_refused"));

        let host = &["media.example:8080", "plain.example"][..];
        assert_eq!(
            find(host, "http://media.example:8080/a/b.mp4").as_deref(),
            Ok("http://media.example:8080/a/b.mp4")
        );
        assert_eq!(
            find(host, "https://PLAIN.example/b%20c.mp4").as_deref(),
            Ok("https://plain.example/b c.mp4")
        );
        for refused in [
            "http://media.example/a.mp4",
            "http://plain.example:81/a.mp4",
            "http://plain.example@evil.example/a.mp4",
            "http://evil.example/plain.example",
            "http://plain.example/../a.mp4",
            "http://plain.example/a.mp4?x",
            "http://plain.example/",
            "http:///a.mp4",
        ] {
            assert_eq!(find(host, refused), Err("location_refused"), "{refused}");
        }
    }

    #[test]
    fn malformed_entries_of_the_configuration_are_refused() {
        for wrong in ["", "/", "relative/path", "/a/../b", "/a//b", "http://host/", "host/path", ".."] {
            let config = SourcesConfig { allow: vec![wrong.to_owned()] };
            assert!(config.check().is_err(), "{wrong}");
        }
    }
}
