//! Simulated disk with crashes, torn writes and a space limit.

use crate::disk::{Disk, DiskFile};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, io, path::Path, sync::Arc};

const SECTOR: usize = 512;

/// Kind of crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process is killed: all writes survive.
    Kill,
    /// The power is cut: any part of the unsynced writes may be lost.
    PowerCut,
}

#[derive(Debug, Default, Clone)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct Inner {
    contents: Vec<Content>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// States of the directory since its last sync, oldest first.
    unsynced_names: Vec<BTreeMap<String, usize>>,
    /// Number of changes until the simulated machine stops.
    changes_left: Option<u32>,
    stopped: bool,
    /// Free space in bytes, if limited.
    free_space: Option<usize>,
}

/// Simulated disk; clones share their contents.
#[derive(Debug, Clone, Default)]
pub(super) struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    content: usize,
}

/// Random number generator with a reproducible seed.
#[derive(Debug, Clone)]
pub(super) struct SeededRng(pub(super) u64);

impl SeededRng {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

fn stopped() -> io::Error {
    io::Error::other("the machine has stopped")
}

impl Inner {
    /// Consumes a change; `false` if the machine stops during it.
    fn consume_change(&mut self) -> io::Result<bool> {
        if self.stopped {
            return Err(stopped());
        }
        match &mut self.changes_left {
            Some(0) => {
                self.stopped = true;
                Ok(false)
            }
            Some(changes_left) => {
                *changes_left -= 1;
                Ok(true)
            }
            None => Ok(true),
        }
    }

    fn begin_change(&mut self) -> io::Result<()> {
        if self.consume_change()? { Ok(()) } else { Err(stopped()) }
    }

    fn change_names(&mut self, change: impl FnOnce(&mut BTreeMap<String, usize>)) {
        change(&mut self.names);
        self.unsynced_names.push(self.names.clone());
    }
}

impl SimDisk {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Stops the machine after this many more changes.
    pub(super) fn stop_after(&self, changes: u32) {
        self.inner().changes_left = Some(changes);
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.inner().stopped
    }

    /// Sets or lifts the space limit.
    pub(super) fn set_free_space(&self, free_space: Option<usize>) {
        self.inner().free_space = free_space;
    }

    /// Restarts the machine with the data that survives the crash.
    pub(super) fn restart(&self, crash: Crash, rng: &mut SeededRng) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        if crash == Crash::PowerCut {
            let states = inner.unsynced_names.len();
            match rng.below(states + 1) {
                0 => inner.names = inner.synced_names.clone(),
                n => inner.names = inner.unsynced_names[n - 1].clone(),
            }
            for content in &mut inner.contents {
                let mut left = content.synced.clone();
                for (offset, bytes) in &content.unsynced {
                    apply_torn_write(&mut left, *offset, bytes, rng);
                }
                content.now = left;
            }
        }
        for content in &mut inner.contents {
            content.synced = content.now.clone();
            content.unsynced.clear();
        }
        inner.synced_names = inner.names.clone();
        inner.unsynced_names.clear();
        (inner.changes_left, inner.stopped) = (None, false);
    }

    /// Flips a bit in one of the matching files.
    pub(super) fn flip_bit(&self, which: impl Fn(&str) -> bool, rng: &mut SeededRng) {
        self.corrupt(which, rng, |bytes, rng| {
            // Most of a segment is unused, so the bit is chosen from the used part.
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                let bit = rng.below((last + 1) * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        });
    }

    /// Truncates one of the matching files.
    pub(super) fn truncate(&self, which: impl Fn(&str) -> bool, rng: &mut SeededRng) {
        self.corrupt(which, rng, |bytes, rng| bytes.truncate(rng.below(bytes.len() + 1)));
    }

    fn corrupt(
        &self,
        which: impl Fn(&str) -> bool,
        rng: &mut SeededRng,
        change: impl FnOnce(&mut Vec<u8>, &mut SeededRng),
    ) {
        let mut inner = self.inner();
        let files: Vec<usize> =
            inner.names.iter().filter(|(name, _)| which(name)).map(|(_, number)| *number).collect();
        if let Some(number) = files.get(rng.below(files.len())) {
            let content = &mut inner.contents[*number];
            change(&mut content.now, rng);
            content.synced = content.now.clone();
        }
    }

    /// Copies a file from another disk.
    pub(super) fn copy_file(&self, from: &SimDisk, name: &str, new_name: &str) {
        let content = {
            let from = from.inner();
            from.contents[from.names[name]].clone()
        };
        let mut inner = self.inner();
        inner.contents.push(content);
        let number = inner.contents.len() - 1;
        inner.names.insert(new_name.to_owned(), number);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.inner().names.keys().cloned().collect()
    }
}

/// Applies all sectors of a write, none, or a random part.
fn apply_torn_write(left: &mut Vec<u8>, offset: usize, bytes: &[u8], rng: &mut SeededRng) {
    let whole = rng.below(3);
    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
        if whole == 0 || (whole == 1 && rng.below(2) == 0) {
            write_bytes(left, offset + n * SECTOR, sector);
        }
    }
}

fn write_bytes(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.inner().names.keys().filter(|name| !name.contains('/')).cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let content = *self.inner().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), content }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut inner = self.inner();
        inner.begin_change()?;
        inner.contents.push(Content::default());
        let content = inner.contents.len() - 1;
        inner.change_names(|names| {
            names.insert(name.to_owned(), content);
        });
        Ok(Arc::new(SimFile { disk: self.clone(), content }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.begin_change()?;
        let content = *inner.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        inner.change_names(|names| {
            names.remove(from);
            names.insert(to.to_owned(), content);
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        inner.begin_change()?;
        let content = *inner.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        inner.change_names(|names| {
            names.remove(name);
        });
        let freed = inner.contents[content].now.len();
        if let Some(free_space) = &mut inner.free_space {
            *free_space += freed;
        }
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.begin_change()?;
        inner.synced_names = inner.names.clone();
        inner.unsynced_names.clear();
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        Ok(self.inner().free_space.map_or(u64::MAX, |free_space| free_space as u64))
    }

    fn path(&self) -> &Path {
        Path::new("simulated")
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.inner().contents[self.content].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let inner = self.disk.inner();
        let content = &inner.contents[self.content].now;
        let start = (offset as usize).min(content.len());
        let length = buffer.len().min(content.len() - start);
        buffer[..length].copy_from_slice(&content[start..start + length]);
        Ok(length)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.disk.inner();
        let whole = inner.consume_change()?;
        // The write during which the machine stops is half done.
        let bytes = if whole { buffer } else { &buffer[..buffer.len() / 2] };
        let growth = (offset as usize + bytes.len()).saturating_sub(inner.contents[self.content].now.len());
        match &mut inner.free_space {
            Some(free_space) if *free_space < growth => return Err(io::ErrorKind::StorageFull.into()),
            Some(free_space) => *free_space -= growth,
            None => {}
        }
        let content = &mut inner.contents[self.content];
        write_bytes(&mut content.now, offset as usize, bytes);
        content.unsynced.push((offset as usize, bytes.to_vec()));
        if whole { Ok(()) } else { Err(stopped()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.inner();
        inner.begin_change()?;
        let content = &mut inner.contents[self.content];
        content.synced = content.now.clone();
        content.unsynced.clear();
        Ok(())
    }
}
