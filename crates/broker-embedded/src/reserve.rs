//! Some disk space held back, so that settling still works when the disk is full: settling makes room.

use crate::disk::{Disk, preallocate};

pub(crate) const FILE: &str = "reserve";

/// The space held back.
#[derive(Debug)]
pub(crate) struct Reserve {
    size: u64,
    held: bool,
    /// It could not be taken when that was last tried.
    wanting: bool,
}

impl Reserve {
    /// `held` says whether the file of an earlier run is there.
    pub(crate) fn new(size: u64, held: bool) -> Self {
        Self { size, held, wanting: false }
    }

    /// Whether the space is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the disk had no room for it.
    pub(crate) fn is_wanting(&self) -> bool {
        self.wanting
    }

    /// Takes the space, if it is not held and the disk has it.
    pub(crate) fn fill(&mut self, disk: &dyn Disk) {
        if self.held {
            return;
        }
        self.wanting = true;
        if disk.free().is_ok_and(|free| free < self.size) {
            return;
        }
        let taken =
            disk.create(FILE).and_then(|file| preallocate(&*file, self.size).and_then(|()| file.sync()));
        self.held = taken.is_ok();
        self.wanting = !self.held;
        if !self.held {
            let _ = disk.remove(FILE);
        }
    }

    /// Gives the space back to the disk; `false` if there was none to give.
    pub(crate) fn release(&mut self, disk: &dyn Disk) -> bool {
        std::mem::take(&mut self.held) && disk.remove(FILE).is_ok()
    }
}
