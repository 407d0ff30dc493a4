//! Some disk space held back, so that settling still works when the disk is full: settling makes room.

use crate::disk::{Disk, preallocate};

pub(crate) const FILE: &str = "reserve";

/// The space held back.
#[derive(Debug)]
pub(crate) struct Reserve {
    size: u64,
    held: bool,
}

impl Reserve {
    /// `held` says whether the file of an earlier run is there.
    pub(crate) fn new(size: u64, held: bool) -> Self {
        Self { size, held }
    }

    /// Whether the space is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Takes the space, if it is not held and the disk has it.
    pub(crate) fn fill(&mut self, disk: &dyn Disk) {
        if self.held || disk.free().is_ok_and(|free| free < self.size) {
            return;
        }
        let taken =
            disk.create(FILE).and_then(|file| preallocate(&*file, self.size).and_then(|()| file.sync()));
        self.held = taken.is_ok();
        if !self.held {
            let _ = disk.remove(FILE);
        }
    }

    /// Gives the space back to the disk; `false` if there was none to give.
    pub(crate) fn release(&mut self, disk: &dyn Disk) -> bool {
        std::mem::take(&mut self.held) && disk.remove(FILE).is_ok()
    }
}
