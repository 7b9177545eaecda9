//! Objects in a folder of this machine.
//!
//! All file calls that may wait for a disk run on the runtime's blocking pool, at most `JOBS` at a
//! time, so a hung disk blocks neither the runtime nor its other blocking work. A body is read in
//! frames of [`FRAME`] bytes as its reader asks for them. A frame that the kernel has in memory is
//! copied at once (`RWF_NOWAIT`), without the pool. Likewise, a file is looked up, and opened on a
//! local file system, without the pool if the kernel has its whole path in memory
//! (`RESOLVE_CACHED`).
//!
//! A version is size and modification time. The inode is not part of it, so that two machines with
//! copies of one library (`rsync --times`) report the same versions. Within one read, the open
//! descriptor stays with one inode anyway. A file that is replaced by renaming another over it is
//! read to its end in its old state. A file rewritten in place is detected by its modification time
//! after each frame. A rewrite of equal size within one tick of the kernel's clock (some
//! milliseconds) cannot be detected by this or any other reader.
//!
//! **Nothing outside the folder is read.** Symbolic links are followed as long as they stay inside
//! the folder; a link that leads out of it is treated as missing. Anyone who may write to the
//! folder is trusted not to replace a directory by a link between check and use. Only regular files
//! are read: a FIFO or a device is not found.

mod cached;
mod open_files;

use super::frames::FramePool;
use crate::{
    Key, ListRequest, Listing, ObjectMeta, PageToken, Read, ReadRequest, Storage, StorageError, Version, Want,
};
use bytes::Bytes;
use cached::{cached_metadata, is_on_local_disk, open_cached, read_cached};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use open_files::OpenFiles;
use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Bytes that are read at a time, and held in memory for each body being read.
pub const FRAME: usize = 256 * 1024;
/// Maximum number of concurrent file calls. The pool also resolves host names and must not fill up.
const JOBS: usize = 64;
/// Maximum number of names in one folder that is listed. Reading as many takes about a second.
const MAX_NAMES: usize = 1_000_000;
/// The error of [`Inner::resolve`] for a link that leaves the root. No call used here returns it.
const LINK_OUTSIDE: ErrorKind = ErrorKind::CrossesDevices;
/// Timeout of a file call, including the time its job waits for a thread.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Objects in a folder of this machine.
#[derive(Clone)]
pub struct Folder(Arc<Inner>);

struct Inner {
    root: PathBuf,
    /// Device number of the root's file system, if opening its files never waits for another
    /// process or machine.
    local_device: Option<u64>,
    name: String,
    open: Mutex<OpenFiles>,
    jobs: Arc<Semaphore>,
    frames: Arc<FramePool>,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Folder").field(&self.0.root).finish()
    }
}

impl Folder {
    /// Opens the folder at `path`. This blocks on the disk, so do it at start and not while
    /// serving.
    ///
    /// # Errors
    /// An I/O error if the path is not a folder or cannot be read.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let root = path.as_ref().canonicalize()?;
        let metadata = root.metadata()?;
        if !metadata.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let local_device = is_on_local_disk(&root).then_some(metadata.dev());
        let name = path.as_ref().display().to_string();
        let jobs = Arc::new(Semaphore::new(JOBS));
        let frames = FramePool::new(FRAME);
        Ok(Self(Arc::new(Inner { root, local_device, name, open: Mutex::default(), jobs, frames })))
    }

    /// Returns the path that the file of a key has or would have. Its folder must exist, and be
    /// inside this one even after links are followed.
    pub(crate) async fn file(&self, key: &Key) -> Result<PathBuf, StorageError> {
        let (folder, name) = key.split();
        let name = name.to_owned();
        self.run(key, move |inner| {
            let folder = inner.resolve(&folder).map_err(|e| failed(&folder, &e))?;
            Ok(folder.join(name))
        })
        .await
    }

    /// Starts a read without any waiting. Returns `None` if that is not possible: it requires that
    /// the kernel has the file's path and its first frame in memory.
    fn read_cached(&self, request: &ReadRequest<'_>) -> Option<Result<OpenedRead, StorageError>> {
        let key = request.key;
        let (file, now) = self.0.open_cached(key)?;
        let (version, range) = match check_request(key, &now, &request.want, request.version) {
            Ok(stated) => stated,
            Err(error) => return Some(Err(error)),
        };
        let file = Pinned { file, key: key.clone(), version };
        let first = if range.is_empty() { Ok(Bytes::new()) } else { file.try_frame(&self.0.frames, &range)? };
        Some(first.map(|first| (file, range, first)))
    }

    /// Runs `job` on the blocking pool. The permit stays with the job when its caller gives up.
    async fn run<T: Send + 'static>(
        &self,
        key: &Key,
        job: impl FnOnce(&Inner) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let inner = Arc::clone(&self.0);
        let work = async move {
            let permit = Arc::clone(&inner.jobs).acquire_owned().await.map_err(|e| e.to_string())?;
            let done = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                job(&inner)
            });
            done.await.map_err(|e| e.to_string())
        };
        match tokio::time::timeout(CALL_TIMEOUT, work).await {
            Ok(Ok(response)) => response,
            Ok(Err(detail)) => Err(StorageError::Unavailable { key: key.to_string(), detail }),
            Err(_) => Err(StorageError::TimedOut { key: key.to_string(), after: CALL_TIMEOUT }),
        }
    }
}

impl Inner {
    fn path(&self, key: &Key) -> PathBuf {
        self.root.join(key.as_str())
    }

    fn resolve(&self, key: &Key) -> io::Result<PathBuf> {
        let path = self.path(key).canonicalize()?;
        if path.starts_with(&self.root) { Ok(path) } else { Err(LINK_OUTSIDE.into()) }
    }

    /// Returns the open file of a key and its current metadata.
    fn open(&self, key: &Key) -> io::Result<(Arc<File>, Metadata)> {
        let now = std::fs::metadata(self.path(key)).and_then(regular);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // An open inode's number is not reused, so the same device and inode mean the same file.
        match now {
            Ok(now) => {
                if let Some(file) = open.get(key, (now.dev(), now.ino())) {
                    return Ok((file, now));
                }
            }
            Err(e) => {
                open.remove(key);
                return Err(e);
            }
        }
        drop(open);
        // Without O_NONBLOCK, opening a FIFO would wait for a writer. Regular files ignore it.
        let path = self.resolve(key)?;
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
        let now = file.metadata().and_then(regular)?;
        let file = Arc::new(file);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.put(key, (now.dev(), now.ino()), Arc::clone(&file));
        Ok((file, now))
    }

    /// Returns the same as [`Self::open`] if nothing has to wait.
    fn open_cached(&self, key: &Key) -> Option<(Arc<File>, Metadata)> {
        let path = self.path(key);
        let now = regular(cached_metadata(&path)?).ok()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(key, (now.dev(), now.ino())) {
            return Some((file, now));
        }
        drop(open);
        if self.local_device != Some(now.dev()) {
            return None;
        }
        // The path may lead to another file by now, so the metadata is read from the open file.
        let file = open_cached(&path)?;
        let now = file.metadata().and_then(regular).ok()?;
        let file = Arc::new(file);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.put(key, (now.dev(), now.ino()), Arc::clone(&file));
        Some((file, now))
    }

    /// Lists a page: the first names in byte order behind the last name of the page before. All
    /// names are read, but only those of the page are kept and looked at.
    fn list(&self, folder: &Key, after: Option<&str>, limit: usize) -> Result<Listing, StorageError> {
        let failed = |e: io::Error| failed(folder, &e);
        let path = self.resolve(folder).map_err(failed)?;
        let mut names = BTreeSet::new();
        let mut is_cut = false;
        for (count, entry) in std::fs::read_dir(&path).map_err(failed)?.enumerate() {
            if count >= MAX_NAMES {
                return Err(StorageError::FolderTooLarge { key: folder.to_string(), limit: MAX_NAMES });
            }
            let Ok(name) = entry.map_err(failed)?.file_name().into_string() else { continue };
            let is_behind = after.is_none_or(|after| name.as_str() > after);
            if !is_behind || folder.join(&name).is_none() {
                continue;
            }
            names.insert(name);
            if names.len() > limit {
                names.pop_last();
                is_cut = true;
            }
        }
        let next = names.last().filter(|_| is_cut).map(|last| PageToken::new(last.as_str()));
        let mut listing = Listing { next, ..Listing::default() };
        for name in names {
            // Removed in the meantime, a dangling link, or a link that leads out: not listed.
            let Some(meta) = self.metadata(&path.join(&name)) else { continue };
            if meta.is_dir() {
                listing.folders.push(name);
            } else if meta.is_file() {
                listing.objects.push((name, meta.len()));
            }
        }
        Ok(listing)
    }

    /// Returns the metadata of an entry of a folder inside this one. A link is followed.
    fn metadata(&self, entry: &Path) -> Option<Metadata> {
        let meta = std::fs::symlink_metadata(entry).ok()?;
        if !meta.is_symlink() {
            return Some(meta);
        }
        let target = entry.canonicalize().ok()?;
        target.starts_with(&self.root).then(|| target.metadata().ok())?
    }
}

fn regular(meta: Metadata) -> io::Result<Metadata> {
    if meta.is_file() { Ok(meta) } else { Err(ErrorKind::NotFound.into()) }
}

/// An open file, the range being read, and the first frame.
type OpenedRead = (Pinned, Range<u64>, Bytes);

/// Returns the version of a file and the wanted range.
fn check_request(
    key: &Key,
    now: &Metadata,
    want: &Want,
    pin: Option<&Version>,
) -> Result<(Version, Range<u64>), StorageError> {
    let version = version(now);
    if pin.is_some_and(|pin| *pin != version) {
        return Err(StorageError::Changed(key.to_string()));
    }
    let range = want.within(version.size).ok_or_else(|| StorageError::OutOfRange(key.to_string()))?;
    Ok((version, range))
}

fn version(meta: &Metadata) -> Version {
    let modified = meta.mtime().checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(meta.mtime_nsec()));
    Version { etag: None, size: meta.len(), modified }
}

fn failed(key: &Key, e: &io::Error) -> StorageError {
    let key = key.to_string();
    match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
            StorageError::NotFound(key)
        }
        LINK_OUTSIDE => {
            tracing::warn!(key, "not following a symbolic link that leads out of the folder");
            StorageError::NotFound(key)
        }
        ErrorKind::PermissionDenied => StorageError::Denied(key),
        // A cycle of links or, with O_NOFOLLOW, a file that became a link after the check.
        _ if e.raw_os_error() == Some(libc::ELOOP) => StorageError::NotFound(key),
        _ => StorageError::Unavailable { key, detail: e.to_string() },
    }
}

/// An open file, and the version that its bytes must have.
#[derive(Clone)]
struct Pinned {
    file: Arc<File>,
    key: Key,
    version: Version,
}

impl Pinned {
    /// Reads the first frame of a range. Fails unless its bytes belong to the version.
    fn frame(&self, frames: &Arc<FramePool>, range: &Range<u64>) -> Result<Bytes, StorageError> {
        let mut frame = frames.take(Self::len(range));
        match self.file.read_exact_at(frame.as_mut(), range.start) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                return Err(StorageError::Changed(self.key.to_string()));
            }
            Err(e) => return Err(failed(&self.key, &e)),
        }
        self.check()?;
        Ok(frame.into())
    }

    /// Reads like [`Self::frame`] if the kernel has all of the frame in memory. Otherwise returns
    /// `None`.
    fn try_frame(&self, frames: &Arc<FramePool>, range: &Range<u64>) -> Option<Result<Bytes, StorageError>> {
        let mut frame = frames.take(Self::len(range));
        // File systems without support, such as network file systems, return an error.
        if !read_cached(&self.file, frame.as_mut(), range.start) {
            return None;
        }
        Some(self.check().map(|()| frame.into()))
    }

    fn len(range: &Range<u64>) -> usize {
        usize::try_from(range.end - range.start).map_or(FRAME, |left| left.min(FRAME))
    }

    /// Checks the version after a read, when earlier writes show in the modification time.
    fn check(&self) -> Result<(), StorageError> {
        let now = self.file.metadata().map_err(|e| failed(&self.key, &e))?;
        if version(&now) == self.version { Ok(()) } else { Err(StorageError::Changed(self.key.to_string())) }
    }
}

struct RemainingBody {
    folder: Folder,
    file: Pinned,
    range: Range<u64>,
}

impl RemainingBody {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StorageError> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let frame = match self.file.try_frame(&self.folder.0.frames, &self.range) {
            Some(frame) => frame?,
            None => {
                let file = self.file.clone();
                let range = self.range.clone();
                self.folder.run(&self.file.key, move |inner| file.frame(&inner.frames, &range)).await?
            }
        };
        self.range.start += frame.len() as u64;
        Ok(Some((frame, self)))
    }
}

impl Storage for Folder {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let (file, range, first) = match self.read_cached(&request) {
                Some(read) => read?,
                None => {
                    let ReadRequest { key, want, version, .. } = request;
                    let name = key.clone();
                    let pin = version.cloned();
                    // Opens and reads the first frame in one job, all that most reads need.
                    let job = move |inner: &Inner| {
                        let (file, now) = inner.open(&name).map_err(|e| failed(&name, &e))?;
                        let (version, range) = check_request(&name, &now, &want, pin.as_ref())?;
                        let file = Pinned { file, key: name, version };
                        let first =
                            if range.is_empty() { Bytes::new() } else { file.frame(&inner.frames, &range)? };
                        Ok((file, range, first))
                    };
                    self.run(key, job).await?
                }
            };
            let left = range.start + first.len() as u64..range.end;
            let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
            let object = ObjectMeta { size: file.version.size, version: file.version.clone() };
            let rest = RemainingBody { folder: self.clone(), file, range: left };
            Ok(Read {
                object,
                range,
                body: first.chain(stream::try_unfold(rest, RemainingBody::next)).boxed(),
                is_in_memory: false,
            })
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move {
            let name = request.folder.clone();
            let after = request.after.map(|token| token.as_str().to_owned());
            let job = move |inner: &Inner| inner.list(&name, after.as_deref(), request.limit);
            self.run(request.folder, job).await?.or_not_found(request)
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.0.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that hangs is given up, and holds no more threads than there may be jobs.
    #[tokio::test(start_paused = true)]
    async fn a_hanging_file_call_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path()).unwrap();
        let key = Key::new("x").unwrap();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let begun = tokio::time::Instant::now();
        let hangs = folder.run(&key, move |_| {
            let _ = held.recv();
            Ok(())
        });
        // The paused clock stands still while a thread is busy, so the test advances it.
        let mut hangs = Box::pin(hangs);
        let error = loop {
            tokio::select! {
                biased;
                done = &mut hangs => break done.unwrap_err(),
                () = tokio::time::advance(Duration::from_millis(500)) => {}
            }
        };
        assert!(matches!(error, StorageError::TimedOut { after, .. } if after == CALL_TIMEOUT), "{error:?}");
        assert!(begun.elapsed() <= CALL_TIMEOUT + Duration::from_secs(1));
        assert_eq!(folder.0.jobs.available_permits(), JOBS - 1, "the permit is held while the call hangs");
        drop(release);
        folder.run(&key, |_| Ok(())).await.unwrap();
    }

    /// An open file in the kernel's memory is read without the pool, which is full here.
    #[cfg(target_os = "linux")]
    #[tokio::test(start_paused = true)]
    async fn cached_reads_do_not_use_the_pool() {
        use futures_util::TryStreamExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let key = Key::new("x").unwrap();
        let bytes: Vec<u8> = (0..FRAME * 2 + 100).map(|i| u8::try_from(i % 251).unwrap()).collect();
        std::fs::write(&path, &bytes).unwrap();
        // Older kernels and some file systems have only one of the two calls.
        let file = File::open(&path).unwrap();
        if cached_metadata(&path).is_none() || !read_cached(&file, &mut [0; 9], 0) {
            return;
        }
        let folder = Folder::new(dir.path()).unwrap();
        let all = || Want::Range(0..bytes.len() as u64);
        let version = folder.read(ReadRequest::new(&key, all())).await.unwrap().object.version;
        let full = Arc::clone(&folder.0.jobs).acquire_many_owned(u32::try_from(JOBS).unwrap()).await.unwrap();
        let read = folder.read(ReadRequest::new(&key, all()).pinned(&version)).await.unwrap();
        let body: Vec<Bytes> = read.body.try_collect().await.unwrap();
        assert_eq!(body.concat(), bytes);
        let refused = |want| folder.read(ReadRequest::new(&key, want));
        let beyond = refused(Want::Range(0..bytes.len() as u64 + 1)).await.err();
        assert!(matches!(beyond, Some(StorageError::OutOfRange(_))), "{beyond:?}");

        // A change in place is detected at once.
        std::fs::write(&path, &bytes[1..]).unwrap();
        let changed = folder.read(ReadRequest::head(&key, 5).pinned(&version)).await.err();
        assert!(matches!(changed, Some(StorageError::Changed(_))), "{changed:?}");
        // A file that replaced it is opened, which may wait on some file systems.
        std::fs::write(dir.path().join("y"), "new").unwrap();
        std::fs::rename(dir.path().join("y"), &path).unwrap();
        let replaced = refused(Want::Head(5)).await;
        match folder.0.local_device {
            Some(_) => {
                let frames: Vec<Bytes> = replaced.unwrap().body.try_collect().await.unwrap();
                assert_eq!(frames.concat(), b"new");
            }
            None => assert!(matches!(replaced, Err(StorageError::TimedOut { .. }))),
        }
        // Links are followed on the pool, where their targets are checked.
        std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
        let link = Key::new("link").unwrap();
        drop(std::fs::read(dir.path().join("link")).unwrap());
        let waits = folder.read(ReadRequest::new(&link, Want::Head(5))).await.err();
        assert!(matches!(waits, Some(StorageError::TimedOut { .. })), "{waits:?}");
        drop(full);
        for key in [&key, &link] {
            let read = folder.read(ReadRequest::new(key, Want::Head(5))).await.unwrap();
            assert_eq!(read.body.try_collect::<Vec<_>>().await.unwrap().concat(), b"new");
        }
    }
}
