//! Disk space reserve: freed when the disk is full, so that messages can still be settled, which frees more.

use crate::disk::{Disk, preallocate};

pub(crate) const FILE: &str = "reserve";

/// Allocates the reserve if the disk has room; returns whether it did. Slow.
pub(crate) fn allocate(disk: &dyn Disk, size: u64) -> bool {
    if disk.free().is_ok_and(|free| free < size) {
        return false;
    }
    let taken = disk.create(FILE).and_then(|file| preallocate(&*file, size).and_then(|()| file.sync()));
    if taken.is_err() {
        let _ = disk.remove(FILE);
    }
    taken.is_ok()
}

/// State of the disk space reserve.
#[derive(Debug)]
pub(crate) struct Reserve {
    /// Whether it is allocated.
    pub(crate) held: bool,
    /// Whether the disk had no room at the last allocation.
    pub(crate) missing: bool,
}

impl Reserve {
    /// Frees the reserve; `false` if there was none.
    pub(crate) fn release(&mut self, disk: &dyn Disk) -> bool {
        std::mem::take(&mut self.held) && disk.remove(FILE).is_ok()
    }
}
