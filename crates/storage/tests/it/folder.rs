use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use latemux_storage::conformance::{self, Fixture, collect, pattern};
use latemux_storage::{Folder, Key, ListRequest, ReadRequest, Storage, StorageError};
use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Writes below a folder as a deployment does: it renames a new file over the old one.
pub(crate) struct OnDisk(pub(crate) PathBuf);

impl OnDisk {
    pub(crate) fn write(&self, key: &Key, bytes: &[u8]) {
        let path = self.0.join(key.as_str());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let new = self.0.with_extension("new");
        fs::write(&new, bytes).unwrap();
        fs::rename(&new, &path).unwrap();
    }
}

impl Fixture for OnDisk {
    fn put<'a>(&'a mut self, key: &'a Key, bytes: Bytes) -> BoxFuture<'a, ()> {
        async move { self.write(key, &bytes) }.boxed()
    }

    fn remove<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, ()> {
        async move { fs::remove_file(self.0.join(key.as_str())).unwrap() }.boxed()
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Creates a folder `root` with a file of 1 MB in it, and a file beside the folder that must never
/// be read.
fn library() -> (tempfile::TempDir, Folder, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("in")).unwrap();
    fs::write(root.join("in/a.mp4"), pattern(1, 1_000_000)).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(dir.path().join("outside/secret"), "secret").unwrap();
    (dir, Folder::new(&root).unwrap(), root)
}

async fn error(folder: &Folder, name: &str) -> StorageError {
    folder.read(ReadRequest::head(&key(name), 10)).await.expect_err("must fail")
}

fn not_found(e: &StorageError) -> bool {
    matches!(e, StorageError::NotFound(_))
}

/// The clock is paused: the timeout of a file call must not run out while the disk works.
#[tokio::test(start_paused = true)]
async fn conforms() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    conformance::run(&Folder::new(&root).unwrap(), &mut OnDisk(root)).await;
}

#[tokio::test]
async fn links_stay_in_the_folder() {
    let (dir, folder, root) = library();
    let outside = dir.path().join("outside");
    symlink("in/a.mp4", root.join("relative.mp4")).unwrap();
    symlink(root.join("in/a.mp4"), root.join("absolute.mp4")).unwrap();
    symlink("in", root.join("linked")).unwrap();
    symlink("../outside/secret", root.join("out-relative")).unwrap();
    symlink(outside.join("secret"), root.join("out-absolute")).unwrap();
    symlink(&outside, root.join("out-folder")).unwrap();
    symlink("out-relative", root.join("out-twice")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    symlink("circle", root.join("circle")).unwrap();
    symlink(&root, root.join("in/up")).unwrap();

    for name in ["relative.mp4", "absolute.mp4", "linked/a.mp4", "in/up/in/a.mp4"] {
        let read = folder.read(ReadRequest::head(&key(name), 50)).await.expect(name);
        assert_eq!(collect(read).await.unwrap(), pattern(1, 50), "{name}");
    }
    for name in
        ["out-relative", "out-absolute", "out-folder/secret", "out-folder", "out-twice", "dangling", "circle"]
    {
        assert!(not_found(&error(&folder, name).await), "{name}");
    }
    let listing = folder.list(ListRequest::new(&Key::root())).await.unwrap();
    let names: Vec<_> = listing.objects.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        (names, listing.folders),
        (vec!["absolute.mp4", "relative.mp4"], vec!["in".into(), "linked".into()])
    );
    assert!(not_found(&folder.list(ListRequest::new(&key("out-folder"))).await.unwrap_err()));
}

/// A page was made by looking at every file of the folder.
#[tokio::test]
async fn a_page_of_a_folder_holds_the_first_names_behind_the_page_before() {
    let dir = tempfile::tempdir().unwrap();
    for number in (0..40).rev() {
        fs::write(dir.path().join(format!("{number:02}.mp4")), "x").unwrap();
    }
    let folder = Folder::new(dir.path()).unwrap();
    let root = Key::root();
    let request = ListRequest::new(&root).limited(15);
    let first = folder.list(request).await.unwrap();
    let names: Vec<_> = first.objects.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[14]), (15, "00.mp4", "14.mp4"));
    // A name that was removed between two pages does not matter.
    fs::remove_file(dir.path().join("14.mp4")).unwrap();
    let second = folder.list(request.after(first.next.as_ref())).await.unwrap();
    assert_eq!(second.objects[0].0, "15.mp4");
    let third = folder.list(request.after(second.next.as_ref())).await.unwrap();
    assert_eq!((third.objects.len(), third.next), (10, None));
}

#[tokio::test]
async fn a_link_that_now_leads_out_is_not_followed() {
    let (dir, folder, root) = library();
    symlink("in/a.mp4", root.join("link")).unwrap();
    folder.read(ReadRequest::head(&key("link"), 10)).await.expect("inside");
    fs::remove_file(root.join("link")).unwrap();
    symlink(dir.path().join("outside/secret"), root.join("link")).unwrap();
    assert!(not_found(&error(&folder, "link").await));
}

#[test]
fn no_key_leads_out_of_the_root() {
    for text in ["..", "../x", "a/../b", "a/..", "/a", "a/", "a//b", ".", "./a", "a\\..\\b", "a\0b"] {
        assert_eq!(Key::new(text), None, "{text:?}");
    }
}

#[tokio::test]
async fn only_regular_files_are_read() {
    let (_dir, folder, root) = library();
    let made = std::process::Command::new("mkfifo").arg(root.join("fifo")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for name in ["fifo", "socket", "in"] {
        assert!(not_found(&error(&folder, name).await), "{name}");
    }
    assert!(not_found(&error(&folder, &"n".repeat(300)).await), "a name longer than the file system allows");
    let devices = Folder::new("/dev").unwrap();
    assert!(not_found(&error(&devices, "null").await));
}

/// Reads one frame, changes the file, and returns the result of reading the rest.
async fn meddled(path: &Path, folder: &Folder, meddle: impl FnOnce(&Path)) -> Result<(), StorageError> {
    let mut read = folder.read(ReadRequest::range(&key("in/a.mp4"), 0..1_000_000)).await.unwrap();
    read.body.next().await.unwrap().unwrap();
    meddle(path);
    while let Some(frame) = read.body.next().await {
        frame?;
    }
    Ok(())
}

#[tokio::test]
async fn a_file_changed_during_a_read_is_detected() {
    let (_dir, folder, root) = library();
    let path = root.join("in/a.mp4");
    let rewrite = |path: &Path| {
        let mut file = fs::File::options().write(true).open(path).unwrap();
        file.seek(std::io::SeekFrom::Start(900_000)).unwrap();
        file.write_all(b"other").unwrap();
        // Sets the time that a later write would leave, so that the test need not wait for the
        // clock.
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    let e = meddled(&path, &folder, rewrite).await.expect_err("the file was rewritten");
    assert!(matches!(e, StorageError::Changed(_)), "{e:?}");

    let truncate =
        |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(300_000).unwrap();
    let e = meddled(&path, &folder, truncate).await.expect_err("truncated");
    assert!(matches!(e, StorageError::Changed(_)), "{e:?}");

    fs::write(&path, pattern(1, 1_000_000)).unwrap();
    let replace = |path: &Path| {
        let new = path.with_extension("new");
        fs::write(&new, pattern(2, 1_000_000)).unwrap();
        fs::rename(new, path).unwrap();
    };
    meddled(&path, &folder, replace).await.expect("the old file stays complete for its reader");
    let read = folder.read(ReadRequest::head(&key("in/a.mp4"), 10)).await.unwrap();
    assert_eq!(collect(read).await.unwrap(), pattern(2, 10), "the next reader gets the new file");
}

#[tokio::test]
async fn open_files_are_bounded() {
    let (_dir, folder, root) = library();
    for round in 0..2 {
        for i in 0..200u8 {
            let name = key(&format!("{i}.mp4"));
            if round == 0 {
                fs::write(root.join(name.as_str()), pattern(i, 100)).unwrap();
            }
            let read = folder.read(ReadRequest::range(&name, 10..20)).await.unwrap();
            assert_eq!(collect(read).await.unwrap(), pattern(i, 100)[10..20]);
        }
    }
    let open =
        fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    assert_eq!(open.filter(|path| path.starts_with(&root)).count(), 64);
}

#[test]
fn missing_folders_and_files_are_refused() {
    let (_dir, _, root) = library();
    assert!(Folder::new(root.join("absent")).is_err());
    assert!(Folder::new(root.join("in/a.mp4")).is_err());
}
