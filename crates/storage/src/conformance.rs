//! The conformance suite that every storage passes. It panics if a storage does not.

use crate::{Key, ListRequest, Listing, Read, ReadRequest, Storage, StorageError, Version, Want, list_all};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, future::BoxFuture};
use std::sync::Arc;

/// Changes the contents of a storage behind its back. Failures panic.
pub trait Fixture: Send {
    /// Stores or replaces an object.
    fn put<'a>(&'a mut self, key: &'a Key, bytes: Bytes) -> BoxFuture<'a, ()>;

    /// Removes an object.
    fn remove<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, ()>;

    /// Returns true if the storage can list folders.
    fn lists(&self) -> bool {
        true
    }

    /// Returns a storage and a key that it must refuse: wrong credentials, a forbidden object.
    fn refused(&mut self) -> Option<(Arc<dyn Storage>, Key)> {
        None
    }
}

/// Keys whose characters have a meaning in URLs, in XML or to signing code.
const AWKWARD: [&str; 9] = [
    "with space.mp4",
    "plus+plus.mp4",
    "percent%20literal%.mp4",
    "question?mark#hash.mp4",
    "unicode-Küste-海.mp4",
    "amp&eq=semi;colon:at@.mp4",
    "quote'(a)[b]{c}~!$,*.mp4",
    "deep/er/folder name/x.mp4",
    "x_,360,720,.mp4",
];

/// Returns `len` bytes that differ at every offset by which a range could be wrong.
pub fn pattern(seed: u8, len: usize) -> Bytes {
    let mix = |i: usize| (i ^ (i >> 8).wrapping_mul(31) ^ (i >> 16).wrapping_mul(17)).to_le_bytes()[0];
    (0..len).map(|i| mix(i).wrapping_add(seed)).collect::<Vec<u8>>().into()
}

/// Reads the whole body of a read.
///
/// # Errors
/// The [`StorageError`] with which the body ends.
pub async fn collect(read: Read) -> Result<Bytes, StorageError> {
    let mut body = read.body;
    let mut all = BytesMut::new();
    while let Some(frame) = body.next().await {
        all.extend_from_slice(&frame?);
    }
    Ok(all.freeze())
}

fn key(text: &str) -> Key {
    Key::new(text).expect("the suite's keys are valid")
}

/// Reads, checks that the response is consistent, and returns version and bytes.
async fn get(
    storage: &dyn Storage,
    name: &Key,
    want: Want,
    pin: Option<&Version>,
) -> Result<(Version, Bytes), StorageError> {
    let read = storage.read(ReadRequest::new(name, want.clone()).pinned_to(pin)).await?;
    let object = read.object.clone();
    let range = read.range.clone();
    assert_eq!(object.size, object.version.size, "{name}: size of object and of version");
    assert_eq!(Some(&range), want.within(object.size).as_ref(), "{name}: range of the response to {want:?}");
    let bytes = collect(read).await?;
    assert_eq!(bytes.len() as u64, range.end - range.start, "{name}: bytes in the body of {want:?}");
    Ok((object.version, bytes))
}

/// Runs the suite. The storage must be empty except for what `fixture` put there.
pub async fn run(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    assert!(!storage.describe().is_empty());
    ranges(storage, fixture).await;
    empty_object(storage, fixture).await;
    not_there(storage, fixture).await;
    changed_object(storage, fixture).await;
    awkward_keys(storage, fixture).await;
    listing(storage, fixture).await;
    dropped_half_way(storage, fixture).await;
    if let Some((refusing, name)) = fixture.refused() {
        let e = refusing.read(ReadRequest::head(&name, 10)).await.expect_err("must be refused");
        assert_eq!(e.reason(), "storage_denied", "refused object: {e:?}");
    }
}

async fn ranges(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    // Longer than any back end's frame, and not a round size.
    let name = key("ranges.mp4");
    let content = pattern(1, 1_234_567);
    let size = content.len() as u64;
    fixture.put(&name, content.clone()).await;

    let (version, head) = get(storage, &name, Want::Head(1000), None).await.expect("head");
    assert_eq!(head, content[..1000]);
    assert_eq!(version.size, size);
    let (same, all) = get(storage, &name, Want::Head(u64::MAX), None).await.expect("head longer than object");
    assert_eq!(all, content, "a longer head is the whole object");
    assert_eq!(same, version, "one object, one version");
    let (same, none) = get(storage, &name, Want::Head(0), None).await.expect("head of nothing");
    assert_eq!((same, none.len()), (version.clone(), 0));

    for range in [
        0..1,
        0..size,
        1..2,
        size - 1..size,
        499_999..500_001,
        0..262_144,
        262_143..262_145,
        1..size - 1,
        5..5,
        size..size,
    ] {
        for pin in [None, Some(&version)] {
            let (same, bytes) =
                get(storage, &name, Want::Range(range.clone()), pin).await.expect("range in the object");
            let span =
                usize::try_from(range.start).expect("small")..usize::try_from(range.end).expect("small");
            assert!(bytes == content[span], "bytes of {range:?}");
            assert_eq!(same, version);
        }
    }
    #[expect(clippy::reversed_empty_ranges, reason = "invalid ranges are tested")]
    let outside = [size..size + 1, size - 1..size + 1, 0..size + 1, size + 10..size + 20, 9..8, 0..u64::MAX];
    for range in outside {
        for pin in [None, Some(&version)] {
            let e = get(storage, &name, Want::Range(range.clone()), pin).await.expect_err("out of range");
            assert!(matches!(e, StorageError::OutOfRange(_)), "{range:?}: {e:?}");
        }
    }
}

async fn empty_object(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    let name = key("empty.mp4");
    fixture.put(&name, Bytes::new()).await;
    for want in [Want::Head(0), Want::Head(1), Want::Head(65_536), Want::Range(0..0)] {
        let (version, bytes) = get(storage, &name, want.clone(), None).await.expect("empty object");
        assert_eq!((version.size, bytes.len()), (0, 0), "{want:?}");
        get(storage, &name, want, Some(&version)).await.expect("empty object, pinned");
    }
    let e = get(storage, &name, Want::Range(0..1), None).await.expect_err("empty object has no byte");
    assert!(matches!(e, StorageError::OutOfRange(_)), "{e:?}");
}

async fn not_there(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    let name = key("folder/there.mp4");
    fixture.put(&name, pattern(2, 100)).await;
    let version = get(storage, &name, Want::Head(1), None).await.expect("there").0;
    for absent in ["folder/absent.mp4", "absent/there.mp4", "folder/there.mp4/below", "folder", ""] {
        for want in [Want::Head(0), Want::Head(10), Want::Range(0..10)] {
            for pin in [None, Some(&version)] {
                let e = get(storage, &key(absent), want.clone(), pin).await.expect_err("absent");
                assert!(matches!(e, StorageError::NotFound(_)), "{absent:?} {want:?} {pin:?}: {e:?}");
            }
        }
    }
    fixture.remove(&name).await;
    let e = get(storage, &name, Want::Range(0..10), Some(&version)).await.expect_err("removed");
    assert!(matches!(e, StorageError::NotFound(_)), "removed: {e:?}");
}

async fn changed_object(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    let name = key("changing.mp4");
    fixture.put(&name, pattern(3, 5000)).await;
    let (old, _) = get(storage, &name, Want::Head(10), None).await.expect("first version");
    // Never of the first size: a clock of seconds cannot tell versions of one second apart.
    for (seed, len) in [(4, 5001), (5, 5001), (6, 10)] {
        fixture.put(&name, pattern(seed, len)).await;
        for want in
            [Want::Head(0), Want::Head(10), Want::Range(0..10), Want::Range(4000..5000), Want::Range(5..5)]
        {
            let e = get(storage, &name, want.clone(), Some(&old)).await.expect_err("changed");
            assert!(matches!(e, StorageError::Changed(_)), "{want:?} of {len} bytes: {e:?}");
        }
        let (new, bytes) = get(storage, &name, Want::Head(10), None).await.expect("new version");
        assert_ne!(new, old);
        assert_eq!(bytes, pattern(seed, 10));
        get(storage, &name, Want::Range(0..10), Some(&new)).await.expect("pinned to the new version");
    }
}

async fn awkward_keys(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    for (i, name) in (0u8..).zip(AWKWARD) {
        fixture.put(&key(name), pattern(i, 300 + usize::from(i))).await;
    }
    for (i, name) in (0u8..).zip(AWKWARD) {
        let (version, bytes) = match get(storage, &key(name), Want::Range(7..200), None).await {
            Ok(response) => response,
            Err(e) => panic!("{name:?}: {e:?}"),
        };
        assert_eq!(bytes, pattern(i, 300)[7..200], "{name:?}");
        assert_eq!(version.size, 300 + u64::from(i), "{name:?}");
        get(storage, &key(name), Want::Head(5), Some(&version)).await.expect("pinned");
    }
}

async fn listing(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    if !fixture.lists() {
        let e = storage.list(ListRequest::new(&Key::root())).await.expect_err("cannot list");
        assert!(matches!(e, StorageError::CannotList(_)), "{e:?}");
        return;
    }
    let folders = vec!["sub".to_owned(), "sub two".to_owned()];
    let mut expected = Listing { folders, ..Listing::default() };
    for (i, name) in (0u8..).zip(AWKWARD.into_iter().filter(|name| !name.contains('/'))) {
        fixture.put(&key(&format!("list/{name}")), pattern(i, usize::from(i))).await;
        expected.objects.push((name.to_owned(), u64::from(i)));
    }
    expected.objects.sort();
    for deep in ["list/sub/a.mp4", "list/sub/b.mp4", "list/sub two/c/d.mp4", "list-beside/e.mp4"] {
        fixture.put(&key(deep), pattern(0, 3)).await;
    }
    let folder = key("list");
    assert_eq!(storage.list(ListRequest::new(&folder)).await.expect("list"), expected);
    pages(storage, &folder, &expected).await;
    let root = storage.list(ListRequest::new(&Key::root())).await.expect("root");
    for folder in ["list", "list-beside", "deep"] {
        assert!(root.folders.iter().any(|name| name == folder), "{folder} in {root:?}");
    }
    assert!(root.objects.iter().any(|(name, size)| name == "ranges.mp4" && *size == 1_234_567), "{root:?}");
    for absent in ["absent", "list/absent", "ranges.mp4", "lis"] {
        let e = storage.list(ListRequest::new(&key(absent))).await.expect_err("absent folder");
        assert!(matches!(e, StorageError::NotFound(_)), "{absent}: {e:?}");
    }
}

/// Pages of a listing hold each name once, and the last one says that it is the last.
async fn pages(storage: &dyn Storage, folder: &Key, expected: &Listing) {
    for limit in [1, 2, 3, 1_000_000] {
        let mut all = Listing::default();
        let mut after = None;
        for _ in 0..100 {
            let request = ListRequest::new(folder).limited(limit).after(after.as_ref());
            let page = storage.list(request).await.expect("page");
            assert!(page.len() <= limit, "{limit}: {page:?}");
            all.objects.extend(page.objects);
            all.folders.extend(page.folders);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // Buckets sort folders by their names with a slash.
        all.folders.sort();
        assert_eq!((&all, &after), (expected, &None), "{limit}");
    }
    assert_eq!(&list_all(storage, folder, expected.len()).await.expect("all"), expected);
    let e = list_all(storage, folder, expected.len() - 1).await.expect_err("too many names");
    assert!(matches!(e, StorageError::FolderTooLarge { .. }), "{e:?}");
}

/// A reader that leaves does not disturb the storage.
async fn dropped_half_way(storage: &dyn Storage, fixture: &mut dyn Fixture) {
    let name = key("dropped.mp4");
    let content = pattern(9, 3_000_000);
    fixture.put(&name, content.clone()).await;
    for _ in 0..3 {
        let mut read = storage.read(ReadRequest::head(&name, u64::MAX)).await.expect("read");
        let frame = read.body.next().await.expect("a frame").expect("a good frame");
        assert_eq!(frame, content[..frame.len()]);
    }
    let reads = (0..8u64).map(|i| {
        let name = &name;
        async move { (i, get(storage, name, Want::Range(i * 1000..2_000_000 + i), None).await) }
    });
    for (i, response) in futures_util::future::join_all(reads).await {
        let from = usize::try_from(i * 1000).expect("small");
        let to = usize::try_from(2_000_000 + i).expect("small");
        assert!(response.expect("parallel read").1 == content[from..to], "parallel read {i}");
    }
}
