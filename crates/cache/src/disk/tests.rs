//! Tests of the disk tier over a device in memory that fails as told.

use super::{
    Disk,
    device::{Device, Log},
    record::{FILE_HEAD, RECORD_HEAD, encode_head, read_contents},
};
use crate::{
    Cache, Config, DiskConfig, Outcome, RangeCache, Tier,
    counters::Counters,
    memory::{
        gauge::Gauge,
        object::{Names, Object, Table},
    },
    store::Store,
};
use bytes::Bytes;
use latemux_storage::{Key, Memory, ReadRequest, Storage, Version, conformance};
use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{
        Arc, Condvar, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

/// Files in memory that outlive the disk tier that opened them.
#[derive(Debug, Default, Clone)]
pub(super) struct Ram(pub(super) Arc<State>);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: Mutex<BTreeMap<u64, Arc<RamLog>>>,
    pub(super) switches: Arc<Switches>,
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    pub(super) write_error: Mutex<Option<io::ErrorKind>>,
    read_error: AtomicBool,
    /// If true, a write stores half of its bytes and fails.
    pub(super) torn: AtomicBool,
    /// If true, the same happens to writes of more than 4096 bytes only.
    torn_data: AtomicBool,
    truncate_error: AtomicBool,
    remove_error: AtomicBool,
    /// Reads wait while this is true.
    hangs: Mutex<bool>,
    resumed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct RamLog {
    pub(super) bytes: Mutex<Vec<u8>>,
    pub(super) switches: Arc<Switches>,
}

impl Switches {
    fn write(&self) -> io::Result<()> {
        self.write_error.lock().unwrap().map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.resumed.notify_all();
    }
}

impl Device for Ram {
    fn numbers(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.files.lock().unwrap().keys().rev().copied().collect())
    }

    fn create(&self, number: u64) -> io::Result<Arc<dyn Log>> {
        self.0.switches.write()?;
        let log = Arc::new(RamLog { bytes: Mutex::default(), switches: self.0.switches.clone() });
        assert!(self.0.files.lock().unwrap().insert(number, log.clone()).is_none(), "a new file");
        Ok(log)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn Log>> {
        Ok(self.0.files.lock().unwrap()[&number].clone())
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        if self.0.switches.remove_error.load(SeqCst) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.0.files.lock().unwrap().remove(&number).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
}

impl Log for RamLog {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let hangs = self.switches.hangs.lock().unwrap();
        drop(self.switches.resumed.wait_while(hangs, |hangs| *hangs).unwrap());
        if self.switches.read_error.load(SeqCst) {
            return Err(io::Error::other("injected"));
        }
        let bytes = self.bytes.lock().unwrap();
        let at = usize::try_from(at).unwrap();
        let part = bytes.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn write_at(&self, new: &[u8], at: u64) -> io::Result<()> {
        self.switches.write()?;
        let mut bytes = self.bytes.lock().unwrap();
        let at = usize::try_from(at).unwrap();
        let torn =
            self.switches.torn.load(SeqCst) || (self.switches.torn_data.load(SeqCst) && new.len() > 4096);
        let new = if torn { &new[..new.len() / 2] } else { new };
        let len = bytes.len().max(at + new.len());
        bytes.resize(len, 0);
        bytes[at..at + new.len()].copy_from_slice(new);
        if torn { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.switches.write()?;
        if self.switches.truncate_error.load(SeqCst) {
            return Err(io::Error::other("injected"));
        }
        self.bytes.lock().unwrap().truncate(usize::try_from(len).unwrap());
        Ok(())
    }
}

impl Ram {
    /// Returns a device whose only file contains these bytes.
    pub(super) fn holding(bytes: Vec<u8>) -> Self {
        let ram = Self::default();
        let log = RamLog { bytes: Mutex::new(bytes), switches: ram.0.switches.clone() };
        ram.0.files.lock().unwrap().insert(1, Arc::new(log));
        ram
    }

    pub(super) fn only(&self) -> Vec<u8> {
        let files = self.0.files.lock().unwrap();
        assert_eq!(files.len(), 1);
        files.values().next().unwrap().bytes.lock().unwrap().clone()
    }

    fn bytes(&self) -> u64 {
        self.0.files.lock().unwrap().values().map(|log| log.len().unwrap()).sum()
    }
}

/// The disk tier alone, with an object of 300 bytes that it may hold as three units of 100 bytes.
pub(super) struct ThreeUnitTier {
    pub(super) disk: Disk,
    counters: Arc<Counters>,
    pub(super) object: Arc<Object>,
    content: Bytes,
}

impl ThreeUnitTier {
    pub(super) async fn over(ram: &Ram) -> Self {
        Self::with(ram, DiskConfig::new("ram", 1 << 20)).await
    }

    pub(super) async fn with(ram: &Ram, config: DiskConfig) -> Self {
        let gauge = Arc::<Gauge>::default();
        let counters = Arc::<Counters>::default();
        let disk = Disk::on(Box::new(ram.clone()), config, gauge.clone(), counters.clone()).unwrap();
        let table = Table::new(gauge);
        let key = Key::new("x").unwrap();
        let version = Version { etag: None, size: 300, modified: Some(-1) };
        let names = Names { storage: "s", key: &key, version: &version };
        let object = table.get(&"s".into(), &names).unwrap();
        disk.recovered().await;
        Self { disk, counters, object, content: conformance::pattern(3, 300) }
    }

    pub(super) async fn write_all(&self) {
        for start in [0, 100, 200] {
            self.disk.write(&self.object, start, self.expected(start..start + 100), &Weak::new());
        }
        self.disk.flush().await;
    }

    pub(super) fn expected(&self, range: Range<u64>) -> Bytes {
        self.content.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
    }

    /// Returns the number of units that the tier holds, and asserts that all their bytes are right.
    pub(super) async fn right(&self, what: &str) -> u64 {
        let mut disk_ranges = Vec::new();
        let mut holes = Vec::new();
        let mut right = 0;
        self.disk.find(self.object.id, 0..300, &mut disk_ranges, &mut holes);
        for disk_range in disk_ranges {
            if let Some(bytes) = self.disk.read(&self.object, &disk_range).await {
                assert!(bytes == self.expected(disk_range.range.clone()), "{what}: {disk_range:?}");
                right += 1;
            }
        }
        right
    }
}

/// Returns a log with three units, with or without its footer.
async fn three_units(sealed: bool) -> Vec<u8> {
    let ram = Ram::default();
    let tier = ThreeUnitTier::over(&ram).await;
    tier.write_all().await;
    if sealed {
        tier.disk.close(None).await;
    }
    ram.only()
}

#[tokio::test]
async fn a_log_cut_anywhere_keeps_the_complete_records() {
    for sealed in [false, true] {
        let whole = three_units(sealed).await;
        // Names: storage, key, no ETag, size, modification time.
        let record = usize::try_from(RECORD_HEAD).unwrap() + (8 + 1) * 2 + 8 + 8 + 1 + 8 + 100;
        let head = usize::try_from(FILE_HEAD).unwrap();
        for len in 0..=whole.len() {
            let ram = Ram::holding(whole[..len].to_vec());
            let tier = ThreeUnitTier::over(&ram).await;
            let units = len.saturating_sub(head) / record;
            let right = tier.right(&format!("sealed {sealed}, cut at {len}")).await;
            assert_eq!(right, units.min(3) as u64, "sealed {sealed}, cut at {len}");
            assert_eq!(tier.counters.disk_corrupt.get(), 0);
            // The log can be continued from there.
            tier.write_all().await;
            assert_eq!(tier.right("after it went on").await, 3);
            ram.only();
            tier.disk.close(None).await;
            assert_eq!(ThreeUnitTier::over(&ram).await.right("reopened").await, 3);
        }
    }
}

#[tokio::test]
async fn flipped_bits_never_reach_a_reader() {
    for sealed in [false, true] {
        let whole = three_units(sealed).await;
        let records = three_units(false).await.len();
        let mut lost = 0;
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let tier = ThreeUnitTier::over(&Ram::holding(flipped)).await;
            let right = tier.right(&format!("bit {bit}, sealed {sealed}")).await;
            if bit / 8 >= records {
                assert_eq!(right, 3, "bit {bit} of the footer: the records are walked");
                assert_eq!(tier.counters.disk_corrupt.get(), 0);
            }
            lost += 3 - right;
        }
        assert!(lost > 0, "bits were flipped in data");
    }
}

#[tokio::test]
async fn a_log_of_another_format_is_removed() {
    let mut newer = three_units(true).await;
    newer[8] += 1;
    let sum = xxhash_rust::xxh3::xxh3_64(&newer[..16]).to_le_bytes();
    newer[16..24].copy_from_slice(&sum);
    let ram = Ram::holding(newer);
    let tier = ThreeUnitTier::over(&ram).await;
    assert_eq!((tier.right("newer").await, tier.counters.disk_discarded.get(), ram.bytes()), (0, 1, 0));
    tier.write_all().await;
    assert_eq!(tier.right("ours").await, 3);
}

#[tokio::test]
async fn another_object_with_the_same_hash_is_not_served() {
    let ram = Ram::default();
    let tier = ThreeUnitTier::over(&ram).await;
    tier.write_all().await;
    let mut disk_ranges = Vec::new();
    let mut holes = Vec::new();
    tier.disk.find(tier.object.id, 0..100, &mut disk_ranges, &mut holes);
    let table = Table::new(Arc::default());
    let key = Key::new("y").unwrap();
    let version = tier.object.version.clone();
    let other = table.get(&"s".into(), &Names { storage: "s", key: &key, version: &version }).unwrap();
    assert!(tier.disk.read(&other, &disk_ranges[0]).await.is_none());
}

/// A cache over such a device, around an object of 1 MB.
pub(super) struct World {
    pub(super) ram: Ram,
    pub(super) cache: Cache,
    pub(super) storage: RangeCache,
    pub(super) version: Version,
    pub(super) content: Bytes,
}

impl World {
    /// Returns a world with so little memory that most reads go to the disk.
    pub(super) fn new(ram: &Ram, config: DiskConfig) -> Self {
        Self::with_memory(ram, config, 100_000)
    }

    pub(super) fn with_memory(ram: &Ram, config: DiskConfig, memory: u64) -> Self {
        let gauge = Arc::<Gauge>::default();
        let counters = Arc::<Counters>::default();
        let disk = Disk::on(Box::new(ram.clone()), config.clone(), gauge.clone(), counters.clone()).unwrap();
        let config =
            Config { memory, unit: 10_000, dir: Some(config.dir), disk: config.bytes, ..Config::default() };
        let cache = Cache::over(Store::new(config, gauge, counters, Some(disk)));
        let memory = Memory::new();
        let content = conformance::pattern(1, 1_000_000);
        let version = memory.put(Key::new("film").unwrap(), content.clone());
        let storage = cache.around(Arc::new(memory), "s");
        Self { ram: ram.clone(), cache, storage, version, content }
    }

    pub(super) fn config() -> DiskConfig {
        DiskConfig {
            retry: Duration::ZERO,
            read_timeout: Duration::from_secs(1),
            ..DiskConfig::new("ram", 8 << 20)
        }
    }

    pub(super) async fn read(&self, range: Range<u64>) -> Outcome {
        let key = Key::new("film").unwrap();
        let outcome = Arc::new(OnceLock::new());
        let request = ReadRequest::range(&key, range.clone()).pinned(&self.version);
        let read = self.storage.read(request.with_observer(outcome.clone())).await.unwrap();
        let expected = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert!(conformance::collect(read).await.unwrap() == self.content[expected]);
        while self.cache.figures().fetches > 0 {
            tokio::task::yield_now().await;
        }
        self.cache.flush().await;
        *outcome.get().unwrap()
    }
}

pub(super) const ALL: Range<u64> = 0..1_000_000;

#[tokio::test]
async fn reads_succeed_with_a_full_or_read_only_disk() {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    for kind in [StorageFull, ReadOnlyFilesystem, PermissionDenied] {
        let world = World::new(&Ram::default(), World::config());
        world.read(0..500_000).await;
        *world.ram.0.switches.write_error.lock().unwrap() = Some(kind);
        for _ in 0..2 {
            world.read(ALL).await;
        }
        let figures = world.cache.figures();
        assert!(figures.disk_errors > 0 && figures.disk_dropped_failed > 0, "{figures:?}");
        *world.ram.0.switches.write_error.lock().unwrap() = None;
        world.read(ALL).await;
        assert_eq!(world.read(ALL).await, Outcome::Hit(Tier::Disk), "{kind}: the disk is used again");
        let before = world.cache.figures().storage_bytes;
        world.read(ALL).await;
        assert_eq!(world.cache.figures().storage_bytes, before);
    }
}

#[tokio::test]
async fn half_written_records_are_overwritten() {
    let world = World::new(&Ram::default(), World::config());
    world.read(0..100_000).await;
    world.ram.0.switches.torn.store(true, SeqCst);
    world.read(100_000..300_000).await;
    world.ram.0.switches.torn.store(false, SeqCst);
    world.read(ALL).await;
    world.cache.close().await;
    let again = World::new(&world.ram, World::config());
    again.cache.recovered().await;
    again.read(ALL).await;
    assert_eq!(again.cache.figures().disk_corrupt, 0);
    assert!(again.cache.figures().disk_units > 60, "{:?}", again.cache.figures());
}

/// Media can look like records with correct sums. The remains of a failed write must never be read
/// as records.
#[tokio::test]
async fn remains_of_a_failed_write_are_never_read_as_a_record() {
    for stuck in [false, true] {
        let ram = Ram::default();
        let config = DiskConfig { retry: Duration::ZERO, ..DiskConfig::new("ram", 1 << 20) };
        let tier = ThreeUnitTier::with(&ram, config).await;
        let lie = [0xee; 100];
        let forged = encode_head(tier.object.id, &tier.object.names, 200, &lie).unwrap();
        let media = [&[0; 100], &*forged, &lie, &[0; 20_000]].concat();
        ram.0.switches.torn_data.store(true, SeqCst);
        ram.0.switches.truncate_error.store(stuck, SeqCst);
        tier.disk.write(&tier.object, 1000, media.into(), &Weak::new());
        tier.disk.flush().await;
        assert_eq!(tier.counters.disk_dropped_failed.get(), 1);
        ram.0.switches.torn_data.store(false, SeqCst);
        ram.0.switches.truncate_error.store(false, SeqCst);
        tier.disk.write(&tier.object, 0, tier.expected(0..100), &Weak::new());
        tier.disk.flush().await;
        // Copies the files, as `kill -9` would leave them.
        let copy = Ram::default();
        for (number, log) in &*ram.0.files.lock().unwrap() {
            let bytes = log.bytes.lock().unwrap().clone();
            let log = RamLog { bytes: Mutex::new(bytes), switches: copy.0.switches.clone() };
            copy.0.files.lock().unwrap().insert(*number, Arc::new(log));
        }
        assert_eq!(ThreeUnitTier::over(&copy).await.right("what was written after it").await, 1);
    }
}

#[tokio::test]
async fn files_that_cannot_be_removed_do_no_harm() {
    let ram = Ram::default();
    for number in [3, 4] {
        ram.create(number).unwrap().write_at(b"of another program, and long enough to be one", 0).unwrap();
    }
    ram.0.switches.remove_error.store(true, SeqCst);
    let config = DiskConfig { retry: Duration::ZERO, ..DiskConfig::new("ram", 1 << 20) };
    let tier = ThreeUnitTier::with(&ram, config).await;
    tier.write_all().await;
    assert_eq!((tier.right("written").await, tier.counters.disk_discarded.get()), (3, 2));
}

#[tokio::test]
async fn tiny_units_fill_the_queue() {
    let ram = Ram::default();
    let config = DiskConfig { queue: 10_000, ..DiskConfig::new("ram", 1 << 20) };
    let tier = ThreeUnitTier::with(&ram, config).await;
    let files = ram.0.files.lock().unwrap();
    for start in 0..300 {
        tier.disk.write(&tier.object, start, tier.expected(start..start + 1), &Weak::new());
    }
    drop(files);
    tier.disk.flush().await;
    let dropped = tier.counters.disk_dropped_full.get();
    assert!((200..300).contains(&dropped), "{dropped}");
    assert_eq!(tier.counters.disk_written.get() + dropped, 300);
}

#[tokio::test]
async fn an_unreadable_disk_is_left_alone_for_a_while() {
    let config = DiskConfig { retry: Duration::from_secs(3600), ..World::config() };
    let world = World::new(&Ram::default(), config);
    world.read(ALL).await;
    world.ram.0.switches.read_error.store(true, SeqCst);
    for _ in 0..5 {
        world.read(ALL).await;
    }
    let figures = world.cache.figures();
    // Three consecutive failures, plus those of reads already in flight.
    assert!((3..=6).contains(&figures.disk_errors), "{figures:?}");
    world.ram.0.switches.read_error.store(false, SeqCst);
    assert_eq!(world.read(ALL).await, Outcome::Filled, "the disk is still resting");
}

#[tokio::test(start_paused = true)]
async fn only_one_read_waits_for_a_disk_that_hangs() {
    let config = DiskConfig { retry: Duration::from_secs(3600), ..World::config() };
    let world = World::new(&Ram::default(), config);
    world.read(ALL).await;
    world.ram.0.switches.hang(true);
    let begun = tokio::time::Instant::now();
    // The paused clock stands still while a thread is busy, so the test advances it.
    let (outcome, ()) = tokio::join!(world.read(ALL), async {
        while world.cache.figures().disk_timeouts == 0 {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(outcome, Outcome::Hit(Tier::Disk), "the first outcome is the planned one");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(world.cache.figures().disk_timeouts, 1);
    assert_eq!(world.read(ALL).await, Outcome::Filled, "later reads skip the disk");
    world.ram.0.switches.hang(false);
}

#[tokio::test]
async fn corrupt_bytes_on_disk_are_read_from_storage() {
    let world = World::new(&Ram::default(), World::config());
    world.read(ALL).await;
    for log in world.ram.0.files.lock().unwrap().values() {
        let mut bytes = log.bytes.lock().unwrap();
        // Changes data of roughly every second record.
        for at in (5_000..bytes.len()).step_by(20_000) {
            bytes[at] ^= 0x10;
        }
    }
    for _ in 0..3 {
        world.read(ALL).await;
    }
    let figures = world.cache.figures();
    assert!(figures.disk_corrupt > 3, "{figures:?}");
    let before = figures.storage_bytes;
    world.read(ALL).await;
    assert_eq!(world.cache.figures().storage_bytes, before, "the units were written again");
}

#[tokio::test]
#[expect(
    clippy::await_holding_lock,
    reason = "keeps the writer's thread waiting; this thread does not need the lock"
)]
async fn a_full_queue_accepts_no_more_units() {
    let config = DiskConfig { queue: 25_000, ..World::config() };
    let world = World::new(&Ram::default(), config);
    let files = world.ram.0.files.lock().unwrap();
    // The writer waits for the files, and the queue fills up.
    let key = Key::new("film").unwrap();
    let read = world.storage.read(ReadRequest::range(&key, ALL).pinned(&world.version)).await.unwrap();
    assert!(conformance::collect(read).await.unwrap() == world.content);
    while world.cache.figures().disk_dropped_full == 0 {
        tokio::task::yield_now().await;
    }
    assert!(world.cache.figures().memory_bytes < 200_000);
    drop(files);
    world.cache.flush().await;
    let figures = world.cache.figures();
    assert_eq!(figures.disk_written + figures.disk_dropped_full, 160, "{figures:?}");
}

#[tokio::test]
async fn the_oldest_log_is_evicted_and_its_hit_units_survive() {
    // About 60 units of 10,000 bytes, 6 in each log.
    let config = DiskConfig { bytes: 700_000, ..World::config() };
    let world = World::new(&Ram::default(), config);
    let part = |n: u64| n * 10_000..(n + 1) * 10_000;
    world.read(part(0)).await;
    let mut hits = 0;
    for n in 1..100 {
        world.read(part(n)).await;
        assert!(world.ram.bytes() <= 700_000, "{} bytes on disk", world.ram.bytes());
        assert_eq!(world.cache.figures().disk_bytes, world.ram.bytes());
        if n % 15 == 0 {
            hits += u32::from(matches!(world.read(part(0)).await, Outcome::Hit(_)));
        }
    }
    let figures = world.cache.figures();
    assert_eq!(hits, 6, "the unit was hit all the time: {figures:?}");
    assert!(figures.disk_reinserted > 0 && figures.disk_evictions > 20, "{figures:?}");
    assert!(figures.disk_units > 30, "{figures:?}");
    world.cache.close().await;
    // Every log is sealed.
    for log in world.ram.0.files.lock().unwrap().values() {
        assert!(read_contents(&**log).unwrap().unwrap().sealed);
    }
}
