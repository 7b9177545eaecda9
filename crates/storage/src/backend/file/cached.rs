//! Calls that succeed only if the kernel has everything in memory, and so never wait for a disk.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// Returns the metadata of a file if its whole path is in the kernel's memory.
#[cfg(target_os = "linux")]
pub(super) fn cached_metadata(path: &Path) -> Option<Metadata> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    // PATH refers to the file without opening it, which has no effect on a device.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // Kernels before 5.12 reject the flag.
    let place = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED).ok()?;
    File::from(place).metadata().ok()
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn cached_metadata(_: &Path) -> Option<Metadata> {
    None
}

/// Opens a file if its whole path is in the kernel's memory and has no links. The path begins with
/// the canonical root, so without links it cannot leave the root.
#[cfg(target_os = "linux")]
pub(super) fn open_cached(path: &Path) -> Option<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    // Without NONBLOCK, opening a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_SYMLINKS;
    openat2(CWD, path, flags, Mode::empty(), resolve).ok().map(File::from)
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn open_cached(_: &Path) -> Option<File> {
    None
}

/// Returns true for file systems whose files this kernel opens alone. File systems in user space
/// and on the network ask another process or machine, even if the path is in memory.
#[cfg(target_os = "linux")]
pub(super) fn is_on_local_disk(path: &Path) -> bool {
    // ext2 to ext4, XFS, Btrfs, F2FS, ZFS and tmpfs, see statfs(2).
    const LOCAL: [rustix::fs::FsWord; 6] =
        [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994];
    rustix::fs::statfs(path).is_ok_and(|found| LOCAL.contains(&found.f_type))
}

/// Other systems cannot open files without waiting.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_on_local_disk(_: &Path) -> bool {
    false
}

/// Fills `buffer` with the bytes at `at`. Returns false if that would have to wait.
#[cfg(target_os = "linux")]
pub(super) fn read_cached(file: &File, buffer: &mut [u8], at: u64) -> bool {
    let len = buffer.len();
    let buffers = &mut [io::IoSliceMut::new(buffer)];
    rustix::io::preadv2(file, buffers, at, rustix::io::ReadWriteFlags::NOWAIT) == Ok(len)
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_cached(_: &File, _: &mut [u8], _: u64) -> bool {
    false
}
