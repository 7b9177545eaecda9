//! Measures what an object costs: CPU time of this thread and peak memory, for its index, its title
//! and each of its manifests. The memory of a stage includes that of the stages before it which it
//! needs: a title is in memory while its manifest is made.

use bytes::Bytes;
use latemux_index::{Title, media::fragment_samples::NoFragments};
use latemux_packager::{
    Address, Resource,
    address::{DashTemplate, HlsContainer},
    plan,
};
use latemux_testmedia::origin::index;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

/// An allocator that counts the bytes in use.
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above; `at` comes from `alloc`, and so from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

/// CPU time and peak memory of one piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub nanos: u64,
    pub bytes: usize,
}

/// Returns the CPU time of this thread in nanoseconds.
pub fn cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes to `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Measures work. Memory counts from `before`, the number of bytes in use before the first stage.
fn measured<T>(before: usize, work: impl FnOnce() -> T) -> (T, Cost) {
    PEAK.store(LIVE.load(Relaxed), Relaxed);
    let began = cpu_nanos();
    let result = work();
    let nanos = cpu_nanos() - began;
    (result, Cost { nanos, bytes: PEAK.load(Relaxed).saturating_sub(before) })
}

/// Costs of an object: of its index, its title, and each of its manifests.
pub fn costs(object: &Bytes) -> Vec<(String, Cost)> {
    let before = LIVE.load(Relaxed);
    let (index, cost) = measured(before, || index(object));
    let mut costs = vec![("index".to_owned(), cost)];
    let Ok(index) = index else { return costs };
    let (title, cost) = measured(before, || Title::new(vec![Arc::new(index)], Duration::from_secs(4)));
    costs.push(("title".to_owned(), cost));
    let Ok(title) = title else { return costs };
    for (name, resource) in manifests(&title) {
        for query in [None, Some("vbegin=1.5")] {
            let mut address = Address::new("x", resource.clone());
            if let Some(query) = query {
                let url = format!(
                    "{}{}{query}",
                    address.to_url(),
                    if address.to_url().contains('?') { "&" } else { "?" }
                );
                let (path, query) = url.split_once('?').unwrap_or((&url, ""));
                let Ok(clipped) = Address::parse(path, Some(query)) else { continue };
                address = clipped;
            }
            let (_, cost) = measured(before, || plan(&title, &address, &NoFragments).is_ok());
            costs.push((format!("{name}{}", query.map_or("", |_| " clipped")), cost));
        }
    }
    costs
}

/// Returns one manifest of each form, and those of the first tracks.
fn manifests(title: &Title) -> Vec<(&'static str, Resource)> {
    let mut all = vec![
        ("dash", Resource::DashManifest(DashTemplate::Time)),
        ("smooth", Resource::SmoothManifest),
        ("hds", Resource::HdsManifest),
        ("hls", Resource::HlsMultivariant(HlsContainer::Auto)),
        ("hls cmaf", Resource::HlsMultivariant(HlsContainer::Cmaf)),
    ];
    let names: Vec<_> = title.tracks().iter().map(|track| track.name.clone()).collect();
    let longest = title.tracks().iter().enumerate().max_by_key(|(_, track)| track.segment_count());
    for at in [Some(0), longest.map(|(at, _)| at)].into_iter().flatten() {
        let Some(name) = names.get(at) else { continue };
        all.push(("playlist", Resource::HlsPlaylist(vec![name.clone()], HlsContainer::Auto)));
        all.push(("iframes", Resource::HlsIFramePlaylist(name.clone(), HlsContainer::Auto)));
    }
    all
}
