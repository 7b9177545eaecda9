//! Files that are kept open for the next read.

use crate::Key;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

/// Maximum number of descriptors kept open between reads.
const OPEN_FILES: usize = 64;

/// Recently opened files, so that most reads need neither an open nor a path walk.
#[derive(Default)]
pub(super) struct OpenFiles {
    files: HashMap<Key, OpenFile>,
    clock: u64,
}

struct OpenFile {
    inode: (u64, u64),
    file: Arc<File>,
    used: u64,
}

impl OpenFiles {
    pub(super) fn get(&mut self, key: &Key, inode: (u64, u64)) -> Option<Arc<File>> {
        self.clock += 1;
        let open = self.files.get_mut(key).filter(|open| open.inode == inode)?;
        open.used = self.clock;
        Some(Arc::clone(&open.file))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.files.remove(key);
    }

    pub(super) fn put(&mut self, key: &Key, inode: (u64, u64), file: Arc<File>) {
        if self.files.len() >= OPEN_FILES && !self.files.contains_key(key) {
            let oldest = self.files.iter().min_by_key(|(_, open)| open.used).map(|(key, _)| key.clone());
            oldest.map(|key| self.files.remove(&key));
        }
        self.files.insert(key.clone(), OpenFile { inode, file, used: self.clock });
    }
}
