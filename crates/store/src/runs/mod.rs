//! Ingestion runs: each crawls the job pages of some companies once, with an outcome per job.
//!
//! # States of a run
//!
//! ```text
//! start ─▶ queued ─ add_jobs ─▶ running ─ seal ─▶ sealed ─ finalise, no job is open ─▶ finalised
//!             └──────────────────┴── abort ────────┴─▶ aborted
//! ```
//!
//! A run is *sealed* when ingestion has added and queued all its jobs. Exactly one call of [`finalise`](RunStore::finalise)
//! finalises it. An aborted run takes no jobs; its open jobs are settled as [`Aborted`](JobOutcome::Aborted). A run is *finished* when it is
//! finalised, or aborted and none of its jobs is open: it has an end time and final counts.
//!
//! # States of a job in a run
//!
//! ```text
//! add_jobs ─▶ open, stage crawl ─ store_version ─▶ open, stage extract ─ settle ─▶ settled: stored
//!                   └─ settle ─▶ settled: unchanged, closed, failed, skipped, aborted, dead, dropped, expired
//! ```
//!
//! A job is settled once: a redelivered message gets the outcome of the first call. The exceptions are
//! [`Dead`](JobOutcome::Dead), [`Dropped`](JobOutcome::Dropped) and [`Expired`](JobOutcome::Expired), which say that the message is gone. If it comes
//! back, by a replay or because it was only late, the job can be settled again, which *amends* the counts. A run that is finished stays so.
//!
//! # Circuit breaker
//!
//! Each job that is settled as [`Failed`](JobOutcome::Failed) counts one failure of its company in its run, in the same transaction. With the last of
//! [`NewRun::max_failures`] the breaker of the company opens, until the end of the run. Failures and open breakers are in
//! [`RunMetadata`].
//!
//! # Versions
//!
//! A *version* of a job is its stored page: SimHash and blob. [`store_version`](RunStore::store_version) replaces the version that the caller has
//! compared with, and no other (compare-and-swap). The order that loses nothing is: blob → `store_version` → publish to the extractor → settle the
//! message. A redelivery in between finds the job in the stage `extract`, and needs no second fetch.

mod job;
mod list;
mod metadata;
mod run;
mod settle;

pub use job::{
    AddOutcome, Extraction, InvalidJobKey, Job, JobKey, JobOutcome, JobStage, JobStatus, JobVersion,
    MAX_KEY_BYTES, NewJob,
};
pub use list::{
    InvalidRunCursor, JobFilter, MAX_PAGE_SIZE, RunCursor, RunJob, RunJobPage, RunJobQuery, RunPage, RunQuery,
};
pub use metadata::{OutcomeCounts, RunMetadata};
pub use run::{AbortOutcome, FinaliseOutcome, NewRun, Run, RunState, StartOutcome};
pub use settle::{JobCheck, NextStep, SettleOutcome, Settlement, StoreVersionOutcome};

use crate::StoreError;
use std::{fmt::Debug, time::Duration};

/// Maximum number of elements in a batch.
pub const MAX_BATCH: usize = 5000;

/// Ingestion runs and their jobs, shared by all processes.
///
/// Batches are answered in order, one answer per element, and are atomic. A job may occur in a batch of settlements only once. Every call is
/// idempotent, so that it can be repeated after an error. All times are those of the store's own clock.
#[async_trait::async_trait]
pub trait RunStore: Debug + Send + Sync {
    /// Starts a run. Durable when this returns.
    async fn start(&self, run: &NewRun) -> Result<StartOutcome, StoreError>;

    /// Adds a batch of jobs to a run, and upserts their records: URL and title are replaced, `error_message` is cleared. `None` if the run
    /// takes no jobs: it is unknown, sealed, aborted or finalised. Durable when this returns.
    ///
    /// A job that the run has is unchanged. The first of several jobs with one key counts.
    async fn add_jobs(&self, run: &str, jobs: &[NewJob]) -> Result<Option<Vec<AddOutcome>>, StoreError>;

    /// Records that the jobs up to this position are queued, so that a killed ingestion goes on after it ([`Run::queued_position`]). Never goes back.
    async fn set_queued_position(&self, run: &str, position: u64) -> Result<(), StoreError>;

    /// Seals a run: it has all its jobs. Returns the run; `None` if it is unknown. An aborted or finished run is unchanged.
    async fn seal(&self, run: &str) -> Result<Option<Run>, StoreError>;

    /// State of a run and of one of its jobs, in one read, before the job is processed. `None` if the run is unknown.
    async fn check(&self, run: &str, job: &JobKey) -> Result<Option<JobCheck>, StoreError>;

    /// Replaces the version of a job and hands it to the stage `extract`, if its present version has the SimHash `expected`.
    async fn store_version(
        &self,
        run: &str,
        job: &JobKey,
        expected: Option<i64>,
        version: &JobVersion,
    ) -> Result<StoreVersionOutcome, StoreError>;

    /// Settles jobs of a run, counts failures and opens breakers. The result of an extraction is stored also for a job that is settled as
    /// stored: a replay of the extractor. Durable when this returns.
    async fn settle(&self, run: &str, settlements: &[Settlement]) -> Result<Vec<SettleOutcome>, StoreError>;

    /// Finalises a sealed run, or finishes an aborted one, if none of its jobs is open. Cheap while jobs are open, so that it can be called
    /// after each settlement.
    async fn finalise(&self, run: &str) -> Result<FinaliseOutcome, StoreError>;

    /// Aborts a run, and settles its open jobs as aborted, in batches. Repeat it after an error; it goes on.
    async fn abort(&self, run: &str) -> Result<AbortOutcome, StoreError>;

    /// A run with its counts.
    async fn run(&self, run: &str) -> Result<Option<Run>, StoreError>;

    /// Runs with their counts, the newest first.
    async fn runs(&self, query: &RunQuery) -> Result<RunPage, StoreError>;

    /// Jobs of a run by position.
    async fn jobs(&self, run: &str, query: &RunJobQuery) -> Result<RunJobPage, StoreError>;

    /// Record of a job.
    async fn job(&self, job: &JobKey) -> Result<Option<Job>, StoreError>;

    /// Deletes up to `max` jobs of runs that finished at least this long ago: their places in the run, not their records. The run stays, with
    /// its counts, and is [expired](Run::expired_at). Returns how many; call it again at once if that is `max`.
    async fn purge(&self, min_age: Duration, max: usize) -> Result<usize, StoreError>;

    /// Readiness check: whether the store answers.
    async fn ready(&self) -> Result<(), StoreError>;
}
