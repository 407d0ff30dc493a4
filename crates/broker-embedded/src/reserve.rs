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
    pub(crate) fn new(size: u64) -> Self {
        Self { size, held: false }
    }

    /// Takes the space, if it is not held and the disk has it.
    pub(crate) fn fill(&mut self, disk: &dyn Disk) {
        if self.held {
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
