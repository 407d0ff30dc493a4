//! A run: settings, state, counts.

use super::{OutcomeCounts, RunMetadata, job::named};
use crate::Timestamp;
use std::time::Duration;

named! {
    /// State of a run.
    RunState {
        /// Without jobs yet.
        Queued = "queued",
        /// Jobs are being added and processed.
        Running = "running",
        /// All jobs are added, some are open.
        Sealed = "sealed",
        /// All jobs are settled.
        Finalised = "finalised",
        /// Aborted.
        Aborted = "aborted",
    }
}

impl RunState {
    /// Whether jobs can be added.
    pub const fn takes_jobs(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Unique id.
    pub id: String,
    /// Where the jobs come from, such as the name of a file.
    pub source: Option<String>,
    /// Whether the run belongs to the test database.
    pub use_test_db: bool,
    /// Failures of a company that open its breaker; 0 for no breaker.
    pub max_failures: u32,
}

impl NewRun {
    /// Metadata at the start.
    pub fn metadata(&self) -> RunMetadata {
        let source = self.source.as_deref().map(|source| source.replace('\0', "\u{fffd}"));
        RunMetadata { source, max_failures: self.max_failures, ..RunMetadata::default() }
    }
}

/// Outcome of [`RunStore::start`](super::RunStore::start).
#[derive(Debug, Clone, PartialEq)]
pub enum StartOutcome {
    /// The run is started.
    Started(Run),
    /// There is a run with this id, which is unchanged.
    Exists(Run),
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Unique id.
    pub id: String,
    /// State.
    pub state: RunState,
    /// Whether it belongs to the test database.
    pub use_test_db: bool,
    /// Failures and open breakers.
    pub metadata: RunMetadata,
    /// Number of jobs so far, without duplicates.
    pub jobs: u64,
    /// Position in the source up to which jobs are queued.
    pub queued_position: u64,
    /// Jobs by outcome.
    pub counts: OutcomeCounts,
    /// Time of the start.
    pub started_at: Timestamp,
    /// When all jobs were added.
    pub sealed_at: Option<Timestamp>,
    /// When it was finalised, or the last job of the aborted run was settled.
    pub finished_at: Option<Timestamp>,
    /// When the retention of its jobs was over, and they began to be deleted.
    pub expired_at: Option<Timestamp>,
}

impl Run {
    /// Time from the start to the end.
    pub fn duration(&self) -> Option<Duration> {
        self.finished_at.map(|finished| finished.since(self.started_at))
    }
}

/// Outcome of [`RunStore::finalise`](super::RunStore::finalise).
#[derive(Debug, Clone, PartialEq)]
pub enum FinaliseOutcome {
    /// This call finished the run; exactly one call gets this answer.
    Finished(Box<Run>),
    /// Some jobs are open, or are still to be added.
    Open,
    /// The run was finished before.
    AlreadyFinished,
    /// The run is unknown.
    Unknown,
}

/// Outcome of [`RunStore::abort`](super::RunStore::abort).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortOutcome {
    /// This call aborted the run.
    Aborted,
    /// The run was aborted before.
    AlreadyAborted,
    /// The run was finalised at this time, and is unchanged.
    Finalised(Timestamp),
    /// The run is unknown.
    Unknown,
}
