//! Key documents of single titles: where they are asked for, and how long they are kept.

use crate::{Error, config::KeysConfig, keys::key_server::KeyServer};
use futures_util::StreamExt;
use http::Uri;
use latemux_packager::protection::TrackKey;
use latemux_protect::{
    DocumentKey, DrmSystem, Scheme, cpix,
    document::MAX_BYTES,
    key_json,
    speke::{Contract, Request},
};
use latemux_storage::{Key, ReadRequest, Storage, StorageError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest::{SHA256, digest};
use std::{
    fmt,
    io::Read,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
    },
    time::Duration,
};
use tokio::time::Instant;
use zeroize::Zeroizing;

/// Age from which a document is asked for again.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// Age up to which a document is used while its source fails.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Pause after a source failed while a document is kept.
const PAUSE: Duration = Duration::from_secs(10);

/// Characters that stay as they are where `{title}` stands in a URL.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A source that has a document for each title.
pub(super) struct DocumentSource {
    place: Place,
    server: KeyServer,
    schemes: Vec<Scheme>,
    systems: Vec<DrmSystem>,
}

enum Place {
    /// A CPIX file, whose path holds `{title}`.
    File(String),
    /// A CPIX document beside the title.
    Beside,
    /// A CPIX document at a URL.
    Cpix(String),
    /// A list of keys in the JSON of nginx-vod-module, at a URL.
    Json(String),
    /// A key server that speaks SPEKE.
    Speke { uri: Uri, id: String, contract: Contract },
}

impl DocumentSource {
    /// Returns the source that a rule names. `None` if it names none that has a document for each
    /// title.
    pub(super) fn new(
        config: &KeysConfig,
        schemes: Vec<Scheme>,
        systems: Vec<DrmSystem>,
    ) -> Result<Option<Self>, String> {
        let place = match config {
            KeysConfig { cpix: Some(place), .. } if place.contains("://") => Place::Cpix(place.clone()),
            KeysConfig { cpix: Some(place), .. } => Place::File(place.clone()),
            KeysConfig { beside: true, .. } => Place::Beside,
            KeysConfig { json: Some(url), .. } => Place::Json(url.clone()),
            KeysConfig { speke: Some(url), id, contract, .. } => Place::Speke {
                uri: url.parse().map_err(|_| "keys.speke is not a URL")?,
                id: id.clone().unwrap_or_else(|| "{title}".to_owned()),
                contract: Contract::parse(contract.as_deref().unwrap_or("video-1,audio-1"))?,
            },
            _ => return Ok(None),
        };
        Ok(Some(Self { place, server: KeyServer::new(config)?, schemes, systems }))
    }

    /// Reads the keys of a title.
    async fn read(&self, base: &str, storage: &dyn Storage) -> Result<Vec<Document>, Error> {
        let url = |template: &str| {
            let text = template.replace("{title}", &utf8_percent_encode(base, &PLAIN).to_string());
            text.parse::<Uri>().map_err(|_| Error::KeysUnavailable)
        };
        let one = |text: Zeroizing<String>| parse(&text, cpix::read).map(|document| vec![document]);
        match &self.place {
            Place::File(template) => one(read_file(path_of(template, base)?).await?),
            Place::Beside => one(read_beside(storage, base).await?),
            Place::Cpix(template) => one(self.server.request(&url(template)?, None).await?),
            Place::Json(template) => {
                let text = self.server.request(&url(template)?, None).await?;
                parse(&text, key_json::read).map(|document| vec![document])
            }
            Place::Speke { uri, id, contract } => {
                let id = id.replace("{title}", base);
                let mut documents = Vec::new();
                let schemes: Vec<Scheme> = self.schemes.iter().map(|scheme| scheme.of_keys()).collect();
                for (at, &scheme) in schemes.iter().enumerate() {
                    if schemes.get(..at).is_some_and(|before| before.contains(&scheme)) {
                        continue;
                    }
                    let Request { ids, document } = Request::new(&id, contract, scheme, &self.systems);
                    let text = self.server.request(uri, Some(document)).await?;
                    let mut document = parse(&text, cpix::read)?;
                    if document.keys.len() != ids.len()
                        || !document.keys.iter().all(|key| ids.contains(&key.key.id()))
                    {
                        let problem = "the key server returned other keys than were requested";
                        return Err(Error::KeysMalformed(problem.to_owned()));
                    }
                    document.keys.iter_mut().for_each(|key| key.scheme = key.scheme.or(Some(scheme)));
                    documents.push(document);
                }
                Ok(documents)
            }
        }
    }
}

/// Keys, and the digest of the text that stated them.
struct Document {
    keys: Vec<DocumentKey>,
    digest: [u8; 32],
}

fn parse(
    text: &str,
    read: impl FnOnce(&str) -> Result<Vec<DocumentKey>, latemux_protect::DocumentError>,
) -> Result<Document, Error> {
    let keys = read(text).map_err(|error| Error::KeysMalformed(error.to_string()))?;
    let hash = digest(&SHA256, text.as_bytes());
    Ok(Document { keys, digest: std::array::from_fn(|i| hash.as_ref().get(i).copied().unwrap_or_default()) })
}

/// Returns the path of the document of a title. Its base names nothing above the folder of the
/// template.
fn path_of(template: &str, base: &str) -> Result<PathBuf, Error> {
    let is_plain =
        base.split('/').all(|name| !matches!(name, "" | "." | "..")) && !base.contains(['\0', '\\']);
    if is_plain { Ok(template.replace("{title}", base).into()) } else { Err(Error::KeysDenied) }
}

/// Reads a file, which may take a while.
async fn read_file(path: PathBuf) -> Result<Zeroizing<String>, Error> {
    let read = move || {
        let mut text = Zeroizing::new(String::new());
        let file = std::fs::File::open(&path)?;
        file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    let read = tokio::task::spawn_blocking(read).await;
    let read = read.map_err(|_| Error::Internal("reading a key document panicked"))?;
    read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::KeysDenied,
        std::io::ErrorKind::InvalidData => Error::KeysMalformed("the document is not UTF-8".to_owned()),
        _ => Error::KeysUnavailable,
    })
}

/// Reads `film.cpix` beside `film.mp4`.
async fn read_beside(storage: &dyn Storage, base: &str) -> Result<Zeroizing<String>, Error> {
    let (folder, name) = base.rsplit_once('/').map_or(("", base), |(folder, name)| (folder, name));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let between = if folder.is_empty() { "" } else { "/" };
    let key = Key::new(&format!("{folder}{between}{stem}.cpix")).ok_or(Error::KeysDenied)?;
    let failed = |error: StorageError| match error {
        StorageError::NotFound(_) => Error::KeysDenied,
        _ => Error::KeysUnavailable,
    };
    let read = storage.read(ReadRequest::head(&key, MAX_BYTES as u64 + 1)).await.map_err(failed)?;
    let mut bytes = Zeroizing::new(Vec::new());
    let mut body = read.body;
    while let Some(frame) = body.next().await {
        bytes.extend_from_slice(&frame.map_err(failed)?);
        if bytes.len() > MAX_BYTES {
            break;
        }
    }
    let text = str::from_utf8(&bytes).map(|text| Zeroizing::new(text.to_owned()));
    text.map_err(|_| Error::KeysMalformed("the document is not UTF-8".to_owned()))
}

/// The keys of one title, kept until the title leaves memory.
pub(super) struct KeptDocument {
    source: Arc<DocumentSource>,
    storage: Arc<dyn Storage>,
    base: String,
    state: Mutex<State>,
    is_asking: AtomicBool,
}

struct State {
    keys: Arc<[TrackKey]>,
    digests: Vec<[u8; 32]>,
    /// The last time at which the source stated these keys.
    confirmed: Instant,
    /// The last time at which the source was asked.
    asked: Instant,
}

impl KeptDocument {
    /// Asks for the keys of a title.
    pub(super) async fn new(
        source: &Arc<DocumentSource>,
        storage: &Arc<dyn Storage>,
        base: &str,
    ) -> Result<Arc<Self>, Error> {
        let state = Mutex::new(State::of(source.read(base, &**storage).await?));
        let source = source.clone();
        let storage = storage.clone();
        let base = base.to_owned();
        Ok(Arc::new(Self { source, storage, base, state, is_asking: AtomicBool::new(false) }))
    }

    /// Returns the keys. `None` if they are so old that they must be asked for first. Starts to ask
    /// for them if they are not fresh.
    pub(super) fn keys(self: &Arc<Self>) -> Option<Arc<[TrackKey]>> {
        let (keys, age, pause) = {
            let state = self.lock();
            (state.keys.clone(), state.confirmed.elapsed(), state.asked.elapsed())
        };
        if age > KEPT {
            return None;
        }
        if age > FRESH && pause > PAUSE && !self.is_asking.swap(true, AcqRel) {
            let this = self.clone();
            tokio::spawn(async move {
                let asked = this.source.read(&this.base, &*this.storage).await;
                this.note(asked);
                this.is_asking.store(false, Release);
            });
        }
        Some(keys)
    }

    fn note(&self, asked: Result<Vec<Document>, Error>) {
        let mut state = self.lock();
        state.asked = Instant::now();
        match asked.map(State::of) {
            // Equal documents keep their keys, so that the title stays the same.
            Ok(new) if new.digests == state.digests => state.confirmed = new.confirmed,
            Ok(new) => *state = new,
            Err(error) => tracing::warn!(
                title = self.base,
                reason = error.reason(),
                "the keys of the title cannot be asked for again, and are kept: {error}"
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(documents: Vec<Document>) -> Self {
        let digests = documents.iter().map(|document| document.digest).collect();
        let keys = documents.into_iter().flat_map(|document| document.keys).map(TrackKey::from).collect();
        let now = Instant::now();
        Self { keys, digests, confirmed: now, asked: now }
    }
}

impl fmt::Debug for DocumentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentSource").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeptDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptDocument").field("base", &self.base).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_name_no_file_elsewhere() {
        assert_eq!(path_of("/k/{title}.xml", "a/b.mp4").ok(), Some("/k/a/b.mp4.xml".into()));
        for base in ["../a", "a/../../b", "", "a//b", "a\\..\\b", "a\0"] {
            assert!(path_of("/k/{title}.xml", base).is_err(), "{base}");
        }
    }
}
