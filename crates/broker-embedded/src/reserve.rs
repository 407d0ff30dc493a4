//! Some disk space held back, so that settling still works when the disk is full: settling makes room.

use crate::disk::{Disk, preallocate};

pub(crate) const FILE: &str = "reserve";

/// Takes the space, if the disk has it, and says whether it did. It may take a while.
pub(crate) fn take(disk: &dyn Disk, size: u64) -> bool {
    if disk.free().is_ok_and(|free| free < size) {
        return false;
    }
    let taken = disk.create(FILE).and_then(|file| preallocate(&*file, size).and_then(|()| file.sync()));
    if taken.is_err() {
        let _ = disk.remove(FILE);
    }
    taken.is_ok()
}

/// The space held back.
#[derive(Debug)]
pub(crate) struct Reserve {
    held: bool,
    /// It could not be taken when that was last tried.
    wanting: bool,
}

impl Reserve {
    /// `held` says whether the file of an earlier run is there.
    pub(crate) fn new(held: bool) -> Self {
        Self { held, wanting: false }
    }

    /// Whether the space is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the disk had no room for it.
    pub(crate) fn is_wanting(&self) -> bool {
        self.wanting
    }

    /// Notes whether the space was taken.
    pub(crate) fn filled(&mut self, taken: bool) {
        (self.held, self.wanting) = (taken, !taken);
    }

    /// Gives the space back to the disk; `false` if there was none to give.
    pub(crate) fn release(&mut self, disk: &dyn Disk) -> bool {
        std::mem::take(&mut self.held) && disk.remove(FILE).is_ok()
    }
}
