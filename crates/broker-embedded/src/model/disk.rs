//! A disk in memory that can crash like a real one.

use crate::disk::{Disk, DiskFile};
use parking_lot::{Mutex, MutexGuard};
use std::{collections::BTreeMap, io, path::Path, sync::Arc};

const SECTOR: usize = 512;

/// How the machine stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process was killed: what the operating system was told remains.
    Kill,
    /// The power went out: of what was not synced, any part may be missing.
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
    /// Changes until the machine stops.
    fuel: Option<u32>,
    stopped: bool,
    /// Bytes that files may still grow by, when that is limited.
    room: Option<usize>,
}

/// A disk in memory; clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(super) struct SimDisk(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    content: usize,
}

/// A source of chance that a test case can repeat.
#[derive(Debug, Clone)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

fn stopped() -> io::Error {
    io::Error::other("the machine has stopped")
}

impl Inner {
    /// Uses some fuel for a change; `false` when this change is the one that the machine stops in.
    fn burn(&mut self) -> io::Result<bool> {
        if self.stopped {
            return Err(stopped());
        }
        match &mut self.fuel {
            Some(0) => {
                self.stopped = true;
                Ok(false)
            }
            Some(fuel) => {
                *fuel -= 1;
                Ok(true)
            }
            None => Ok(true),
        }
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

    /// Lets the machine stop after this many more changes.
    pub(super) fn stop_after(&self, changes: u32) {
        self.inner().fuel = Some(changes);
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.inner().stopped
    }

    /// Limits how much files may grow, or lifts the limit.
    pub(super) fn set_room(&self, room: Option<usize>) {
        self.inner().room = room;
    }

    /// Starts the machine again with what the crash has left.
    pub(super) fn start_again(&self, crash: Crash, chance: &mut Chance) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        if crash == Crash::PowerCut {
            let states = inner.unsynced_names.len();
            match chance.below(states + 1) {
                0 => inner.names = inner.synced_names.clone(),
                n => inner.names = inner.unsynced_names[n - 1].clone(),
            }
            for content in &mut inner.contents {
                let mut left = content.synced.clone();
                for (offset, bytes) in &content.unsynced {
                    keep_some(&mut left, *offset, bytes, chance);
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
        (inner.fuel, inner.stopped) = (None, false);
    }

    /// Flips one bit in one of the files whose name passes.
    pub(super) fn flip_bit(&self, which: impl Fn(&str) -> bool, chance: &mut Chance) -> Option<String> {
        let mut inner = self.inner();
        let names: Vec<(String, usize)> =
            inner.names.iter().filter(|(name, _)| which(name)).map(|(name, n)| (name.clone(), *n)).collect();
        let (name, content) = names.get(chance.below(names.len()))?.clone();
        let content = &mut inner.contents[content];
        // Most of a segment is unused; aim at what is used.
        let used = content.now.iter().rposition(|byte| *byte != 0)? + 1;
        let bit = chance.below(used * 8);
        content.now[bit / 8] ^= 1 << (bit % 8);
        content.synced = content.now.clone();
        Some(name)
    }

    /// Cuts one of the files whose name passes short.
    pub(super) fn truncate(&self, which: impl Fn(&str) -> bool, chance: &mut Chance) -> Option<String> {
        let mut inner = self.inner();
        let names: Vec<(String, usize)> =
            inner.names.iter().filter(|(name, _)| which(name)).map(|(name, n)| (name.clone(), *n)).collect();
        let (name, content) = names.get(chance.below(names.len()))?.clone();
        let content = &mut inner.contents[content];
        let length = chance.below(content.now.len() + 1);
        content.now.truncate(length);
        content.synced = content.now.clone();
        Some(name)
    }

    /// Copies a file from another disk.
    pub(super) fn take_file(&self, from: &SimDisk, name: &str, new_name: &str) {
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

/// Applies all of a write, none of it, or some of its sectors.
fn keep_some(left: &mut Vec<u8>, offset: usize, bytes: &[u8], chance: &mut Chance) {
    let whole = chance.below(3);
    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
        if whole == 0 || (whole == 1 && chance.below(2) == 0) {
            put(left, offset + n * SECTOR, sector);
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
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
        if !inner.burn()? {
            return Err(stopped());
        }
        inner.contents.push(Content::default());
        let content = inner.contents.len() - 1;
        inner.change_names(|names| {
            names.insert(name.to_owned(), content);
        });
        Ok(Arc::new(SimFile { disk: self.clone(), content }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.inner();
        if !inner.burn()? {
            return Err(stopped());
        }
        let content = *inner.names.get(from).ok_or(io::ErrorKind::NotFound)?;
        inner.change_names(|names| {
            names.remove(from);
            names.insert(to.to_owned(), content);
        });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.inner();
        if !inner.burn()? {
            return Err(stopped());
        }
        let content = *inner.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        inner.change_names(|names| {
            names.remove(name);
        });
        let freed = inner.contents[content].now.len();
        if let Some(room) = &mut inner.room {
            *room += freed;
        }
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut inner = self.inner();
        if !inner.burn()? {
            return Err(stopped());
        }
        inner.synced_names = inner.names.clone();
        inner.unsynced_names.clear();
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        Ok(self.inner().room.map_or(u64::MAX, |room| room as u64))
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
        let whole = inner.burn()?;
        // The write that the machine stops in gets half of the way.
        let bytes = if whole { buffer } else { &buffer[..buffer.len() / 2] };
        let growth = (offset as usize + bytes.len()).saturating_sub(inner.contents[self.content].now.len());
        match &mut inner.room {
            Some(room) if *room < growth => return Err(io::ErrorKind::StorageFull.into()),
            Some(room) => *room -= growth,
            None => {}
        }
        let content = &mut inner.contents[self.content];
        put(&mut content.now, offset as usize, bytes);
        content.unsynced.push((offset as usize, bytes.to_vec()));
        if whole { Ok(()) } else { Err(stopped()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut inner = self.disk.inner();
        if !inner.burn()? {
            return Err(stopped());
        }
        let content = &mut inner.contents[self.content];
        content.synced = content.now.clone();
        content.unsynced.clear();
        Ok(())
    }
}
