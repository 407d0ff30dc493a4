//! What outlives the process: when its last requests can have been, and which groups blocked us.
//!
//! The gate must keep its word across any end of the process, a kill included. So the [`Mark`] says until when
//! requests can have been made, for all groups at once, and the [`Book`] which groups are to be left alone. Who opens
//! the directory next lets every group wait a gap from the mark, or from the opening where that is earlier: a
//! mark far in the future, from a clock that was wrong, costs one gap and no more. What only a power cut can lose
//! is what the operating system had not written yet.

use super::{
    book::Book,
    mark::{Bounds, Found, Mark},
    trouble::Note,
};
use crawlway_lock::{DirectoryLock, LockError};
use crawlway_store::{GateError, Group, Policy, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use std::{fs, io, path::Path};

/// The directory of a gate, while it is ours.
#[derive(Debug)]
pub(super) struct Life {
    mark: Mark,
    book: Mutex<Book>,
    before: Mutex<Before>,
    // Last, so that it is released when all is written.
    _lock: DirectoryLock,
}

/// When requests of earlier processes were at the latest. A group of which nothing is known may have been theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Before {
    pub(super) last_start: Option<Timestamp>,
    pub(super) last_end: Option<Timestamp>,
}

impl Before {
    /// The later of both.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            last_start: self.last_start.max(other.last_start),
            last_end: self.last_end.max(other.last_end),
        }
    }

    /// What lies in the future can only have been until now.
    fn not_after(self, now: Timestamp) -> Self {
        let earlier = |time: Timestamp| time.min(now);
        Self { last_start: self.last_start.map(earlier), last_end: self.last_end.map(earlier) }
    }
}

impl Life {
    /// Takes the directory, which is made if there is none, and says which permit ids were given before.
    pub(super) fn open(directory: &Path, now: Timestamp, policy: &Policy) -> Result<(Self, u64), GateError> {
        fs::create_dir_all(directory).map_err(|error| unavailable("make", directory, &error))?;
        let lock = DirectoryLock::take(directory).map_err(|error| not_ours(directory, &error))?;
        let (mark, found) = Mark::open(directory, policy.lease)?;
        let (before, ids) = match found {
            Found::Nothing => (Before::default(), 0),
            Found::Garbage => {
                tracing::warn!(
                    directory = %directory.display(),
                    "the gate's mark is unreadable, so every group waits one gap from now on"
                );
                (Before { last_start: Some(now), last_end: Some(now) }, 0)
            }
            Found::Bounds(Bounds { starts, ends, ids }) => {
                (Before { last_start: Some(starts), last_end: Some(ends) }.not_after(now), ids)
            }
        };
        if let Before { last_start: Some(starts), last_end: Some(ends) } = before {
            // The earlier process has ended by now, and who comes after this one need not wait for longer.
            mark.settle(Bounds { starts, ends, ids });
        }
        let book = Mutex::new(Book::open(directory, now, policy.grudge)?);
        Ok((Self { mark, book, before: Mutex::new(before), _lock: lock }, ids))
    }

    /// The groups that are in trouble.
    pub(super) fn troubles(&self) -> Vec<(Group, Note)> {
        self.book().notes().map(|(group, note)| (group.clone(), *note)).collect()
    }

    /// When requests of earlier processes were at the latest.
    pub(super) fn before(&self, now: Timestamp) -> Before {
        let mut before = self.before.lock();
        // Follows a clock that was set back, once and for all groups.
        *before = before.not_after(now);
        *before
    }

    /// Makes sure that the next process will know of a permit of this id, which lasts until then.
    pub(super) fn cover(&self, until: Timestamp, id: u64) {
        self.mark.cover(until, id);
    }

    /// Writes down how it stands with a group.
    pub(super) fn write(&self, group: &Group, note: Option<Note>, now: Timestamp) {
        self.book().write(group, note, now);
    }

    /// Leaves behind exactly what was.
    pub(super) fn close(&self, last: Before, ids: u64, now: Timestamp) {
        let last = last.max(self.before(now));
        self.book().close(now);
        if let Before { last_start: Some(starts), last_end: Some(ends) } = last {
            self.mark.settle(Bounds { starts, ends, ids });
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }
}

/// Why the directory cannot be had.
fn not_ours(directory: &Path, error: &LockError) -> GateError {
    let holder = match error {
        LockError::Io { doing, path, error } => return unavailable(doing, path, error),
        LockError::InUse { holder } => holder.map(|id| format!(", number {id}")).unwrap_or_default(),
    };
    GateError::Unavailable {
        detail: format!(
            "directory `{}` is in use by another process{holder}; stop that one first, or use another directory",
            directory.display()
        ),
    }
}

pub(super) fn unavailable(doing: &str, path: &Path, error: &io::Error) -> GateError {
    GateError::Unavailable {
        detail: format!(
            "cannot {doing} `{}`: {error}; see to its permissions, or use another directory",
            path.display()
        ),
    }
}
